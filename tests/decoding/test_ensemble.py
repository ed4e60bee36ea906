"""Several models translate together: by the mean of their log-probabilities."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from tests.decoding.test_translator import CONFIG, DECODE, VOCABULARY, WordTokenizer, sentences
from vaswani.data.tokenizer import BEGIN, END
from vaswani.decoding.beam_search import NEVER_GENERATED
from vaswani.decoding.ensemble import join
from vaswani.decoding.translator import Translator, load_ensemble
from vaswani.errors import UserError
from vaswani.runs.directory import RunDirectory

WIDE = dataclasses.replace(CONFIG, N=2, d_model=24, h=3, d_ff=48, positions="learned")


def test_one_model_twice_is_that_model(random_model):
    """Bit for bit, alignments included."""
    model, lines = random_model(CONFIG, VOCABULARY), sentences(5, longest=15)
    alone = Translator(*model, WordTokenizer(), DECODE)
    twice = Translator(*join([model, model]), WordTokenizer(), DECODE)
    assert list(twice.translate(lines, 3, aligned=True)) == list(alone.translate(lines, 3, aligned=True))


def test_greedy_search_takes_the_best_mean_log_probability(random_model):
    """Two models of different shapes, against whole outputs computed anew at each step, without a cache."""
    models = [random_model(CONFIG, VOCABULARY), random_model(WIDE, VOCABULARY, seed=1)]
    decode = dataclasses.replace(DECODE, beam=1)
    translator, lines = Translator(*join(models), WordTokenizer(), decode), sentences(4, longest=6, seed=2)
    assert translator.max_source_length == WIDE.max_positions  # the fewest positions count
    both = [jax.jit(nnx.merge(graphdef, jax.tree.map(jnp.asarray, params)).__call__) for graphdef, params in models]
    single = [list(Translator(*model, WordTokenizer(), decode).translate(lines)) for model in models]
    found = list(translator.translate(lines))
    for line, (h,) in zip(lines, found, strict=True):
        source = [int(word[1:]) for word in line.split()]
        target, log_prob = [BEGIN], 0.0
        while len(target) - 1 < len(source) + DECODE.max_extra_tokens and target[-1] != END:
            padded = jnp.array([target + [0] * (16 - len(target))])
            logits = [model(jnp.array([[*source, END] + [0] * (8 - len(source))]), padded) for model in both]
            mean = sum(jax.nn.log_softmax(x[0, len(target) - 1]) for x in logits) / 2
            mean = np.array(jax.nn.log_softmax(mean))
            mean[list(NEVER_GENERATED)] = -np.inf
            target.append(int(mean.argmax()))
            log_prob += mean.max()
        assert list(h.ids) == target[1:]
        assert h.log_prob == pytest.approx(log_prob, abs=1e-4)
    assert found not in single


def test_runs_need_the_same_tokenizer(trained):
    one = RunDirectory(trained.path / "runs/tiny")
    text = (trained.path / "tiny.toml").read_text().replace("vocab_size = 500", "vocab_size = 480")
    (trained.path / "other.toml").write_text(text.replace('name = "tiny"', 'name = "other"'))
    trained.vaswani("train", "other.toml", "--train.steps", "1", "--train.valid-lines", "0")
    other = RunDirectory(trained.path / "runs/other")
    with pytest.raises(UserError, match=r"runs/other/tokenizer\.model: not the tokenizer of .*/runs/tiny"):
        load_ensemble([one, other], "last", DECODE)
    line = trained.refused("translate", "runs/tiny", "runs/other", input="A dog.\n")
    assert line == (
        "vaswani: runs/other/tokenizer.model: not the tokenizer of runs/tiny; "
        "runs that translate together need the same prepared corpus"
    )
