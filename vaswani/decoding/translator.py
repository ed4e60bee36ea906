"""From lines of text to translations, in the same order."""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.sharding import Mesh, PartitionSpec

from vaswani.config import other_settings
from vaswani.console import say
from vaswani.data.tokenizer import END, PAD, Tokenizer, check_same_tokenizer
from vaswani.decoding.beam_search import Hypotheses, beam_search, check_n_best
from vaswani.decoding.incremental import decode_step, init_cache, reorder_cache
from vaswani.devices import DATA, make_mesh, replicated
from vaswani.errors import UserError
from vaswani.model import build
from vaswani.runs import checkpoints
from vaswani.runs.directory import RunDirectory
from vaswani.schema import DecodeConfig

WINDOW = 4096  # lines that are sorted by length and translated together
SHORTEST_BUCKET = 16  # tokens; each longer bucket is twice as long
FEW_ROWS = 8  # rows of the smaller batch size, for the last lines of a window and for single lines

Item = TypeVar("Item")


@dataclass(frozen=True)
class Hypothesis:
    """One translation of one line."""

    text: str
    score: float
    """log_prob / ((5 + length) / 6)^α."""
    log_prob: float
    """log P(Y|X), natural logarithm."""
    length: int
    """Tokens, the end symbol counted."""
    tokens: tuple[int, ...] = ()
    """The token ids that the search found. Encoding `text` again may give other ids."""


BLANK = Hypothesis("", 0.0, 0.0, 0)


class Translator:
    """Translates by beam search (section 6.1) on all devices.

    Batches have few shapes. A source is padded to a bucket of 16, 32, 64, … tokens, and a bucket has two batch sizes.
    Each shape is compiled at its first use.

    Args:
        graphdef, params: the model, as `model.build` returns it. `translator.params = …` takes other parameters of the
            same model without compiling again.
        tokenizer: encodes sources and decodes outputs; it has as many pieces as the model.
        decode: beam, α, limits and batch size.

    Raises:
        UserError: the vocabularies of tokenizer and model differ in size.
    """

    def __init__(self, graphdef: nnx.GraphDef, params: dict[str, Any], tokenizer: Tokenizer, decode: DecodeConfig):
        model = nnx.merge(graphdef, params)
        if (V := model.embedding.table.shape[0]) != tokenizer.vocab_size:
            raise UserError(
                f"the tokenizer has {tokenizer.vocab_size} pieces, but the model has {V}; use the tokenizer of the run"
            )
        self.mesh = make_mesh()
        self.graphdef, self.params, self.tokenizer, self.decode = graphdef, params, tokenizer, decode
        self.max_source_length, self.max_target_length = decode.max_source_length, sys.maxsize
        self.bound = f"decode.max_source_length = {decode.max_source_length}"
        if model.config.positions == "learned":
            self.max_target_length = model.config.max_positions
            if model.config.max_positions < decode.max_source_length:
                self.max_source_length = model.config.max_positions
                self.bound = f"model.max_positions = {model.config.max_positions}"

        self._search = jax.jit(
            partial(_search, graphdef, decode, self.mesh), static_argnames=("n_best", "max_length", "halve")
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
    ) -> Iterator[list[Hypothesis]]:
        """Translates any number of lines in bounded memory: some thousand at a time.

        Args:
            lines: text without line ends.
            n_best: translations of each line, at most `decode.beam`.
            on_warning: gets a message for each line that is too long and is cut; by default it is printed on stderr.
            first_line: the number of the first line in those messages.

        Returns:
            for each line, in order, 1 to `n_best` translations, the best first. A blank line has one empty translation.

        Raises:
            UserError: n_best is larger than the beam.
        """
        check_n_best(n_best, self.decode.beam)  # here, since a generator does not run before its result is used
        return self._translate(iter(lines), n_best, on_warning or say, first_line)

    def _translate(
        self, lines: Iterator[str], n_best: int, on_warning: Callable[[str], None], first_line: int
    ) -> Iterator[list[Hypothesis]]:
        while window := list(islice(lines, WINDOW)):
            sources = self._encode(window, first_line, on_warning)
            results = [[BLANK]] * len(window)
            # The next search is started before a result is read, so that no device waits for the host.
            for places, outputs in one_ahead(self._start_searches(sources, n_best)):
                outputs = jax.device_get(outputs)
                for i, row in places.items():
                    results[i] = self._hypotheses(outputs, row)
            yield from results
            first_line += len(window)

    def _start_searches(self, sources: list[list[int]], n_best: int) -> Iterator[tuple[dict[int, int], Hypotheses]]:
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
            yield places, self._start_search({row: sources[i] for i, row in places.items()}, bucket, rows, n_best)

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

    def _start_search(self, sources: dict[int, list[int]], bucket: int, rows: int, n_best: int) -> Hypotheses:
        """One call of the compiled search. A row without a sentence has limit 0, so the search ignores it."""
        extra = self.decode.max_extra_tokens
        source, limits = np.full((rows, bucket), PAD, np.int32), np.zeros(rows, np.int32)
        for row, ids in sources.items():
            source[row, : len(ids)] = ids
            limits[row] = min(len(ids) - 1 + extra, self.max_target_length)
        max_length = min(bucket - 1 + extra, self.max_target_length)
        # A small batch is not halved: compiling the second loop would take more time than it saves.
        options = {"n_best": n_best, "max_length": max_length, "halve": rows > FEW_ROWS}
        return self._search(self.params, source, limits, **options)

    def _hypotheses(self, outputs: Hypotheses, row: int) -> list[Hypothesis]:
        hypotheses = []
        for tokens, length, score, log_prob in zip(*(field[row] for field in outputs), strict=True):
            if hypotheses and not np.isfinite(score):  # fewer than n_best outputs exist
                break
            ids = tuple(tokens[:length].tolist())
            hypotheses.append(Hypothesis(self.tokenizer.decode(ids), float(score), float(log_prob), int(length), ids))
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
    source: jax.Array,
    limits: jax.Array,
    *,
    n_best: int,
    max_length: int,
    halve: bool,
) -> Hypotheses:
    """Encodes and searches one batch. Its rows are divided among the devices."""

    def search(params: dict[str, Any], source: jax.Array, limits: jax.Array) -> Hypotheses:
        model = nnx.merge(graphdef, params)
        segments = (source != PAD).astype(jnp.int32)
        memory = model.encode(source, segments, jnp.broadcast_to(jnp.arange(source.shape[1]), source.shape))

        def step(tokens, position, cache):
            hidden, cache = decode_step(model, tokens, position, cache)
            return model.logits(hidden), cache

        options = {"beam": decode.beam, "alpha": decode.alpha, "n_best": n_best, "max_length": max_length}
        cache = init_cache(model, memory, segments, decode.beam, max_length)
        return beam_search(step, reorder_cache, cache, limits, halve=halve, **options)

    # With shard_map each device has its own loop, which ends when the sentences of this device are done.
    rows = PartitionSpec(DATA)
    return jax.shard_map(search, mesh=mesh, in_specs=(PartitionSpec(), rows, rows), out_specs=rows, check_vma=False)(
        params, source, limits
    )


def load_translator(run: RunDirectory, checkpoint: str, decode: DecodeConfig) -> tuple[Translator, str]:
    """A translator with the model of a run; the corpus is not needed.

    Args:
        checkpoint: "auto", "averaged", "best", "last" or a step, as in `checkpoints.load_chosen_params`.
        decode: how to search.

    Returns:
        the translator, and the name of its parameters ("averaged", "step 300").

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
    return Translator(graphdef, params, tokenizer, decode), label
