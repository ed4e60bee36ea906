from types import SimpleNamespace

import numpy as np
import pytest

from vaswani.config import Config, ModelConfig
from vaswani.devices import make_mesh
from vaswani.errors import UserError
from vaswani.training.validation import Validation


def test_a_sentence_without_a_learned_position_is_refused():
    """JAX would take the last row of the table, or none, and the perplexity would be of another model."""
    pairs = SimpleNamespace(source_lengths=np.array([3, 9]), target_lengths=np.array([30, 5]))
    corpus = SimpleNamespace(pairs=lambda name: pairs)
    config = Config(model=ModelConfig(positions="learned", max_positions=29))
    with pytest.raises(UserError, match=r"max_positions = 29: newstest2013 has a sentence of 30 tokens"):
        Validation(config, corpus, None, {}, make_mesh())
