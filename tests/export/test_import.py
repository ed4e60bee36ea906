"""A Marian folder as a run: the same parameters where it was one of ours, the same translations where it was not."""

import json
import shutil

import jax
import numpy as np
import pytest
import sentencepiece

from vaswani.data.tokenizer import BEGIN, END, PAD, UNKNOWN, Tokenizer, learn
from vaswani.decoding.translator import load_translator
from vaswani.errors import UserError
from vaswani.export.imported import import_marian
from vaswani.export.marian import write_marian
from vaswani.export.pieces import MarianSpecials, joint_tokenizer
from vaswani.model import build
from vaswani.runs.directory import RunDirectory
from vaswani.schema import Config, DecodeConfig, ModelConfig

TEXT = ["the old cat sees a small house", "ein kleiner Hund schläft im Garten", "zwei Katzen, drei Hunde."] * 20


@pytest.fixture
def spm(tmp_path):
    """SentencePiece's own numbering: <unk> 0, <s> 1, </s> 2, no padding; a unigram model, and bytes."""
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXT), model_prefix=str(tmp_path / "spm"), vocab_size=330, model_type="unigram",
        byte_fallback=True, hard_vocab_limit=False, minloglevel=2,
    )  # fmt: skip
    return (tmp_path / "spm.model").read_bytes()


def marian_vocabulary(model: bytes) -> dict[str, int]:
    """As Marian numbers: the end symbol first, the unknown one, the pieces from the last to the first, padding last."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    pieces = [processor.id_to_piece(i) for i in reversed(range(3, processor.vocab_size()))]
    return {piece: i for i, piece in enumerate(["</s>", "<unk>", *pieces, "<pad>"])}


def test_pieces_are_renumbered_and_text_is_cut_as_before(spm):
    before = sentencepiece.SentencePieceProcessor(model_proto=spm)
    vocabulary = marian_vocabulary(spm)
    pad = vocabulary["<pad>"]
    model, rows = joint_tokenizer(spm, vocabulary, MarianSpecials(pad, pad, 0, 1), "folder")
    after = Tokenizer(model)
    assert after.vocab_size == len(vocabulary) + 1  # one symbol was two of ours
    assert rows[:6].tolist() == [pad, pad, 0, 1, 2, 3] and after.pieces(range(4)) == ["<pad>", "<s>", "</s>", "<unk>"]
    for line in [*TEXT[:3], "unseen Zeichen: ß 🙂", "  spaces  "]:
        pieces = before.encode(line, out_type=str)
        assert after.pieces(after.encode(line)) == pieces
        assert [int(rows[i]) for i in after.encode(line)] == [vocabulary[piece] for piece in pieces]
        assert after.decode(after.encode(line)) == before.decode(pieces)


def test_our_own_tokenizer_stays_as_it_is(tmp_path):
    learn(iter(TEXT), 330, tmp_path / "tokenizer.model")
    model = (tmp_path / "tokenizer.model").read_bytes()
    pieces = Tokenizer(model).pieces(range(330))
    vocabulary = {piece: i for i, piece in enumerate(pieces)}
    again, rows = joint_tokenizer(model, vocabulary, MarianSpecials(PAD, BEGIN, END, UNKNOWN), "folder")
    assert again == model and rows.tolist() == list(range(330))


def test_vocabularies_that_one_sentencepiece_model_cannot_hold(spm):
    vocabulary = marian_vocabulary(spm)
    specials = MarianSpecials(vocabulary["<pad>"], vocabulary["<pad>"], 0, 1)

    def refuse(vocabulary, specials, says):
        with pytest.raises(UserError, match=says):
            joint_tokenizer(spm, vocabulary, specials, "folder")

    refuse({**vocabulary, ">>fr<<": len(vocabulary)}, specials, r"1 tokens of vocab.json, as '>>fr<<', are no pieces")
    without = {token: i for i, token in enumerate(t for t in vocabulary if t != "<0x41>")}
    pad = without["<pad>"]
    refuse(without, MarianSpecials(pad, pad, 0, 1), r"1 pieces of source.spm, as '<0x41>', have no id")
    refuse({**vocabulary, "<pad>": 9999}, specials, r"are not 0, 1, 2")
    refuse(vocabulary, MarianSpecials(specials.pad, 0, 0, 1), r"decoding starts with '</s>', which has another")
    refuse(vocabulary, MarianSpecials(specials.pad, specials.pad, 0, -1), r"special symbols .* are not all among")


def test_a_run_goes_out_and_comes_back(trained):
    """Parameters and tokenizer bit for bit, the search's settings, the same translations; and it is fine-tuned."""
    pytest.importorskip("safetensors")
    trained.vaswani("export", "runs/tiny", "--to", "marian", "--out", "hf")
    trained.vaswani("import", "marian", "hf", "--run", "runs/back")
    out, back = (RunDirectory.open(trained.path / "runs" / name) for name in ("tiny", "back"))
    before, after = out.load_config(), back.load_config()
    assert after.model == before.model
    assert (after.decode.beam, after.decode.alpha) == (before.decode.beam, before.decode.alpha)
    assert (after.data.source, after.data.target) == ("en", "de")
    assert back.tokenizer_path.read_bytes() == out.tokenizer_path.read_bytes()
    ours, theirs = (load_translator(run, "auto", before.decode)[0] for run in (out, back))
    jax.tree.map(np.testing.assert_array_equal, ours.params, theirs.params)
    trained.vaswani("export", "runs/back", "--to", "marian", "--out", "hf2")
    for path in (trained.path / "hf").iterdir():
        if path.name != "README.md":
            assert path.read_bytes() == (trained.path / "hf2" / path.name).read_bytes(), path.name

    assert "runs/back: exists already" in trained.refused("import", "marian", "hf", "--run", "runs/back")
    given = ("--data.tokenizer", "runs/back/tokenizer.model", "--data.name", "tuned", "--train.steps", "2")
    trained.vaswani("train", "tiny.toml", "--run", "runs/tuned", "--init", "runs/back", *given)


