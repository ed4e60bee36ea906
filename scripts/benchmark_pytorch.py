"""The other side of `benchmark_training.py`: the same model of PyTorch's own layers, trained as one would there.

Loaded only in the contestant's process. Its batches are made before the clock runs, as if by other processors.
"""

import math
import os
import time
from collections.abc import Iterator
from contextlib import nullcontext
from itertools import islice
from typing import Any

import numpy as np
import torch  # pyright: ignore[reportMissingImports]
import torch.nn.functional as F  # pyright: ignore[reportMissingImports]
from benchmark_common import Product, Turn, kernel, median_seconds
from torch import nn  # pyright: ignore[reportMissingImports]

from vaswani.data.encoded import EncodedPairs
from vaswani.data.tokenizer import BEGIN, PAD
from vaswani.errors import UserError
from vaswani.schema import Config, ModelConfig

LAYER_NORM_EPSILON = 1e-6  # ours, as equation 3 and the positions below: importing them would start JAX here


class Model(nn.Module):
    """`nn.Transformer` as the paper has it: no biases in attention, no norm at a stack's end, one embedding."""

    def __init__(self, config: ModelConfig, vocab_size: int, max_length: int, smoothing: float):
        super().__init__()
        if config.d_k != config.d_v or config.h * config.d_k != config.d_model:
            raise UserError("PyTorch's attention needs d_k = d_v = d_model / h")
        if config.positions != "sinusoidal":
            raise UserError(f"positions = {config.positions!r}: only the sinusoidal ones are compared")
        self.scale, self.smoothing = math.sqrt(config.d_model), smoothing
        layer: dict[str, Any] = dict(
            d_model=config.d_model, nhead=config.h, dim_feedforward=config.d_ff, dropout=config.P_drop,
            batch_first=True, layer_norm_eps=LAYER_NORM_EPSILON,
        )  # fmt: skip
        self.transformer = nn.Transformer(
            config.d_model, config.h, batch_first=True,
            custom_encoder=nn.TransformerEncoder(
                nn.TransformerEncoderLayer(**layer), config.N, enable_nested_tensor=False
            ),
            custom_decoder=nn.TransformerDecoder(nn.TransformerDecoderLayer(**layer), config.N),
        )  # fmt: skip
        for module in self.modules():
            if isinstance(module, nn.MultiheadAttention):
                module.in_proj_bias = module.out_proj.bias = None
                module.dropout = 0.0
            if isinstance(module, nn.TransformerEncoderLayer | nn.TransformerDecoderLayer):
                module.dropout = nn.Identity()  # the one inside the feed-forward network
        self.dropout = nn.Dropout(config.P_drop)
        self.embedding = nn.Embedding(vocab_size, config.d_model)
        nn.init.normal_(self.embedding.weight, std=config.d_model**-0.5)
        self.register_buffer("positions", _sinusoids(max_length, config.d_model))

    def forward(self, source: Any, source_padding: Any, target_input: Any, target_output: Any, causal: Any) -> Any:
        """Summed loss. Padded targets stand last, where no real one sees them, so they need no mask."""
        memory = self.transformer.encoder(self.embed(source), src_key_padding_mask=source_padding)
        hidden = self.transformer.decoder(
            self.embed(target_input),
            memory,
            tgt_mask=causal,
            tgt_is_causal=True,
            memory_key_padding_mask=source_padding,
        )
        logits = F.linear(hidden, self.embedding.weight).flatten(0, 1)
        return F.cross_entropy(
            logits, target_output.flatten(), ignore_index=PAD, label_smoothing=self.smoothing, reduction="sum"
        )

    def embed(self, ids: Any) -> Any:
        return self.dropout(self.embedding(ids) * self.scale + self.positions[: ids.shape[1]])


