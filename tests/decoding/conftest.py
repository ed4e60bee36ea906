import jax
import numpy as np
import pytest
from flax import nnx

from vaswani.model import Transformer
from vaswani.schema import ModelConfig


def build_random_model(config: ModelConfig, vocabulary: int, seed: int = 0):
    """(graphdef, params) of a model whose outputs hang on the whole context, made without compiling anything.

    A model as first initialised mostly repeats its last token; a larger feed-forward network scatters it.
    """
    rng = np.random.default_rng(seed)
    graphdef, shapes = nnx.split(nnx.eval_shape(lambda: Transformer(config, vocabulary, nnx.Rngs(0))))

    def values(path, leaf):
        name = path[-1].key
        if name == "kernel":
            gain = 6 if path[-2].key in ("W_1", "W_2") else 1
            return rng.normal(0, gain / np.sqrt(leaf.shape[0]), leaf.shape).astype(np.float32)
        if name in ("scale", "bias"):
            return np.full(leaf.shape, name == "scale", np.float32)
        return rng.normal(0, 1.5 / np.sqrt(config.d_model), leaf.shape).astype(np.float32)  # embedding, positions

    return graphdef, jax.tree_util.tree_map_with_path(values, nnx.to_pure_dict(shapes))


@pytest.fixture(scope="session")
def random_model():
    return build_random_model
