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
from benchmark_common import kernel

from vaswani.data.tokenizer import BEGIN, END, PAD, UNKNOWN
from vaswani.decoding.beam_search import NEVER_GENERATED
from vaswani.errors import UserError
from vaswani.model import LAYER_NORM_EPSILON, sinusoids
from vaswani.schema import ModelConfig

MAX_LENGTH = 1100  # longest source + 50, and some
BATCHES = (8, 16, 32, 64, 128, 256)  # sentences
Ids = list[list[int]]


def check_supported(config: ModelConfig) -> None:
    """Raises UserError for a model that no peer could be."""
    if config.positions != "sinusoidal" or config.d_k != config.d_v or config.h * config.d_k != config.d_model:
        raise UserError("peers need sinusoidal positions and d_k = d_v = d_model / h")


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
    """`MarianMTModel.generate`. Its position table is replaced by ours, so no weight need be permuted."""

    def __init__(self, config: ModelConfig, params: dict[str, Any], threads: int):
        import torch  # pyright: ignore[reportMissingImports]
        from transformers import MarianConfig, MarianMTModel  # pyright: ignore[reportMissingImports]

        torch.set_num_threads(threads)
        self.torch, self.batch = torch, BATCHES[0]
        V = params["embedding"]["table"].shape[0]
        with torch.device("meta"):
            model = MarianMTModel(
                MarianConfig(
                    vocab_size=V, d_model=config.d_model, max_position_embeddings=MAX_LENGTH, dropout=0.0,
                    encoder_layers=config.N, encoder_attention_heads=config.h, encoder_ffn_dim=config.d_ff,
                    decoder_layers=config.N, decoder_attention_heads=config.h, decoder_ffn_dim=config.d_ff,
                    activation_function="relu", scale_embedding=True, pad_token_id=PAD, bos_token_id=BEGIN,
                    eos_token_id=END, decoder_start_token_id=BEGIN, forced_eos_token_id=None,
                )
            )  # fmt: skip
        model.to_empty(device="cpu")
        state = {name: torch.tensor(value) for name, value in marian_state(config, params).items()}
        for name, value in model.state_dict().items():
            value.copy_(state[name] if name in state else torch.zeros_like(value))  # the others are biases of 0
            state.pop(name, None)
        assert not state, sorted(state)
        for module in model.modules():
            if isinstance(module, torch.nn.LayerNorm):
                module.eps = LAYER_NORM_EPSILON
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


def marian_state(config: ModelConfig, params: dict[str, Any]) -> dict[str, np.ndarray]:
    """Our parameters under Marian's names; its biases that the paper does not have are left out."""
    positions = np.asarray(sinusoids(MAX_LENGTH, config.d_model))
    table = np.asarray(params["embedding"]["table"])
    state = {"lm_head.weight": table, "model.shared.weight": table}
    for stack in ("encoder", "decoder"):
        state |= {f"model.{stack}.embed_tokens.weight": table, f"model.{stack}.embed_positions.weight": positions}
        for i, layer in params[stack].items():
            prefix = f"model.{stack}.layers.{i}"
            for ours, theirs in (("self_attention", "self_attn"), ("cross_attention", "encoder_attn")):
                if ours in layer:
                    for matrix, name in (("W_Q", "q_proj"), ("W_K", "k_proj"), ("W_V", "v_proj"), ("W_O", "out_proj")):
                        state[f"{prefix}.{theirs}.{name}.weight"] = kernel(layer, ours, matrix)
            for ours, theirs in (("W_1", "fc1"), ("W_2", "fc2")):
                state[f"{prefix}.{theirs}.weight"] = kernel(layer, "feed_forward", ours)
                state[f"{prefix}.{theirs}.bias"] = np.asarray(layer["feed_forward"][ours]["bias"])
            norms = {"self_attention": "self_attn", "cross_attention": "encoder_attn", "feed_forward": "final"}
            for ours, theirs in norms.items():
                if ours in layer:
                    norm = layer[f"{ours}_norm"]["norm"]
                    state[f"{prefix}.{theirs}_layer_norm.weight"] = np.asarray(norm["scale"])
                    state[f"{prefix}.{theirs}_layer_norm.bias"] = np.asarray(norm["bias"])
    return state


