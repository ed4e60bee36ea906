"""Lines in, lines out, with a tokenizer that takes the word "w7" for the token 7."""

import dataclasses
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest
from flax import nnx

from tests import reference
from vaswani.data.tokenizer import BEGIN, END
from vaswani.decoding import translator as translator_module
from vaswani.decoding.attend import attend
from vaswani.decoding.beam_search import NEVER_GENERATED
from vaswani.decoding.translation import BLANK
from vaswani.decoding.translator import Translator
from vaswani.errors import UserError
from vaswani.schema import DecodeConfig, ModelConfig

CONFIG = ModelConfig(N=1, d_model=16, d_ff=32, h=2, d_k=8, d_v=8, P_drop=0.0, max_positions=24)
DECODE = DecodeConfig(beam=3, alpha=0.6, max_extra_tokens=5, max_source_length=64, batch_tokens=128)
VOCABULARY = 20


class WordTokenizer:
    vocab_size = VOCABULARY

    def encode_batch(self, texts):
        return [[int(word[1:]) for word in text.split()] for text in texts]

    def decode(self, ids):
        return " ".join(f"w{token}" for token in ids if token != END)

    def pieces(self, ids):
        return [f"w{token}" for token in ids]


@pytest.fixture(scope="module")
def translator(random_model):
    return Translator(*random_model(CONFIG, VOCABULARY), WordTokenizer(), DECODE)


def sentences(n, longest=20, seed=0):
    """`n` lines of 1 to `longest` tokens."""
    rng = np.random.default_rng(seed)
    return [" ".join(f"w{t}" for t in rng.integers(4, VOCABULARY, rng.integers(1, longest + 1))) for _ in range(n)]


def without_end(params):
    """The same model, but its last LayerNorm is constant and the end symbol's logit far below the others."""
    params = jax.tree.map(np.array, params)
    norm = params["decoder"][CONFIG.N - 1]["feed_forward_norm"]["norm"]
    norm["scale"][:], norm["bias"][:] = 0, 1
    params["embedding"]["table"][END] = -10
    return params


def no_warning(message):
    raise AssertionError(message)


def test_as_many_lines_out_as_in_and_in_order(translator, monkeypatch):
    monkeypatch.setattr(translator_module, "WINDOW", 10)
    lines = sentences(23, longest=40)
    lines[3], lines[11], lines[12] = "", " ", "\t\u2028"
    lines[17:17] = [""] * 10  # a window of nothing else
    found = list(translator.translate(iter(lines), n_best=3, on_warning=no_warning))
    assert len(found) == len(lines) == 33
    for line, hypotheses in zip(lines, found, strict=True):
        if line.strip():
            for h in hypotheses:
                assert h.score == pytest.approx(h.log_prob / ((5 + h.length) / 6) ** 0.6)
            alone = next(translator.translate([line], n_best=3))
            assert [h.text for h in alone] == [h.text for h in hypotheses]
        else:
            assert hypotheses == [BLANK] and hypotheses[0].text == ""


def test_a_translation_does_not_depend_on_its_batch(translator):
    lines = sentences(7, longest=15, seed=1)
    together = list(translator.translate(lines, n_best=3))
    assert len({str(hypotheses) for hypotheses in together}) == 7
    assert [next(translator.translate([line], n_best=3)) for line in lines] == together
    for order in ([6, 5, 4, 3, 2, 1, 0], [3, 0, 6, 2, 5, 1, 4]):
        assert list(translator.translate([lines[i] for i in order], n_best=3)) == [together[i] for i in order]
    # Longer company changes the shape of the batch, and with it the last bits of its sums.
    among_longer = list(translator.translate([*lines, *sentences(20, longest=60)], n_best=3))[:7]
    for alone, among in zip(together, among_longer, strict=True):
        assert [h.text for h in among] == [h.text for h in alone]
        np.testing.assert_allclose([h.score for h in among], [h.score for h in alone], rtol=1e-5)


