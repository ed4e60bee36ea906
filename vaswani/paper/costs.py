"""Costs by formula: Table 1, and the operations and parameters behind Tables 2 and 3. JAX is not needed.

`counts.py` counts the same on the model's own code; tests compare the two.
"""

import dataclasses
import math

from vaswani.paper.tables import TABLE_3, Recipe, Variation
from vaswani.schema import ModelConfig

P100_FLOPS = 9.5e12
"""Single-precision operations per second that the paper assumes for a P100 (footnote 5)."""
GPUS = 8
"""P100 of one machine (section 5.2)."""
VOCABULARY = 37_000
"""Section 5.1: "about 37000"."""


# --- operations ---


def layer_operations(n: int, d: int, k: int, r: int) -> dict[str, int]:
    """Table 1, complexity per layer.

    Args:
        n: sequence length.
        d: width.
        k: kernel width of a convolution.
        r: neighbourhood of restricted self-attention.

    Returns:
        Operations for each `LayerType.name` of `TABLE_1`.
    """
    return {
        "Self-Attention": n * n * d,
        "Recurrent": n * d * d,
        "Convolutional": k * n * d * d,
        "Self-Attention (restricted)": r * n * d,
    }


def maximum_path_length(n: int, k: int, r: int) -> dict[str, int]:
    """Table 1, last column, in layers or steps, for dilated convolutions. Arguments and keys as `layer_operations`."""
    layers, reach = 0, 1
    while reach < n:  # the logarithm of n to base k, rounded up, without rounding errors
        layers, reach = layers + 1, reach * k
    return {"Self-Attention": 1, "Recurrent": n, "Convolutional": layers, "Self-Attention (restricted)": -(-n // r)}


def forward_flops_formula(config: ModelConfig, vocab_size: int, n: int) -> float:
    """Floating-point operations of a forward pass over a source and a target of n tokens each.

    A matrix product has 2 operations per parameter and token. An attention has 2·n²·h·(d_k + d_v) more. Half of the
    parameters without the embedding see the n source tokens, the other half the n target tokens. The embedding matrix
    is a product only where it projects the target tokens to the vocabulary.
    """
    attentions = 3 * config.N * 2 * n * n * config.h * (config.d_k + config.d_v)
    return 2 * n * parameters(config, vocab_size) + attentions


def update_flops(config: ModelConfig, vocab_size: int, tokens: int, n: int) -> float:
    """Floating-point operations of an update. The backward pass takes twice those of the forward pass.

    Args:
        tokens: source tokens of the update; it has as many target tokens.
        n: tokens of each sentence.
    """
    return 3 * tokens / n * forward_flops_formula(config, vocab_size, n)


def training_flops(config: ModelConfig, vocab_size: int, recipe: Recipe, n: int = 30) -> float:
    """Floating-point operations of all updates of a recipe, with sentences of n tokens."""
    return recipe.steps * update_flops(config, vocab_size, recipe.tokens_per_update, n)


def rated_flops(seconds: float) -> float:
    """The operations that eight P100 could make in that time. Table 2 counts training cost this way."""
    return seconds * GPUS * P100_FLOPS


def training_seconds(recipe: Recipe) -> float:
    """Time of all updates by the paper's time per step (section 5.2)."""
    return recipe.steps * recipe.seconds_per_step


# --- parameters ---


def variation_config(variation: Variation) -> ModelConfig:
    """The model of a row of Table 3. What the row leaves blank is that of the base model."""
    names = {f.name for f in dataclasses.fields(ModelConfig)}
    base, row = (dataclasses.asdict(v) for v in (TABLE_3[0], variation))
    return ModelConfig(**{name: base[name] if row[name] is None else row[name] for name in names & set(row)})


def parameters(config: ModelConfig, vocab_size: int) -> int:
    """Parameters of the whole model.

    >>> parameters(ModelConfig(), 37_000)
    63045632
    """
    return vocab_size * config.d_model + parameters_without_embedding(config)


def parameters_without_embedding(config: ModelConfig) -> int:
    """Parameters of the model without its one matrix [vocabulary, d_model]."""
    d = config.d_model
    attention = 2 * d * config.h * (config.d_k + config.d_v)  # W_Q and W_K, W_V and W_O
    feed_forward = 2 * d * config.d_ff + config.d_ff + d
    norm = 2 * d
    encoder_layer = attention + feed_forward + 2 * norm
    decoder_layer = 2 * attention + feed_forward + 3 * norm
    positions = 2 * config.max_positions * d if config.positions == "learned" else 0
    return config.N * (encoder_layer + decoder_layer) + positions


def fitting_vocabulary(millions: int, without_embedding: int, d_model: int) -> tuple[int, int]:
    """The smallest and largest V for which without_embedding + V·d_model rounds to `millions` million."""
    low, high = (((millions + half) * 1_000_000 - without_embedding) / d_model for half in (-0.5, 0.5))
    return math.ceil(low), math.ceil(high) - 1