class CTranslate2:
    """float32. Tokens are written as numbers, and its special symbols in its own way."""

    def __init__(self, config: ModelConfig, params: dict[str, Any], threads: int):
        import ctranslate2  # pyright: ignore[reportMissingImports]

        V = params["embedding"]["table"].shape[0]
        self.words = [str(i) for i in range(V)]
        self.words[BEGIN], self.words[END], self.words[UNKNOWN] = "<s>", "</s>", "<unk>"
        self.ids = {word: i for i, word in enumerate(self.words)}
        self.directory = tempfile.TemporaryDirectory(prefix="ctranslate2")
        spec = ct2_spec(config, params, self.words)
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
            [[self.words[i] for i in source] for source in sources],  # it sorts and cuts into batches itself
            beam_size=beam, length_penalty=alpha, max_decoding_length=max(limits, default=1), max_input_length=0,
            suppress_sequences=[[self.words[i]] for i in NEVER_GENERATED], **self.option,
        )  # fmt: skip
        return [[self.ids[word] for word in result.hypotheses[0]] for result in found]


def ct2_spec(config: ModelConfig, params: dict[str, Any], words: list[str]) -> Any:
    """CTranslate2's description of the model, with its weights. It stores our position table as it is."""
    from ctranslate2.specs import TransformerSpec  # pyright: ignore[reportMissingImports]

    spec = TransformerSpec.from_config(config.N, config.h, pre_norm=False)
    table = np.asarray(params["embedding"]["table"])
    positions = np.asarray(sinusoids(MAX_LENGTH, config.d_model))
    spec.encoder.embeddings[0].weight = spec.decoder.embeddings.weight = spec.decoder.projection.weight = table
    spec.encoder.position_encodings.encodings = spec.decoder.position_encodings.encodings = positions

    def set_norm(theirs: Any, layer: dict[str, Any], part: str) -> None:
        norm = layer[f"{part}_norm"]["norm"]
        theirs.gamma, theirs.beta = np.asarray(norm["scale"]), np.asarray(norm["bias"])

    for stack in ("encoder", "decoder"):
        for i, layer in params[stack].items():
            theirs = getattr(spec, stack).layer[int(i)]
            linear = theirs.self_attention.linear
            linear[0].weight = kernel(layer, "self_attention", "W_Q", "W_K", "W_V")
            linear[1].weight = kernel(layer, "self_attention", "W_O")
            set_norm(theirs.self_attention.layer_norm, layer, "self_attention")
            if "cross_attention" in layer:
                linear = theirs.attention.linear
                linear[0].weight = kernel(layer, "cross_attention", "W_Q")
                linear[1].weight = kernel(layer, "cross_attention", "W_K", "W_V")
                linear[2].weight = kernel(layer, "cross_attention", "W_O")
                set_norm(theirs.attention.layer_norm, layer, "cross_attention")
            for ours, linear in (("W_1", theirs.ffn.linear_0), ("W_2", theirs.ffn.linear_1)):
                linear.weight = kernel(layer, "feed_forward", ours)
                linear.bias = np.asarray(layer["feed_forward"][ours]["bias"])
            set_norm(theirs.ffn.layer_norm, layer, "feed_forward")
    spec.register_source_vocabulary(words)
    spec.register_target_vocabulary(words)
    spec.config.bos_token, spec.config.eos_token, spec.config.unk_token = "<s>", "</s>", "<unk>"
    spec.config.decoder_start_token, spec.config.layer_norm_epsilon = "<s>", LAYER_NORM_EPSILON
    spec.validate()
    spec.optimize(quantization="float32")
    return spec


def until_end(ids: list[int]) -> list[int]:
    return ids[: ids.index(END)] if END in ids else [i for i in ids if i != PAD]