class Trainer:
    """Updates of buckets of similar length, by fused Adam. Ready once its first update is made."""

    def __init__(self, pairs: EncodedPairs, config: Config, vocab_size: int, compiled: bool):
        torch.manual_seed(config.train.seed)
        torch.set_num_threads(len(os.sched_getaffinity(0)))
        self.pairs, self.config = pairs, config
        longest = int(max(pairs.source_lengths.max(), pairs.target_lengths.max()))
        self.model = Model(config.model, vocab_size, longest, config.train.label_smoothing)
        # One program for all lengths: compiling each by itself would take many times longer than it could save.
        self.loss = torch.compile(self.model, dynamic=True) if compiled else self.model
        train = config.train
        self.adam = torch.optim.Adam(
            self.model.parameters(), betas=(train.beta_1, train.beta_2), eps=train.epsilon, fused=True
        )
        bfloat16 = config.model.dtype == "bfloat16"
        self.precision = torch.autocast("cpu", torch.bfloat16) if bfloat16 else nullcontext()
        self.rng, self.step = np.random.default_rng(train.seed), 0
        self.updates = self._endless_updates()
        before = time.perf_counter()
        self._update(self._next_batch())
        self.first_update_seconds = time.perf_counter() - before

    def facts(self) -> dict[str, Any]:
        return {"first_update_seconds": self.first_update_seconds, "torch": torch.__version__}

    def turn(self, seconds: float) -> Turn:
        """Updates until the time is over, at least one; the making of batches is not counted."""
        spent, updates, source_tokens, target_tokens = 0.0, 0, 0, 0
        while updates == 0 or spent < seconds:
            batch = self._next_batch()
            before = time.perf_counter()
            self._update(batch)
            spent += time.perf_counter() - before
            updates += 1
            source_tokens += sum(int((source != PAD).sum()) for source, _, _ in batch)
            target_tokens += sum(int((target != PAD).sum()) for _, _, target in batch)
        return Turn(spent, updates, source_tokens, target_tokens)

    def loss_from(self, params: dict[str, Any], pairs: list[int]) -> float:
        """Mean loss of some pairs with the given parameters of ours, without dropout; the model's own come back."""
        own = {name: value.clone() for name, value in self.model.state_dict().items()}
        self.model.load_state_dict(as_state_dict(params) | {"positions": own["positions"]})
        self.model.eval()
        with torch.no_grad(), self.precision:
            source, target_input, target_output = self._lay_out(np.array(pairs))
            loss = self.model(source, _padding(source), target_input, target_output, _causal(target_input))
        self.model.train()
        self.model.load_state_dict(own)
        return float(loss / (target_output != PAD).sum())

    def time_products(self, shapes: list[Product], dtype: str) -> list[float]:
        def seconds(b: int, m: int, k: int, n: int) -> float:
            x, y = torch.randn(b, m, k, dtype=getattr(torch, dtype)), torch.randn(b, k, n, dtype=getattr(torch, dtype))
            return median_seconds(lambda: x[0] @ y[0] if b == 1 else x @ y, 0.3)

        return [seconds(*shape) for shape in shapes]

    def _endless_updates(self) -> Iterator[list[np.ndarray]]:
        """Micro-batches of pairs alike in length, shuffled, as many in an update as make up its tokens."""
        sources, targets = self.pairs.source_lengths, self.pairs.target_lengths
        train = self.config.train
        micro_batches = math.ceil(train.tokens_per_update / train.max_tokens_per_device)
        most = train.tokens_per_update / micro_batches
        while True:
            order = self.rng.permutation(len(self.pairs))
            order = order[np.lexsort((sources[order], targets[order]))]
            batches, first, longest = [], 0, 0
            for i, pair in enumerate(order):
                longest = max(longest, sources[pair], targets[pair])
                if (i - first + 1) * longest > most and i > first:
                    batches.append(order[first:i])
                    first, longest = i, max(sources[pair], targets[pair])
            batches.append(order[first:])
            shuffled = (batches[i] for i in self.rng.permutation(len(batches)))
            while update := list(islice(shuffled, micro_batches)):
                yield update

    def _next_batch(self) -> list[tuple[Any, Any, Any]]:
        return [self._lay_out(pairs) for pairs in next(self.updates)]

    def _lay_out(self, pairs: np.ndarray) -> tuple[Any, Any, Any]:
        """Source, target input and target output, [pairs, longest] each."""
        sources, targets = [self.pairs.source(i) for i in pairs], [self.pairs.target(i) for i in pairs]
        return _padded(sources), _padded([np.append(BEGIN, t[:-1]) for t in targets]), _padded(targets)

    def _update(self, batch: list[tuple[Any, Any, Any]]) -> None:
        tokens = sum(int((target != PAD).sum()) for _, _, target in batch)
        for source, target_input, target_output in batch:
            with self.precision:
                loss = self.loss(source, _padding(source), target_input, target_output, _causal(target_input))
            (loss / tokens).backward()
        self.step += 1
        train = self.config.train
        rate = self.config.model.d_model**-0.5 * min(self.step**-0.5, self.step * train.warmup**-1.5)
        self.adam.param_groups[0]["lr"] = train.lr_scale * rate
        self.adam.step()
        self.adam.zero_grad()


def _sinusoids(length: int, d_model: int) -> Any:
    angle = np.arange(length)[:, None] / 10_000 ** (np.arange(0, d_model, 2) / d_model)
    table = np.stack([np.sin(angle), np.cos(angle)], axis=-1).reshape(length, d_model)
    return torch.tensor(table, dtype=torch.float32)


def as_state_dict(params: dict[str, Any]) -> dict[str, Any]:
    """Our parameters under the names of `Model`."""
    state = {"embedding.weight": params["embedding"]["table"]}

    for stack in ("encoder", "decoder"):
        for i, layer in params[stack].items():
            attentions = {"self_attention": "self_attn", "cross_attention": "multihead_attn"}
            parts = [part for part in ("self_attention", "cross_attention", "feed_forward") if part in layer]
            prefix = f"transformer.{stack}.layers.{i}."
            for part in parts[:-1]:
                state[f"{prefix}{attentions[part]}.in_proj_weight"] = kernel(layer, part, "W_Q", "W_K", "W_V")
                state[f"{prefix}{attentions[part]}.out_proj.weight"] = kernel(layer, part, "W_O")
            for ours, theirs in (("W_1", "linear1"), ("W_2", "linear2")):
                state[f"{prefix}{theirs}.weight"] = kernel(layer, "feed_forward", ours)
                state[f"{prefix}{theirs}.bias"] = layer["feed_forward"][ours]["bias"]
            for number, part in enumerate(parts, start=1):
                norm = layer[f"{part}_norm"]["norm"]
                state[f"{prefix}norm{number}.weight"], state[f"{prefix}norm{number}.bias"] = norm["scale"], norm["bias"]
    return {name: torch.tensor(np.asarray(value)) for name, value in state.items()}


def _padding(ids: Any) -> Any:
    return ids == PAD


def _causal(ids: Any) -> Any:
    return nn.Transformer.generate_square_subsequent_mask(ids.shape[1]).isinf()


def _padded(sequences: list[np.ndarray]) -> Any:
    ids = np.full((len(sequences), max(len(s) for s in sequences)), PAD, np.int64)
    for row, sequence in zip(ids, sequences, strict=True):
        row[: len(sequence)] = sequence
    return torch.from_numpy(ids)
