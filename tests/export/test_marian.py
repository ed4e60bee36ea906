"""An exported run is the same model: in plain numpy, bit for bit on the way back, and in Hugging Face's own code."""

import json
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from tests import reference
from vaswani.data.tokenizer import BEGIN, END
from vaswani.decoding.translator import Translator, load_translator
from vaswani.errors import UserError
from vaswani.export.marian import attention_biases, check_marian_can_hold, from_marian, halves, matches, to_marian
from vaswani.files import new_directory
from vaswani.model import build
from vaswani.runs.directory import RunDirectory
from vaswani.schema import ModelConfig

SMALL = ModelConfig(N=2, d_model=8, d_ff=12, h=2, d_k=4, d_v=4)
DEEP = ModelConfig(N=3, d_model=12, d_ff=8, h=3, d_k=4, d_v=4)
ONE_LAYER = ModelConfig(N=1, d_model=4, d_ff=8, h=1, d_k=4, d_v=4)
SHAPES = [SMALL, DEEP, ONE_LAYER]
V = 11
SOURCE, TARGET = [5, 9, 4, 10, 2], [1, 6, 4, 10, 8, 7]


def parameters(config: ModelConfig):
    """Random ones, biases and norms too: where a model begins these are all 0 and 1."""
    rng = np.random.default_rng(3)
    return jax.tree.map(
        lambda x: (np.asarray(x) + rng.normal(0, 0.2, x.shape)).astype(np.float32), build(config, V, seed=4)[1]
    )


def marian_logits(weights, config: ModelConfig, epsilon: float):
    """Hugging Face's Marian in float64, of its parameters by name, put together from the reference's functions."""
    w = {name: array.astype(np.float64) for name, array in weights.items()}
    d = config.d_model

    def linear(x, name):
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    def attention(x, memory, name, causal=False):
        Q, K, V = linear(x, f"{name}.q_proj"), linear(memory, f"{name}.k_proj"), linear(memory, f"{name}.v_proj")
        heads = [
            reference.attention(q, k, v, causal)[1]
            for q, k, v in zip(*(np.split(x, config.h, axis=1) for x in (Q, K, V)), strict=True)
        ]
        return linear(np.concatenate(heads, axis=1), f"{name}.out_proj")

    def norm(x, name):
        return reference.layer_norm(x, {"scale": w[f"{name}.weight"], "bias": w[f"{name}.bias"]}, epsilon)

    def embed(ids):
        angle = np.arange(len(ids))[:, None] / 10000 ** (np.arange(0, d, 2) / d)
        return w["model.shared.weight"][ids] * np.sqrt(d) + np.concatenate([np.sin(angle), np.cos(angle)], axis=1)

    x = embed(SOURCE)
    for i in range(config.N):
        layer = f"model.encoder.layers.{i}"
        x = norm(x + attention(x, x, f"{layer}.self_attn"), f"{layer}.self_attn_layer_norm")
        x = norm(x + linear(np.maximum(linear(x, f"{layer}.fc1"), 0), f"{layer}.fc2"), f"{layer}.final_layer_norm")
    memory, x = x, embed(TARGET)
    for i in range(config.N):
        layer = f"model.decoder.layers.{i}"
        x = norm(x + attention(x, x, f"{layer}.self_attn", causal=True), f"{layer}.self_attn_layer_norm")
        x = norm(x + attention(x, memory, f"{layer}.encoder_attn"), f"{layer}.encoder_attn_layer_norm")
        x = norm(x + linear(np.maximum(linear(x, f"{layer}.fc1"), 0), f"{layer}.fc2"), f"{layer}.final_layer_norm")
    return x @ w["model.shared.weight"].T + w["final_logits_bias"]


@pytest.mark.parametrize("config", SHAPES, ids=["small", "deep", "one layer"])
def test_permuting_and_scaling_change_nothing(config):
    """Without an epsilon the scale between the norms has no effect at all: equal to what float64 loses."""
    params = parameters(config)
    ours = reference.of_the_product(params)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reference.layer_norm, "__defaults__", (0.0,))
        expected = reference.logits(ours, SOURCE, TARGET, config.h)
    np.testing.assert_allclose(marian_logits(to_marian(params, config), config, 0.0), expected, rtol=0, atol=1e-12)


def test_the_fixed_epsilon_is_nearly_ours():
    """In small streams, where an epsilon counts: the scale leaves a twentieth of the error, or less."""
    params = parameters(SMALL)
    for stack in ("encoder", "decoder"):
        for layer in params[stack].values():
            for part in layer:
                if part.endswith("_norm"):
                    layer[part]["norm"]["scale"] *= 0.3
    expected = reference.logits(reference.of_the_product(params), SOURCE, TARGET, SMALL.h)
    weights = to_marian(params, SMALL)
    as_exported = np.abs(marian_logits(weights, SMALL, 1e-5) - expected).max()
    unscaled = {name: array.astype(np.float64) for name, array in weights.items()}
    for match in matches(SMALL.N):
        unscaled[match.theirs] = unscaled[match.theirs] / match.factor
    without_scale = np.abs(marian_logits(unscaled, SMALL, 1e-5) - expected).max()
    assert 20 * as_exported < without_scale and as_exported < 1e-6