@pytest.mark.parametrize("change", [lambda params: params, without_end], ids=["short", "to the limit"])
def test_in_a_large_batch_as_alone(random_model, change):
    """A large batch is searched in two parts, the second with a longer cache; a line alone in one."""
    graphdef, params = random_model(CONFIG, VOCABULARY)
    decode = dataclasses.replace(DECODE, batch_tokens=512, max_extra_tokens=50)
    translator = Translator(graphdef, change(params), WordTokenizer(), decode)
    lines = sentences(20, longest=15, seed=2)
    together = [best for best, *_ in translator.translate(lines)]
    alone = [next(translator.translate([line]))[0] for line in lines]
    assert [h.text for h in together] == [h.text for h in alone]
    np.testing.assert_allclose([h.score for h in together], [h.score for h in alone], rtol=1e-5)
    assert (max(h.length for h in alone) > 2 * 16) == (change is without_end)


def test_greedy_translations_are_the_references(random_model):
    """From text to text, positions, masks and limits included."""
    graphdef, params = random_model(CONFIG, VOCABULARY)
    translator = Translator(graphdef, params, WordTokenizer(), dataclasses.replace(DECODE, beam=1))
    names, lines = reference.of_the_product(params), sentences(5, longest=12, seed=4)
    for line, (found,) in zip(lines, translator.translate(lines), strict=True):
        source = [int(word[1:]) for word in line.split()]
        limit = len(source) + DECODE.max_extra_tokens
        tokens, log_prob = reference.greedy(names, [*source, END], CONFIG.h, BEGIN, END, limit, NEVER_GENERATED)
        assert list(found.ids) == tokens
        assert found.log_prob == pytest.approx(log_prob, abs=1e-4)


def test_alignments_are_of_the_search_s_own_tokens(random_model, translator):
    """In a batch of unequal lines, against the weights of each pair alone; the search itself stays the same."""
    graphdef, params = random_model(CONFIG, VOCABULARY)
    model = nnx.merge(graphdef, jax.tree.map(jax.numpy.asarray, params))
    lines = [*sentences(6, longest=12, seed=5), ""]
    plain, aligned = (list(translator.translate(lines, n_best=2, aligned=aligned)) for aligned in (False, True))
    assert all(h.alignment is None for hypotheses in plain for h in hypotheses)
    assert [[replace(h, alignment=None) for h in hypotheses] for hypotheses in aligned] == plain
    assert aligned[-1][0].alignment == ()
    for line, hypotheses in zip(lines[:-1], aligned, strict=False):
        source = [int(word[1:]) for word in line.split()]
        for h in hypotheses:
            _, maps = attend(model, jax.numpy.array([[*source, END]]), jax.numpy.array([[BEGIN, *h.ids[:-1]]]))
            weights = np.asarray(maps.cross)[-1, 0].mean(axis=0)[: len(h.tokens), : len(source)]
            assert h.tokens == tuple(f"w{token}" for token in h.ids if token != END)
            assert h.alignment == tuple((int(i), j) for j, i in enumerate(weights.argmax(axis=1)))


def test_threads_share_a_translator(translator):
    """Four threads, each with its own lines; a thread that reads slowly holds nobody up."""
    groups = [sentences(9, longest=15, seed=seed) for seed in range(4)]
    expected = [list(translator.translate(group, n_best=2)) for group in groups]
    slow = translator.translate(groups[0], n_best=2)
    first = next(slow)
    with ThreadPoolExecutor(4) as pool:
        for _ in range(3):
            assert list(pool.map(lambda group: list(translator.translate(group, n_best=2)), groups)) == expected
    assert [first, *slow] == expected[0]


def test_each_sentence_has_its_own_limit(translator, monkeypatch):
    monkeypatch.setattr(translator, "params", without_end(translator.params))
    lengths = [3, 14, 1, 40]
    found = translator.translate([" ".join(["w5"] * length) for length in lengths], n_best=3)
    for length, (hypothesis, *_) in zip(lengths, found, strict=True):
        assert hypothesis.length == length + DECODE.max_extra_tokens == len(hypothesis.text.split())
        assert np.isfinite(hypothesis.score)


