"""From lines of text to translations, in the same order."""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from threading import Lock
from typing import Any, NamedTuple, TypeVar

import jax
import numpy as np
from flax import nnx
from jax import Array
from jax.sharding import Mesh, PartitionSpec
from jaxtyping import Int

from vaswani.config import other_settings
from vaswani.console import say
from vaswani.data.tokenizer import END, PAD, Tokenizer, check_same_tokenizer
from vaswani.decoding.attend import align
from vaswani.decoding.beam_search import Hypotheses, beam_search, check_n_best
from vaswani.decoding.ensemble import join, members
from vaswani.decoding.incremental import Cache, decode_step, init_cache, reorder_cache
from vaswani.decoding.translation import BLANK, Alignment, Hypothesis
from vaswani.devices import DATA, make_mesh, replicated
from vaswani.errors import UserError
from vaswani.model import Transformer, build, unpacked
from vaswani.runs import checkpoints
from vaswani.runs.directory import RunDirectory
from vaswani.schema import DecodeConfig

WINDOW = 4096  # lines that are sorted by length and translated together
SHORTEST_BUCKET = 16  # tokens; each longer bucket is twice as long
FEW_ROWS = 8  # rows of the smaller batch size, for the last lines of a window and for single lines

Item = TypeVar("Item")


class Found(NamedTuple):
    """What a search returns for its rows."""

    hypotheses: Hypotheses
    alignment: Int[Array, "B n T"] | None
    """For each token, the position of its source token; None if no alignment was asked for."""