@pytest.fixture
def folder(tmp_path):
    """A Marian folder of a model of ours as it begins."""
    pytest.importorskip("safetensors")
    learn(iter(TEXT), 330, tmp_path / "tokenizer.model")
    config = Config(model=ModelConfig(N=1, d_model=8, d_ff=8, h=2, d_k=4, d_v=4))
    pieces = Tokenizer.load(tmp_path / "tokenizer.model").pieces(range(330))
    (tmp_path / "hf").mkdir()
    write_marian(tmp_path / "hf", config, tmp_path / "tokenizer.model", pieces, build(config.model, 330)[1])
    return tmp_path / "hf"


def refused(folder) -> str:
    run = RunDirectory(folder.parent / "run")
    with pytest.raises(UserError) as caught:
        import_marian(folder, run)
    assert not run.path.exists()
    return str(caught.value)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"activation_function": "swish"}, "activation_function = 'swish'; a model of the paper has 'relu'"),
        ({"scale_embedding": False}, "scale_embedding = False"),
        ({"share_encoder_decoder_embeddings": False}, "share_encoder_decoder_embeddings = False"),
        ({"decoder_layers": 2}, "decoder_layers = 2; a model of the paper has 1"),
        ({"model_type": "bart"}, "model_type = 'bart'"),
        ({"pad_token_id": None}, "pad_token_id = None"),
        ({"max_position_embeddings": 20}, "decode.max_source_length"),
    ],
)
def test_settings_that_the_paper_lacks_are_refused(folder, change, says):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    assert says in refused(folder)


def test_weights_that_a_run_cannot_hold_are_refused(folder):
    numpy_files = pytest.importorskip("safetensors.numpy")
    path, weights = folder / "model.safetensors", numpy_files.load_file(folder / "model.safetensors")
    bias, norm = "model.decoder.layers.0.encoder_attn.v_proj.bias", "model.encoder.layers.0.final_layer_norm.weight"
    for name, value, says in (
        (bias, np.ones(8), f"{bias} is not zero"),
        ("final_logits_bias", np.ones((1, 330)), "final_logits_bias is not zero"),
        ("lm_head.weight", np.ones((330, 8)), "lm_head.weight is not the shared embedding"),
        ("model.shared.weight", np.ones((331, 8)), "model.shared.weight is [331, 8], not [330, 8]"),
        (norm, np.ones(9), f"{norm} is [9], not [8]"),
    ):
        numpy_files.save_file({**weights, name: value.astype(np.float32)}, path)
        assert says in refused(folder)
    numpy_files.save_file({name: array for name, array in weights.items() if name != norm}, path)
    assert f"has no {norm}" in refused(folder)
    path.write_bytes(b"not tensors")
    assert "model.safetensors: cannot be read" in refused(folder)
    path.unlink()
    assert "has no model.safetensors" in refused(folder)


