"""The runs of a sweep: which runs it has, and how far each is.

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
from vaswani.data.prepared_corpus import PreparedCorpus
from vaswani.errors import UserError
from vaswani.evaluation.bleu import read_evaluation
from vaswani.files import read_json, write_json, write_text
from vaswani.runs import checkpoints
from vaswani.runs.directory import RunDirectory
from vaswani.runs.events import read_events
from vaswani.schema import MAY_DIFFER, Config


@dataclass(frozen=True)
class SweepRun:
    """One training of a sweep: a row with one seed."""

    name: str
    config: Config
    directory: RunDirectory
    set_name: str
    """The set whose translation is scored."""

    def steps(self) -> int:
        """Updates made so far, by the log: a process that was killed may have made a few more."""
        return max((event["step"] for event in read_events(self.directory.metrics_path)), default=0)

    def timing(self) -> tuple[int, float] | None:
        """Updates and the seconds they took, validation included; None before the first are logged."""
        timed = [event for event in read_events(self.directory.metrics_path) if event.get("elapsed_s")]
        last = max(timed, key=lambda event: event["step"], default=None)
        return (last["step"], last["elapsed_s"]) if last else None

    def finished(self) -> dict[str, Any] | None:
        """Step, perplexity and seconds of a run that is trained to its end and scored at that step; else None."""
        end = self.directory.path / "finished.json"
        if not end.exists() or not self.directory.evaluation_path.exists():
            return None
        record = read_json(end)
        scored = read_evaluation(self.directory.evaluation_path).get(self.set_name)
        decode = config_module.to_dict(self.config.decode)
        free = {key.removeprefix("decode.") for key in MAY_DIFFER["sweep"]}
        newest = checkpoints.steps(self.directory.checkpoints)[-1:] == [record["step"]]
        same_bounds = record.get("bounds") == bounds_of(self.config)  # a row's own file may have changed
        same_scoring = (
            scored is not None
            and scored.checkpoint == f"step {record['step']}"
            and all(scored.decode.get(key) == value for key, value in decode.items() if key not in free)
        )
        return record if newest and same_bounds and same_scoring else None

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

    def run_of(self, row: Row, k: int) -> SweepRun:
        """The k-th run of a row, or of the earlier row that is the same model."""
        name = f"{row.same_as or row.name}-seed{k}"
        return SweepRun(name, with_seed(row.config, k), RunDirectory(self.directory.path / name), self.set_name)

    @cached_property
    def runs(self) -> list[SweepRun]:
        """Each run once. Every row's first seed comes before any row's second, so that an early table has every row."""
        each = [self.run_of(row, k) for k in range(self.seeds) for row in self.rows]
        return list({run.name: run for run in each}.values())

    def vocab_size(self, prepared: Path) -> int:
        """The prepared corpus's; before the corpus is prepared, what the configuration asks for."""
        path = prepared / self.base.data.name
        return PreparedCorpus.open(path).tokenizer.vocab_size if path.exists() else self.base.data.vocab_size

    def arguments(self, run: SweepRun) -> list[str]:
        """The command that makes a run: the base, and every setting in which the run differs from it."""
        command = ["ablate-run", str(self._base_path), "--run", str(run.directory.path), "--set", self.set_name]
        for key, (_, value) in config_module.differences(self.base, run.config).items():
            command += [f"--{key.replace('_', '-')}", str(value)]
        return command

    def check_set(self) -> None:
        """Raises UserError if the corpus has no set of this name."""
        data = self.base.data
        if self.set_name not in (data.valid, *data.tests):
            raise UserError(
                f"--set {self.set_name}: not a set of this corpus; choose {', '.join((data.valid, *data.tests))}"
            )

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Holds the directory for one sweep, and stores the base configuration that later starts must have.

        Raises:
            UserError: another sweep uses the directory, or it has runs of other configurations.
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
        stored = config_module.load_stored(self._base_path)
        refused = config_module.refused_differences(stored, self.base, "sweep")
        if refused and any(self.directory.path.glob("*/config.toml")):
            raise UserError(
                f"{self.directory.path}: its runs have another base configuration ({refused}); "
                "set it as it was, or choose another directory with --run"
            )

    @property
    def _base_path(self) -> Path:
        return self.directory.path / "base.toml"


def record_finished(run: RunDirectory) -> None:
    """Records that a run is trained to its end: the last step, its perplexity, and how long the training took."""
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
