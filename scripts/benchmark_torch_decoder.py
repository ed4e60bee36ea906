"""A peer of `benchmark_decoding.py`: beam search in plain PyTorch with a cache of keys and values."""

import math
from typing import Any

import numpy as np
import torch  # pyright: ignore[reportMissingImports]
import torch.nn.functional as F  # pyright: ignore[reportMissingImports]
from benchmark_common import kernel
from benchmark_peers import BATCHES, Ids, by_length, padded

from vaswani.data.tokenizer import BEGIN, END, PAD
from vaswani.decoding.beam_search import NEVER_GENERATED
from vaswani.model import LAYER_NORM_EPSILON, sinusoids
from vaswani.schema import ModelConfig

MAX_LENGTH = 1100  # longest source + 50, and some


class PlainTorch:
    """As one would write it: fused projections, fused attention, caches that grow by concatenation.

    The search is ours: 2·beam candidates, alive and finished sets, penalty ((5 + L) / 6)^α, stop when sure.
    """

    def __init__(self, config: ModelConfig, params: dict[str, Any], threads: int):
        torch.set_num_threads(threads)
        self.config, self.batch = config, BATCHES[0]
        self.table = torch.tensor(np.asarray(params["embedding"]["table"]))
        self.positions = torch.tensor(np.asarray(sinusoids(MAX_LENGTH, config.d_model)))
        self.encoder, self.decoder = (
            [_layer(params[stack][i]) for i in sorted(params[stack], key=int)] for stack in ("encoder", "decoder")
        )

    def options(self, threads: int) -> list[dict[str, int]]:
        return [{"batch": size} for size in BATCHES]

    def use(self, option: dict[str, int]) -> None:
        self.batch = option["batch"]

    def search(self, sources: Ids, limits: list[int], beam: int, alpha: float) -> Ids:
        def one_batch(members: list[int]) -> Ids:
            ids = torch.from_numpy(padded([sources[i] for i in members]))
            with torch.inference_mode():
                return self._search(ids, torch.tensor([limits[i] for i in members]), beam, alpha)

        return by_length(sources, self.batch, one_batch)

    def _search(self, source: Any, limits: Any, K: int, alpha: float) -> Ids:
        B, V, C = len(source), len(self.table), 2 * K if K > 1 else 1
        cross_mask = (source != PAD)[:, None, None]
        memory = self._encode(source, cross_mask)
        # The hypotheses of a sentence are the queries of one attention over its source.
        cross = [[self._heads(x) for x in (memory @ layer["cross"][1]).chunk(2, -1)] for layer in self.decoder]
        caches: list[tuple[Any, Any] | None] = [None] * self.config.N
        tokens = torch.full((B, K, 1), BEGIN)
        log_probs = torch.full((B, K), -math.inf)
        log_probs[:, 0] = 0.0
        best_score, best = torch.full((B,), -math.inf), [[] for _ in range(B)]
        first = torch.arange(B)[:, None] * K
        for length in range(1, int(limits.max()) + 1):
            x, caches = self._step(tokens[:, :, -1], length - 1, caches, cross, cross_mask)
            logits = x @ self.table.T
            base = log_probs - logits.logsumexp(-1)
            logits[:, :, list(NEVER_GENERATED)] = -math.inf
            scores, index = (logits + base[:, :, None]).view(B, -1).topk(C)
            parents, new = index // V, index % V
            ended = new == END
            penalty = ((5 + length) / 6) ** alpha
            score, which = torch.where(ended, scores, -math.inf).max(1)
            going = (best_score < log_probs[:, 0] / ((5 + limits) / 6) ** alpha) & (length <= limits)
            for b in (going & (score / penalty > best_score)).nonzero().flatten().tolist():
                best_score[b] = score[b] / penalty
                best[b] = tokens[b, parents[b, which[b]], 1:].tolist()
            log_probs, chosen = torch.where(ended, -math.inf, scores).topk(K)
            parents, new = parents.gather(1, chosen), new.gather(1, chosen)
            rows = (first + parents).flatten()
            tokens = torch.cat([tokens.view(B * K, -1)[rows].view(B, K, -1), new[:, :, None]], -1)
            for b in ((length == limits) & (best_score == -math.inf)).nonzero().flatten().tolist():
                best[b] = tokens[b, 0, 1:].tolist()  # nothing has ended: the best alive
            if not (going & (length < limits) & (log_probs[:, 0] / ((5 + limits) / 6) ** alpha > best_score)).any():
                break
            if K > 1:
                caches = [tuple(x.index_select(0, rows) for x in cache) for cache in caches]  # pyright: ignore
        return best

    def _encode(self, source: Any, mask: Any) -> Any:
        x = self._embed(source) + self.positions[: source.shape[1]]
        for layer in self.encoder:
            heads = [self._heads(y) for y in (x @ layer["self"][0]).chunk(3, -1)]
            x = _norm(x + self._attend(*heads, mask) @ layer["self"][1], layer["self_norm"])
            x = _norm(x + _feed_forward(x, layer), layer["feed_forward_norm"])
        return x

    def _step(self, tokens: Any, position: int, caches: list[Any], cross: list[Any], cross_mask: Any) -> Any:
        B, K = tokens.shape
        x = self._embed(tokens) + self.positions[position]
        grown = []
        for layer, cache, (cross_keys, cross_values) in zip(self.decoder, caches, cross, strict=True):
            q, k, v = (self._heads(y.view(B * K, 1, -1)) for y in (x @ layer["self"][0]).chunk(3, -1))
            if cache is not None:
                k, v = torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)
            grown.append((k, v))
            x = _norm(x + self._attend(q, k, v).view(B, K, -1) @ layer["self"][1], layer["self_norm"])
            q = self._heads(x @ layer["cross"][0])
            x = _norm(
                x + self._attend(q, cross_keys, cross_values, cross_mask) @ layer["cross"][2], layer["cross_norm"]
            )
            x = _norm(x + _feed_forward(x, layer), layer["feed_forward_norm"])
        return x, grown

    def _embed(self, ids: Any) -> Any:
        return self.table[ids] * math.sqrt(self.config.d_model)

    def _heads(self, x: Any) -> Any:
        """[rows, positions, d_model] to [rows, h, positions, d_k]."""
        return x.unflatten(-1, (self.config.h, -1)).transpose(1, 2)

    def _attend(self, q: Any, k: Any, v: Any, mask: Any = None) -> Any:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).flatten(2)


