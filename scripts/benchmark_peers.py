"""The peers of `benchmark_decoding.py`, with our parameters: each translates token ids into token ids.

A peer is made from (config, params, threads), and has
    options(threads)                     what may be tried; any may be the fastest
    use(option)                          from now on, one of these, perhaps with another batch
    search(sources, limits, beam, alpha) -> token ids without end symbol, in the order of the sources
where a source ends with the end symbol and a limit counts the output's own. Peers whose library bounds a whole batch
alike take the batch's largest limit.
"""

import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np

from vaswani.data.tokenizer import BEGIN, END, PAD, UNKNOWN
from vaswani.decoding.beam_search import NEVER_GENERATED
from vaswani.export.ctranslate2 import specification
from vaswani.export.marian import model_settings, to_marian
from vaswani.schema import Config, ModelConfig

BATCHES = (8, 16, 32, 64, 128, 256)  # sentences
Ids = list[list[int]]


def by_length(sources: Ids, size: int, search: Callable[[list[int]], Ids]) -> Ids:
    """Batches of `size` sources alike in length, longest first; the results in the sources' own order."""
    order = sorted(range(len(sources)), key=lambda i: -len(sources[i]))
    results: Ids = [[] for _ in sources]
    for begin in range(0, len(order), size):
        batch = order[begin : begin + size]
        for i, ids in zip(batch, search(batch), strict=True):
            results[i] = ids
    return results


def padded(sources: Ids) -> np.ndarray:
    ids = np.full((len(sources), max(map(len, sources))), PAD)
    for row, source in zip(ids, sources, strict=True):
        row[: len(source)] = source
    return ids


class HuggingFace:
    """`MarianMTModel.generate`."""

    def __init__(self, config: ModelConfig, params: dict[str, Any], threads: int):
        import torch  # pyright: ignore[reportMissingImports]
        from transformers import MarianConfig, MarianMTModel  # pyright: ignore[reportMissingImports]

        torch.set_num_threads(threads)
        self.torch, self.batch = torch, BATCHES[0]
        state = {name: torch.tensor(value) for name, value in to_marian(params, config).items()}
        model = MarianMTModel(MarianConfig(**model_settings(Config(model=config), len(state["final_logits_bias"][0]))))
        unexpected = model.load_state_dict(state, strict=False).unexpected_keys
        assert not unexpected, unexpected
        self.model = model.eval()

    def options(self, threads: int) -> list[dict[str, int]]:
        return [{"batch": size} for size in BATCHES]

    def use(self, option: dict[str, int]) -> None:
        self.batch = option["batch"]

    def search(self, sources: Ids, limits: list[int], beam: int, alpha: float) -> Ids:
        torch = self.torch

        def one_batch(members: list[int]) -> Ids:
            ids = torch.from_numpy(padded([sources[i] for i in members]))
            with torch.inference_mode():
                found = self.model.generate(
                    ids, attention_mask=ids != PAD, num_beams=beam, do_sample=False,
                    max_new_tokens=max(limits[i] for i in members), suppress_tokens=list(NEVER_GENERATED),
                    **({"length_penalty": alpha} if beam > 1 else {}),
                )  # fmt: skip
            return [until_end(row) for row in found[:, 1:].tolist()]

        return by_length(sources, self.batch, one_batch)


class CTranslate2:
    """float32. Tokens are written as numbers, and its special symbols in its own way."""

    def __init__(self, config: ModelConfig, params: dict[str, Any], threads: int):
        import ctranslate2  # pyright: ignore[reportMissingImports]

        V = params["embedding"]["table"].shape[0]
        self.words = [str(i) for i in range(V)]
        self.words[BEGIN], self.words[END], self.words[UNKNOWN] = "<s>", "</s>", "<unk>"
        self.ids = {word: i for i, word in enumerate(self.words)}
        self.directory = tempfile.TemporaryDirectory(prefix="ctranslate2")
        spec = specification(Config(model=config), params, self.words)
        spec.save(self.directory.name)
        self.load = lambda **threads: ctranslate2.Translator(
            self.directory.name, device="cpu", compute_type="float32", **threads
        )
        self.translator, self.option, self.threads = self.load(inter_threads=1, intra_threads=threads), {}, (1, threads)

    def options(self, threads: int) -> list[dict[str, int]]:
        sizes = [{"batch": size, "inter_threads": 1, "intra_threads": threads} for size in BATCHES]
        return sizes + [size | {"inter_threads": threads, "intra_threads": 1} for size in sizes if threads > 1]

    def use(self, option: dict[str, int]) -> None:
        threads = option["inter_threads"], option["intra_threads"]
        if threads != self.threads:
            self.translator, self.threads = self.load(inter_threads=threads[0], intra_threads=threads[1]), threads
        self.option = {"max_batch_size": option["batch"]}

    def search(self, sources: Ids, limits: list[int], beam: int, alpha: float) -> Ids:
        found = self.translator.translate_batch(
            # It adds the end symbol, sorts, and cuts into batches itself.
            [[self.words[i] for i in source[:-1]] for source in sources],
            beam_size=beam, length_penalty=alpha, max_decoding_length=max(limits, default=1), max_input_length=0,
            suppress_sequences=[[self.words[i]] for i in NEVER_GENERATED], **self.option,
        )  # fmt: skip
        return [[self.ids[word] for word in result.hypotheses[0]] for result in found]


def until_end(ids: list[int]) -> list[int]:
    return ids[: ids.index(END)] if END in ids else [i for i in ids if i != PAD]
