"""The interface for Python: a translator, and a run with what it holds."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

from flax import nnx

from vaswani import config as config_module
from vaswani.decoding.beam_search import check_n_best
from vaswani.decoding.translation import Translation, with_sources
from vaswani.decoding.translator import WINDOW, load_ensemble, load_model
from vaswani.evaluation.bleu import read_evaluation
from vaswani.model import Transformer
from vaswani.runs.directory import RunDirectory
from vaswani.runs.events import read_events
from vaswani.schema import Config


class Translator:
    """Translates text with a trained run, or with several as an ensemble.

    The first translation takes some seconds, because JAX compiles the search. Several threads may use one translator:
    they take turns.

    Example:
        >>> translator = Translator("runs/toy", beam=4)
        >>> [translation] = translator.translate(["The dog sees a cat."], n_best=2, align=True)
        >>> len(translation.hypotheses), translation.score == translation.hypotheses[0].score
        (2, True)
        >>> for i, j in translation.alignment:
        ...     pair = translation.source_tokens[i], translation.tokens[j]

    Args:
        runs: directories that `vaswani train` made. The log-probabilities of several runs are averaged at each step of
            the search; the runs need the same tokenizer, and may have models of different shapes.
        checkpoint: "averaged", "best", "last" or a step; "auto" takes the averaged parameters where a run has them,
            else the last checkpoint.
        decode: settings of the search in place of those of the first run, as `beam=8`, `alpha=1.0`,
            `batch_tokens=4096`; `vaswani.schema.DecodeConfig` lists them.

    Raises:
        UserError: there is no such run, checkpoint or setting, or the runs have different tokenizers.
    """

    def __init__(self, *runs: str | Path, checkpoint: str = "auto", **decode: float):
        if not runs:
            raise TypeError("Translator() takes one run directory or more")
        directories = [RunDirectory.open(run) for run in runs]
        values = config_module.to_dict(directories[0].load_config())
        config = config_module.from_dict(values | {"decode": values["decode"] | decode}, where="Translator")
        self._translator = load_ensemble(directories, checkpoint, config.decode)

    def translate(self, lines: Iterable[str], n_best: int = 1, align: bool = False) -> list[Translation]:
        """Translates lines of text.

        Args:
            lines: sentences, one a line, as the model saw them in training.
            n_best: hypotheses of each line, at most the beam.
            align: compute the alignment of each hypothesis.

        Returns:
            A translation for each line, in order. A blank line has an empty translation.

        Raises:
            UserError: n_best is larger than the beam.
        """
        return list(self.translate_iter(lines, n_best, align))

    def translate_iter(self, lines: Iterable[str], n_best: int = 1, align: bool = False) -> Iterator[Translation]:
        """As `translate`, for any number of lines in bounded memory: it reads and translates some thousand at a time.

        >>> lines = (f"Line {i}." for i in range(3))
        >>> sum(1 for _ in Translator("runs/toy").translate_iter(lines))
        3
        """
        if isinstance(lines, str):
            raise TypeError("lines is one string; give a list of strings, [text]")
        check_n_best(n_best, self._translator.decode.beam)  # here, since a generator does not run before it is read
        return self._translate(iter(lines), n_best, align)

    def _translate(self, lines: Iterator[str], n_best: int, align: bool) -> Iterator[Translation]:
        first_line = 1
        while window := list(islice(lines, WINDOW)):
            found = self._translator.translate(window, n_best, first_line=first_line, aligned=align)
            yield from with_sources(self._translator.tokenizer, window, found)
            first_line += len(window)


class TrainedRun:
    """A run directory, read. `load_run` makes it.

    Attributes:
        path: the directory.
        config: every setting: `run.config.model.d_model`, `run.config.train.steps`, …
        metrics: what was measured during training, one dict an event, in order. "kind" is "train" or "valid", "step"
            counts updates. `pandas.DataFrame(run.metrics)` is a table of them.
        scores: what `vaswani evaluate` measured, one dict a score: "set", "name" (the convention), "value", "low",
            "high" (95% interval), "signature", …; `pandas.DataFrame(run.scores)` is a table of them.
    """

    def __init__(self, path: Path, config: Config, metrics: list[dict[str, Any]], scores: list[dict[str, Any]]):
        self.path, self.config, self.metrics, self.scores = path, config, metrics, scores

    def __repr__(self) -> str:
        return f"TrainedRun({str(self.path)!r})"

    def model(self, checkpoint: str = "auto") -> Transformer:
        """The model with trained parameters; `checkpoint` as for `Translator`.

        Raises:
            UserError: there is no such checkpoint.
        """
        loaded = load_model(RunDirectory.open(self.path), checkpoint)
        return nnx.merge(loaded.graphdef, loaded.params)


def load_run(path: str | Path) -> TrainedRun:
    """Reads a run directory that `vaswani train` made.

    >>> run = load_run("runs/toy")
    >>> run.config.data.source, run.config.data.target
    ('en', 'de')
    >>> sorted({event["kind"] for event in run.metrics})
    ['train', 'valid']
    >>> run.model("last").config == run.config.model
    True

    Raises:
        UserError: there is no run, or one of its files is damaged.
    """
    run = RunDirectory.open(path)
    evaluations = read_evaluation(run.evaluation_path)
    scores = [{"set": name} | asdict(score) for name, result in evaluations.items() for score in result.scores]
    return TrainedRun(run.path, run.load_config(), read_events(run.metrics_path), scores)
