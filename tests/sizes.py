"""How many parameters the model itself makes: what every other way of counting them is held to."""

import jax

from vaswani.model import build
from vaswani.schema import ModelConfig


def count_parameters(config: ModelConfig, vocab_size: int) -> int:
    """Without making any of them."""
    shapes = jax.eval_shape(lambda: build(config, vocab_size)[1])
    return sum(leaf.size for leaf in jax.tree.leaves(shapes))