def test_two_sentencepiece_models_are_refused(folder):
    with open(folder / "target.spm", "ab") as file:
        file.write(b"\n")
    assert "source.spm and target.spm differ" in refused(folder)
    (folder / "target.spm").unlink()
    assert "target.spm: cannot be read" in refused(folder)
    (folder / "config.json").unlink()
    assert "no Marian model" in refused(folder)


@pytest.mark.parametrize(("layers", "d_model", "heads", "own_begin"), [(1, 16, 2, False), (3, 24, 4, True)])
def test_a_model_of_hugging_face_translates_the_same_as_a_run(tmp_path, spm, layers, d_model, heads, own_begin):
    """Random weights, Marian's own numbering; greedy search, and log-probabilities to what the epsilon changes."""
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    torch.manual_seed(5)
    vocabulary = marian_vocabulary(spm) | ({"<start>": len(marian_vocabulary(spm))} if own_begin else {})
    pad, begin = vocabulary["<pad>"], vocabulary.get("<start>", vocabulary["<pad>"])
    config = transformers.MarianConfig(
        vocab_size=len(vocabulary), d_model=d_model, encoder_layers=layers, decoder_layers=layers,
        encoder_attention_heads=heads, decoder_attention_heads=heads, encoder_ffn_dim=32, decoder_ffn_dim=32,
        activation_function="relu", scale_embedding=True, max_position_embeddings=80, pad_token_id=pad, eos_token_id=0,
        decoder_start_token_id=begin, forced_eos_token_id=None, init_std=0.3,
    )  # fmt: skip
    model = transformers.MarianMTModel(config).eval()
    with torch.no_grad():
        for name, value in model.named_parameters():
            if name.endswith(("fc1.bias", "fc2.bias", "k_proj.bias", "layer_norm.bias")):
                value.normal_(0, 0.1)
    folder = tmp_path / "hf"
    model.save_pretrained(folder)
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    for name in ("source.spm", "target.spm"):
        shutil.copyfile(tmp_path / "spm.model", folder / name)
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "MarianTokenizer", "source_lang": "en", "target_lang": "de"})
    )
    run = RunDirectory(tmp_path / "run")
    import_marian(folder, run)

    translator, _ = load_translator(run, "auto", DecodeConfig(beam=1, alpha=0.0, max_extra_tokens=10))
    rows = {token: i for i, token in enumerate(translator.tokenizer.pieces(range(translator.tokenizer.vocab_size)))}
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    for line, (best, *_) in zip(TEXT[:3], translator.translate(TEXT[:3]), strict=True):
        source = tokenizer(line, return_tensors="pt")
        limit = source["input_ids"].shape[1] - 1 + 10
        never = [pad, begin, vocabulary["<unk>"]]
        found = model.generate(
            **source, num_beams=1, max_new_tokens=limit, suppress_tokens=never, output_logits=True,
            return_dict_in_generate=True,
        )  # fmt: skip
        ids = found.sequences[0, 1:].tolist()
        names = {i: token for token, i in vocabulary.items()}
        assert [rows[names[i]] for i in ids] == list(best.tokens)
        log_probs = [x[0].log_softmax(-1)[i].item() for x, i in zip(found.logits, ids, strict=True)]
        # Where padding and begin are one symbol of Marian, ours has two of that probability.
        share = [np.log1p(x[0].softmax(-1)[pad].item()) for x in found.logits] if pad == begin else [0.0]
        np.testing.assert_allclose(best.log_prob, sum(log_probs) - sum(share), rtol=1e-4)