@pytest.mark.parametrize("config", SHAPES, ids=["small", "deep", "one layer"])
def test_there_and_back_is_the_same_bit_for_bit(config):
    params = parameters(config)
    weights = to_marian(params, config)
    back = from_marian(weights, config)
    jax.tree.map(np.testing.assert_array_equal, back, params)
    again = to_marian(back, config)
    assert again.keys() == weights.keys() and all(np.array_equal(again[name], weights[name]) for name in weights)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"d_k": 2}, r"model\.d_k = 2 and model\.d_v = 4: .* d_model / h = 4"),
        ({"d_v": 8}, r"model\.d_v = 8"),
        ({"positions": "learned"}, r"model\.positions = 'learned'"),
    ],
)
def test_what_the_format_cannot_hold_is_refused(change, says):
    check_marian_can_hold(SMALL)
    with pytest.raises(UserError, match=says):
        check_marian_can_hold(replace(SMALL, **change))


def test_a_folder_is_written_whole_and_numpy_reads_it(trained):
    """safetensors is a length, a table of contents in JSON, and plain arrays."""
    pytest.importorskip("safetensors")
    trained.vaswani("export", "runs/tiny", "--to", "marian", "--out", "hf")
    folder, run = trained.path / "hf", RunDirectory.open(trained.path / "runs/tiny")
    data = (folder / "model.safetensors").read_bytes()
    size = int.from_bytes(data[:8], "little")
    header, body = json.loads(data[8 : 8 + size]), data[8 + size :]
    assert header.pop("__metadata__") == {"format": "pt"} and {entry["dtype"] for entry in header.values()} == {"F32"}
    weights = {
        name: np.frombuffer(body[slice(*entry["data_offsets"])], np.float32).reshape(entry["shape"])
        for name, entry in header.items()
    }
    config = run.load_config()
    translator, _ = load_translator(run, "auto", config.decode)
    jax.tree.map(np.testing.assert_array_equal, from_marian(weights, config.model), jax.device_get(translator.params))
    assert not any(weights[name].any() for name in (*attention_biases(config.model.N), "final_logits_bias"))
    vocabulary = json.loads((folder / "vocab.json").read_text())
    assert len(vocabulary) == translator.tokenizer.vocab_size
    assert [vocabulary[piece] for piece in ("<pad>", "<s>", "</s>", "<unk>", "<0x41>")] == [0, 1, 2, 3, 4 + 0x41]
    assert not list(trained.path.glob(".tmp-*"))
    assert "hf: exists already" in trained.refused("export", "runs/tiny", "--to", "marian", "--out", "hf")


def test_an_export_that_fails_leaves_nothing(tmp_path):
    with pytest.raises(UserError), new_directory(tmp_path / "hf") as folder:
        (folder / "config.json").write_text("{}")
        check_marian_can_hold(replace(SMALL, d_k=2))
    assert not list(tmp_path.iterdir())


def test_a_type_that_the_format_lacks_is_refused(trained):
    says = trained.refused("export", "runs/tiny", "--to", "marian", "--type", "int8", "--out", "hf")
    assert "--type int8: a Marian folder holds float32" in says


LINES = ["the old cat sees a small house .", "a", "</s> <pad>", "  two  spaces ", "Ünïcödé 🙂 …", "e\u0301\ta"]


@pytest.fixture
def exported(trained):
    """A run, its Marian folder, and the two as they are loaded."""
    pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    trained.vaswani("export", "runs/tiny", "--to", "marian", "--out", "hf")
    run = RunDirectory.open(trained.path / "runs/tiny")
    translator, _ = load_translator(run, "auto", run.load_config().decode)
    folder = trained.path / "hf"
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder, local_files_only=True).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    return run.load_config(), translator, model, tokenizer


def test_hugging_face_has_the_same_tokens(exported):
    _, translator, _, theirs = exported
    for line in LINES:
        ids = translator.tokenizer.encode(line)
        assert theirs(line)["input_ids"] == [*ids, END]
        assert theirs.decode([BEGIN, *ids, END], skip_special_tokens=True) == translator.tokenizer.decode(ids).strip()


def test_hugging_face_computes_the_same(exported):
    import torch

    config, translator, model, _ = exported
    source, target = jnp.array([[7, 300, 4, 90, 400, END]]), jnp.array([[BEGIN, 60, 70, 480]])
    positions, segments = (lambda x: jnp.arange(x.shape[1])[None]), jnp.ones_like
    ours = nnx.merge(translator.graphdef, translator.params)
    memory = ours.encode(source, segments(source), positions(source))
    logits = ours.logits(ours.decode(target, segments(target), positions(target), memory, segments(source)))
    with torch.inference_mode():
        theirs = model(input_ids=torch.tensor(source.tolist()), decoder_input_ids=torch.tensor(target.tolist()))
    permuted = np.asarray(memory)[..., halves(config.model.d_model)]
    np.testing.assert_allclose(theirs.encoder_last_hidden_state, permuted, rtol=0, atol=1e-5)
    np.testing.assert_allclose(theirs.logits, logits, rtol=0, atol=1e-4)


def test_hugging_face_translates_the_same(exported):
    config, translator, model, tokenizer = exported
    lines = [line for line in LINES if line.strip()]
    decode = replace(config.decode, beam=1)
    greedy = Translator(translator.graphdef, translator.params, translator.tokenizer, decode)
    for line, (best, *_) in zip(lines, greedy.translate(lines), strict=True):
        source = tokenizer(line, return_tensors="pt")
        limit = source["input_ids"].shape[1] - 1 + config.decode.max_extra_tokens
        found = model.generate(**source, num_beams=1, max_new_tokens=limit)[0].tolist()
        assert found[0] == BEGIN and found[1:] == list(best.tokens)


def test_generation_settings_are_the_nearest_search(exported):
    config, _, model, _ = exported
    settings = model.generation_config
    assert (settings.num_beams, settings.length_penalty) == (config.decode.beam, 0.48)  # 0.8 α
    assert settings.forced_eos_token_id is None and settings.decoder_start_token_id == BEGIN