def _layer(layer: dict[str, Any]) -> dict[str, Any]:
    """Matrices as [in, out], those of one input side by side."""

    def matrix(part: str, *names: str) -> Any:
        return torch.tensor(kernel(layer, part, *names)).T.contiguous()

    def norm(part: str) -> list[Any]:
        return [torch.tensor(np.asarray(layer[f"{part}_norm"]["norm"][name])) for name in ("scale", "bias")]

    ff = layer["feed_forward"]
    parts = {
        "self": [matrix("self_attention", "W_Q", "W_K", "W_V"), matrix("self_attention", "W_O")],
        "self_norm": norm("self_attention"),
        "feed_forward": [(matrix("feed_forward", w), torch.tensor(np.asarray(ff[w]["bias"]))) for w in ("W_1", "W_2")],
        "feed_forward_norm": norm("feed_forward"),
    }
    if "cross_attention" in layer:
        names = (("W_Q",), ("W_K", "W_V"), ("W_O",))
        parts["cross"] = [matrix("cross_attention", *name) for name in names]
        parts["cross_norm"] = norm("cross_attention")
    return parts


def _feed_forward(x: Any, layer: dict[str, Any]) -> Any:
    (W_1, b_1), (W_2, b_2) = layer["feed_forward"]
    return F.relu(x @ W_1 + b_1) @ W_2 + b_2


def _norm(x: Any, weights: list[Any]) -> Any:
    return F.layer_norm(x, x.shape[-1:], *weights, LAYER_NORM_EPSILON)