class Translator:
    """Translates by beam search (section 6.1) on all devices.

    Batches have few shapes. A source is padded to a bucket of 16, 32, 64, … tokens, and a bucket has two batch sizes.
    Each shape is compiled at its first use. Several threads may translate at the same time: they take turns, some
    thousand lines each.

    Args:
        graphdef, params: the model, as `model.build` returns it, or an ensemble, as `ensemble.join` does.
            `translator.params = …` takes other parameters of the same model without compiling again.
        tokenizer: encodes sources and decodes outputs; it has as many pieces as the model.
        decode: beam, α, limits and batch size.

    Raises:
        UserError: the vocabularies of tokenizer and model differ in size.
    """

    def __init__(self, graphdef: nnx.GraphDef, params: dict[str, Any], tokenizer: Tokenizer, decode: DecodeConfig):
        models = members(nnx.merge(graphdef, params))
        if (V := models[0].embedding.table.shape[0]) != tokenizer.vocab_size:
            raise UserError(
                f"the tokenizer has {tokenizer.vocab_size} pieces, but the model has {V}; use the tokenizer of the run"
            )
        self.mesh = make_mesh()
        self.graphdef, self.params, self.tokenizer, self.decode = graphdef, params, tokenizer, decode
        self.max_source_length, self.max_target_length = decode.max_source_length, sys.maxsize
        self.bound = f"decode.max_source_length = {decode.max_source_length}"
        learned = [model.config.max_positions for model in models if model.config.positions == "learned"]
        if learned:
            self.max_target_length = min(learned)
            if min(learned) < decode.max_source_length:
                self.max_source_length = min(learned)
                self.bound = f"model.max_positions = {min(learned)}"

        self._lock = Lock()
        self._search = jax.jit(
            partial(_search, graphdef, decode, self.mesh), static_argnames=("n_best", "aligned", "max_length", "halve")
        )

    @property
    def params(self) -> dict[str, Any]:
        """The parameters, on all devices."""
        return self._params

    @params.setter
    def params(self, params: dict[str, Any]) -> None:
        self._params = jax.device_put(params, replicated(self.mesh))

    def translate(
        self,
        lines: Iterable[str],
        n_best: int = 1,
        on_warning: Callable[[str], None] | None = None,
        first_line: int = 1,
        aligned: bool = False,
    ) -> Iterator[list[Hypothesis]]:
        """Translates any number of lines in bounded memory: some thousand at a time.

        Args:
            lines: text without line ends.
            n_best: translations of each line, at most `decode.beam`.
            on_warning: gets a message for each line that is too long and is cut; by default it is printed on stderr.
            first_line: the number of the first line in those messages.
            aligned: compute the hypotheses' alignments.

        Returns:
            for each line, in order, 1 to `n_best` translations, the best first. A blank line has one empty translation.

        Raises:
            UserError: n_best is larger than the beam.
        """
        check_n_best(n_best, self.decode.beam)  # here, since a generator does not run before its result is used
        return self._translate(iter(lines), n_best, on_warning or say, first_line, aligned)

    def _translate(
        self, lines: Iterator[str], n_best: int, on_warning: Callable[[str], None], first_line: int, aligned: bool
    ) -> Iterator[list[Hypothesis]]:
        while window := list(islice(lines, WINDOW)):
            sources = self._encode(window, first_line, on_warning)
            with self._lock:
                results = self._translate_window(sources, n_best, aligned)
            yield from results
            first_line += len(window)

    def _translate_window(self, sources: list[list[int]], n_best: int, aligned: bool) -> list[list[Hypothesis]]:
        results = [[replace(BLANK, alignment=() if aligned else None)]] * len(sources)
        # The next search is started before a result is read, so that no device waits for the host.
        for places, found in one_ahead(self._start_searches(sources, n_best, aligned)):
            found = jax.device_get(found)
            for i, row in places.items():
                results[i] = self._hypotheses(found, row)
        return results

    def _start_searches(
        self, sources: list[list[int]], n_best: int, aligned: bool
    ) -> Iterator[tuple[dict[int, int], Found]]:
        """Starts the search of each batch. Yields the row of each source, by the source's index, and the outputs."""
        # The longest sources come first. A batch has the shape of its first source; the others are a little shorter.
        waiting = sorted((i for i, source in enumerate(sources) if source), key=lambda i: -len(sources[i]))
        while waiting:
            bucket = self._bucket(len(sources[waiting[0]]))
            rows = self._rows(bucket, len(waiting))
            # The devices get one row each in turn. So all devices have sentences of about the same length.
            order = np.arange(rows).reshape(self.mesh.size, -1).T.ravel().tolist()
            places = dict(zip(waiting, order, strict=False))
            waiting = waiting[rows:]
            batch = {row: sources[i] for i, row in places.items()}
            yield places, self._start_search(batch, bucket, rows, n_best, aligned)

    def _encode(self, lines: Sequence[str], first: int, on_warning: Callable[[str], None]) -> list[list[int]]:
        """Token ids of each line with the end symbol; an empty list for a blank line."""
        sources: list[list[int]] = [[] for _ in lines]
        not_blank = [i for i, line in enumerate(lines) if line.strip()]
        most = self.max_source_length - 1
        for i, ids in zip(not_blank, self.tokenizer.encode_batch([lines[i] for i in not_blank]), strict=True):
            if len(ids) > most:
                on_warning(
                    f"line {first + i}: only the first {most} of {len(ids)} tokens are translated ({self.bound})"
                )
            if ids:
                sources[i] = [*ids[:most], END]
        return sources

    def _bucket(self, length: int) -> int:
        bucket = SHORTEST_BUCKET
        while bucket < length:
            bucket *= 2
        return min(bucket, self.max_source_length)

    def _rows(self, bucket: int, waiting: int) -> int:
        """Rows of a batch, the same number on each device."""
        rows = max(1, self.decode.batch_tokens // bucket)
        if waiting <= FEW_ROWS:
            rows = min(rows, FEW_ROWS)
        return -(-rows // self.mesh.size) * self.mesh.size

    def _start_search(self, sources: dict[int, list[int]], bucket: int, rows: int, n_best: int, aligned: bool) -> Found:
        """One call of the compiled search. A row without a sentence has limit 0, so the search ignores it."""
        extra = self.decode.max_extra_tokens
        source, limits = np.full((rows, bucket), PAD, np.int32), np.zeros(rows, np.int32)
        for row, ids in sources.items():
            source[row, : len(ids)] = ids
            limits[row] = min(len(ids) - 1 + extra, self.max_target_length)
        max_length = min(bucket - 1 + extra, self.max_target_length)
        # A small batch is not halved: compiling the second loop would take more time than it saves.
        options = {"n_best": n_best, "aligned": aligned, "max_length": max_length, "halve": rows > FEW_ROWS}
        return self._search(self.params, source, limits, **options)

    def _hypotheses(self, found: Found, row: int) -> list[Hypothesis]:
        hypotheses = []
        fields = zip(*(field[row] for field in found.hypotheses), strict=True)
        for k, (tokens, length, score, log_prob) in enumerate(fields):
            if hypotheses and not np.isfinite(score):  # fewer than n_best outputs exist
                break
            ids = tuple(tokens[:length].tolist())
            text = ids[: len(ids) - (ids[-1:] == (END,))]  # a hypothesis that was cut at its limit has no end symbol
            alignment: Alignment | None = None
            if found.alignment is not None:
                alignment = tuple((int(i), j) for j, i in enumerate(found.alignment[row, k, : len(text)]))
            hypotheses.append(
                Hypothesis(
                    self.tokenizer.decode(ids), float(score), float(log_prob), int(length), ids,
                    tuple(self.tokenizer.pieces(text)), alignment,
                )
            )  # fmt: skip
        return hypotheses


def one_ahead(items: Iterable[Item]) -> Iterator[Item]:
    """The same items. Each is yielded after the next one has been made."""
    items = iter(items)
    held = list(islice(items, 1))
    for item in items:
        yield held.pop()
        held.append(item)
    yield from held


def _search(
    graphdef: nnx.GraphDef,
    decode: DecodeConfig,
    mesh: Mesh,
    params: dict[str, Any],
    source: Array,
    limits: Array,
    *,
    n_best: int,
    aligned: bool,
    max_length: int,
    halve: bool,
) -> Found:
    """Encodes and searches one batch. Its rows are divided among the devices."""

    def search(params: dict[str, Any], source: Array, limits: Array) -> Found:
        models = members(nnx.merge(graphdef, params))
        segments, positions = unpacked(source)

        def start(model: Transformer) -> Cache:
            return init_cache(model, model.encode(source, segments, positions), segments, decode.beam, max_length)

        def step(tokens: Array, position: Array, caches: list[Cache]) -> tuple[Array, list[Cache]]:
            outputs = [decode_step(m, tokens, position, cache) for m, cache in zip(models, caches, strict=True)]
            logits = [m.logits(hidden) for m, (hidden, _) in zip(models, outputs, strict=True)]
            # The search normalises, so the mean of the logits has the same effect as the mean of the log-probabilities.
            return sum(logits[1:], logits[0]) / len(logits), [cache for _, cache in outputs]

        def reorder(caches: list[Cache], parents: Array, length: Array) -> list[Cache]:
            return [reorder_cache(cache, parents, length) for cache in caches]

        options = {"beam": decode.beam, "alpha": decode.alpha, "n_best": n_best, "max_length": max_length}
        found = beam_search(step, reorder, [start(model) for model in models], limits, halve=halve, **options)
        return Found(found, align(models, source, found.tokens) if aligned else None)

    # With shard_map each device has its own loop, which ends when the sentences of this device are done.
    rows = PartitionSpec(DATA)
    return jax.shard_map(search, mesh=mesh, in_specs=(PartitionSpec(), rows, rows), out_specs=rows, check_vma=False)(
        params, source, limits
    )


class LoadedModel(NamedTuple):
    """The model of a run."""

    graphdef: nnx.GraphDef
    params: dict[str, Any]
    tokenizer: Tokenizer
    label: str
    """Which parameters: "averaged", "step 300"."""


def load_model(run: RunDirectory, checkpoint: str) -> LoadedModel:
    """Reads the model of a run; the corpus is not needed.

    Args:
        checkpoint: "auto", "averaged", "best", "last" or a step, as in `checkpoints.load_chosen_params`.

    Raises:
        UserError: there is no such checkpoint, or it is of another model or tokenizer.
    """
    config, tokenizer = run.load_config(), Tokenizer.load(run.tokenizer_path)
    graphdef, params = jax.eval_shape(lambda: build(config.model, tokenizer.vocab_size))
    params, meta, label = checkpoints.load_chosen_params(run, checkpoint, params)
    advice = "restore the tokenizer that the run was trained with"
    check_same_tokenizer(run.tokenizer_path, tokenizer.checksum, meta["tokenizer"], f"{label} of {run.path}", advice)
    if other := other_settings(meta.get("settings", {}), config):  # arrays of another model may have the same shapes
        raise UserError(f"{run.config_path}: these are not the settings that {label} was trained with ({other})")
    return LoadedModel(graphdef, params, tokenizer, label)


def load_translator(run: RunDirectory, checkpoint: str, decode: DecodeConfig) -> tuple[Translator, str]:
    """A translator with the model of a run, and the name of its parameters; errors as for `load_model`."""
    graphdef, params, tokenizer, label = load_model(run, checkpoint)
    return Translator(graphdef, params, tokenizer, decode), label


def load_ensemble(runs: Sequence[RunDirectory], checkpoint: str, decode: DecodeConfig) -> Translator:
    """A translator with the models of one or more runs.

    Raises:
        UserError: two runs have different tokenizers; or as for `load_model`.
    """
    models = [load_model(run, checkpoint) for run in runs]
    graphdef, params, tokenizer, _ = models[0]
    advice = "runs that translate together need the same prepared corpus"
    for run, model in zip(runs, models, strict=True):
        check_same_tokenizer(
            run.tokenizer_path, model.tokenizer.checksum, tokenizer.checksum, str(runs[0].path), advice
        )
    if len(models) > 1:
        graphdef, params = join([(model.graphdef, model.params) for model in models])
    return Translator(graphdef, params, tokenizer, decode)
