"""The runs of a sweep: which there are, and how far each is.

runs/NAME-table3/
    base.toml                    the base configuration that all rows change
    base-seed0/ A1-seed0/ …      ordinary run directories, each with log.txt, and finished.json once trained to its end
    table3.{json,md,csv,png}     the results
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from vaswani import config as config_module
from vaswani.ablation.rows import Row, with_seed
from vaswani.data.prepare import PreparedCorpus
from vaswani.errors import UserError
from vaswani.evaluation.bleu import read_evaluation
from vaswani.files import read_json, write_json, write_text
from vaswani.runs import checkpoints
from vaswani.runs.directory import RunDirectory
from vaswani.runs.events import read_events
from vaswani.schema import MAY_DIFFER, Config


@dataclass(frozen=True)
class Run:
    """One training: a row and the number of its seed."""

    name: str
    config: Config
    directory: RunDirectory
    set_name: str
    """The set that it is to be scored on."""

    def steps(self) -> int:
        """Updates made so far; logged ones, so a few may be lost with a process that was killed."""
        return max((event["step"] for event in read_events(self.directory.metrics_path)), default=0)

    def speed(self) -> tuple[Config, int, float] | None:
        """Updates and the seconds they took, validation included; None before the first are logged."""
        timed = [event for event in read_events(self.directory.metrics_path) if event.get("elapsed_s")]
        last = max(timed, key=lambda event: event["step"], default=None)
        return (self.config, last["step"], last["elapsed_s"]) if last else None

    def finished(self) -> dict[str, Any] | None:
        """Step, perplexity and seconds of a run that is trained to its end and scored at that step; else None."""
        end = self.directory.path / "finished.json"
        if not end.exists() or not self.directory.evaluation_path.exists():
            return None
        record = read_json(end)
        scored = read_evaluation(self.directory.evaluation_path).get(self.set_name)
        decode = config_module.to_dict(self.config.decode)
        free = {key.removeprefix("decode.") for key in MAY_DIFFER["sweep"]}
        current = checkpoints.steps(self.directory.checkpoints)[-1:] == [record["step"]]
        bounds = record.get("bounds") == bounds_of(self.config)  # those of a row's own file may have changed
        alike = (
            scored is not None
            and scored.checkpoint == f"step {record['step']}"
            and all(scored.decode.get(key) == value for key, value in decode.items() if key not in free)
        )
        return record if current and bounds and alike else None

    @property
    def log(self) -> Path:
        return self.directory.path / "log.txt"


@dataclass(frozen=True)
class Sweep:
    """Rows, each with as many seeds, in one directory."""

    directory: RunDirectory
    base: Config
    rows: Sequence[Row]
    seeds: int
    set_name: str
    """The set whose BLEU the table shows."""

    def run_of(self, row: Row, k: int) -> Run:
        """The k-th run of a row; of the row it equals, if it equals one."""
        name = f"{row.same_as or row.name}-seed{k}"
        return Run(name, with_seed(row.config, k), RunDirectory(self.directory.path / name), self.set_name)

    @cached_property
    def runs(self) -> list[Run]:
        """All of them once; every row's first seed before any row's second, so that an early table has every row."""
        each = [self.run_of(row, k) for k in range(self.seeds) for row in self.rows]
        return list({run.name: run for run in each}.values())

    def vocab_size(self, prepared: Path) -> int:
        """Of the prepared corpus, or before that what the configuration asks for."""
        path = prepared / self.base.data.name
        return PreparedCorpus.open(path).tokenizer.vocab_size if path.exists() else self.base.data.vocab_size

    def arguments(self, run: Run) -> list[str]:
        """The command that makes a run, with what differs from the base in view."""
        command = ["ablate-run", str(self._base_path), "--run", str(run.directory.path), "--set", self.set_name]
        for key, (_, value) in config_module.differences(self.base, run.config).items():
            command += [f"--{key.replace('_', '-')}", str(value)]
        return command

    def check_set(self) -> None:
        data = self.base.data
        if self.set_name not in (data.valid, *data.tests):
            raise UserError(
                f"--set {self.set_name}: not a set of this corpus; choose {', '.join((data.valid, *data.tests))}"
            )

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Holds the directory for one sweep, and its base configuration for all that come.

        Raises:
            UserError: another sweep is at work here, or runs of other configurations are here.
        """
        with self.directory.lock():
            self._check_same_base()
            for run in self.runs:  # a row's own file may have changed
                if run.directory.exists():
                    run.directory.check_same(run.config)
            write_text(self._base_path, config_module.to_toml(self.base))
            yield

    def _check_same_base(self) -> None:
        if not self._base_path.exists():
            return
        before = config_module.load_stored(self._base_path)
        refused = config_module.refused_differences(before, self.base, "sweep")
        if refused and any(self.directory.path.glob("*/config.toml")):
            raise UserError(
                f"{self.directory.path}: its runs are of another base configuration ({refused}); "
                "set it as it was, or choose another directory with --run"
            )

    @property
    def _base_path(self) -> Path:
        return self.directory.path / "base.toml"


def note_finished(run: RunDirectory) -> None:
    """Records that a run is trained to its end: where, its perplexity there, and how long it took."""
    step = checkpoints.steps(run.checkpoints)[-1]
    perplexity = None
    for event in read_events(run.metrics_path):
        if event["kind"] == "valid" and event["step"] == step:
            perplexity = event["perplexity"]
    elapsed = checkpoints.read_meta(run.checkpoints / str(step))["progress"]["elapsed_s"]
    record = {"step": step, "perplexity": perplexity, "seconds": round(elapsed, 1)}
    write_json(run.path / "finished.json", record | {"bounds": bounds_of(run.load_config())})


def bounds_of(config: Config) -> dict[str, float]:
    """The settings that decide when a training ends."""
    train = config.train
    return {"steps": train.steps, "max_minutes": train.max_minutes, "patience": train.patience}