def test_long_sources(random_model):
    decode = DecodeConfig(beam=2, max_extra_tokens=2, batch_tokens=512)
    translator = Translator(*random_model(CONFIG, VOCABULARY), WordTokenizer(), decode)
    assert decode.max_source_length == 1024
    words = sentences(1, longest=6000, seed=3)[0].split()
    assert len(words) > 1200
    lines = [" ".join(words[:n]) for n in (1, 200, 1200, 600, 1023, 1024)]
    warnings = []
    found = list(translator.translate(lines, on_warning=warnings.append))
    assert warnings == [
        "line 3: only the first 1023 of 1200 tokens are translated (decode.max_source_length = 1024)",
        "line 6: only the first 1023 of 1024 tokens are translated (decode.max_source_length = 1024)",
    ]
    assert len(found) == 6
    assert found[2] == found[4] == found[5]


def test_learned_positions_bound_source_and_target(random_model, capsys):
    config = dataclasses.replace(CONFIG, positions="learned")
    graphdef, params = random_model(config, VOCABULARY)
    translator = Translator(graphdef, without_end(params), WordTokenizer(), DECODE)
    line = sentences(1, longest=20)[0]
    lines = ["w4 " * 30, line, "w4 " * 23]
    found = [hypotheses[0] for hypotheses in translator.translate(lines)]
    assert capsys.readouterr().err == (
        "line 1: only the first 23 of 30 tokens are translated (model.max_positions = 24)\n"
    )
    assert found[0] == found[2] and found[0].length == 24
    assert found[1].length == min(24, len(line.split()) + DECODE.max_extra_tokens)


def test_few_programs_are_compiled_none_of_them_twice_and_memory_does_not_grow(random_model):
    graphdef, params = random_model(CONFIG, VOCABULARY)
    translator = Translator(graphdef, params, WordTokenizer(), dataclasses.replace(DECODE, batch_tokens=256))
    compiled = []

    def listen(event, duration, **_):
        if event == "/jax/core/compile/backend_compile_duration":
            compiled.append(duration)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        for _ in translator.translate(sentences(200, longest=60)):
            pass
        assert 1 <= len(compiled) <= 6
        compiled.clear()
        arrays = len(jax.live_arrays())
        translator.params = jax.tree.map(lambda x: 0.5 * x, params)  # as after some more updates
        for _ in translator.translate(sentences(400, longest=60, seed=1)):
            assert len(jax.live_arrays()) <= arrays + 2 * len(jax.tree.leaves(params))
        assert compiled == []
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)


def test_mistakes_are_refused_at_once(translator, random_model):
    with pytest.raises(UserError, match=r"n-best = 4: must be from 1 to the beam, decode\.beam = 3"):
        translator.translate(["w5"], n_best=4)
    with pytest.raises(UserError, match="the tokenizer has 20 pieces, but the model has 21"):
        Translator(*random_model(CONFIG, 21), WordTokenizer(), DECODE)


def translate_on_two_devices(random_model):
    """Run in a process of its own: 7 sentences in batches of 4 on 2 devices."""
    assert jax.device_count() == 2
    decode = dataclasses.replace(DECODE, batch_tokens=64)
    translator = Translator(*random_model(CONFIG, VOCABULARY), WordTokenizer(), decode)
    translator_module.FEW_ROWS = 3
    for hypothesis, *_ in translator.translate(sentences(7, longest=15, seed=1), n_best=3):
        print(f"{hypothesis.text}\t{hypothesis.score:.4f}")


def test_two_devices_translate_every_sentence(translator):
    program = (
        "import importlib.util\n"
        "def load(name):\n"
        f"    spec = importlib.util.spec_from_file_location(name, {str(Path(__file__).parent)!r} + f'/{{name}}.py')\n"
        "    module = importlib.util.module_from_spec(spec)\n"
        "    spec.loader.exec_module(module)\n"
        "    return module\n"
        "load('test_translator').translate_on_two_devices(load('conftest').build_random_model)\n"
    )
    environment = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=2", "JAX_PLATFORMS": "cpu"}
    run = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    expected = translator.translate(sentences(7, longest=15, seed=1), n_best=3)
    assert run.stdout == "".join(f"{best.text}\t{best.score:.4f}\n" for best, *_ in expected)
