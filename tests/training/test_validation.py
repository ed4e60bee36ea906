"""The perplexity of a validation, and what it refuses."""

import math
from types import SimpleNamespace

import jax
import numpy as np
import pytest

from tests import reference
from vaswani.data.prepared_corpus import PreparedCorpus
from vaswani.data.tokenizer import BEGIN
from vaswani.devices import make_mesh
from vaswani.errors import UserError
from vaswani.model import build
from vaswani.runs import checkpoints
from vaswani.runs.directory import RunDirectory
from vaswani.runs.events import read_events
from vaswani.schema import Config, ModelConfig
from vaswani.training.validation import Validation


def test_a_sentence_without_a_learned_position_is_refused():
    """JAX would take the last row of the table, or none, and the perplexity would be of another model."""
    pairs = SimpleNamespace(source_lengths=np.array([3, 9]), target_lengths=np.array([30, 5]))
    corpus = SimpleNamespace(pairs=lambda name: pairs)
    config = Config(model=ModelConfig(positions="learned", max_positions=29))
    with pytest.raises(UserError, match=r"max_positions = 29: newstest2013 has a sentence of 30 tokens"):
        Validation(config, corpus, None, {}, make_mesh())


def test_perplexity_is_that_of_the_reference_model(trained):
    """Over every token of every pair, one pair at a time: unsmoothed, without dropout, no last batch left out."""
    run, corpus = RunDirectory(trained.path / "runs/tiny"), PreparedCorpus.open(trained.path / "prepared/tiny")
    config = run.load_config()
    like = jax.eval_shape(lambda: build(config.model, corpus.tokenizer.vocab_size)[1])
    params = reference.of_the_product(checkpoints.load_params(run.checkpoints / "12", like)[0])
    pairs, nll = corpus.pairs("valid"), 0.0
    for i in range(len(pairs)):
        target = pairs.target(i)
        logits = reference.logits(params, pairs.source(i), [BEGIN, *target[:-1]], config.model.h)
        nll += reference.negative_log_likelihood(logits, target)
    *_, last = (event for event in read_events(run.metrics_path) if event["kind"] == "valid")
    assert last["step"] == 12
    assert last["perplexity"] == pytest.approx(math.exp(nll / pairs.target_lengths.sum()), rel=1e-5)
