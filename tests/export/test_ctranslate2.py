"""CTranslate2 holds the same model and finds the same translations."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import sentencepiece

from vaswani.commands import export_run
from vaswani.decoding.translator import load_translator
from vaswani.runs.directory import RunDirectory

LINES = ["the old cat sees a small house .", "a", "</s> <pad>", "Ünïcödé 🙂 …"]


@pytest.mark.parametrize(("type", "tolerance"), [("float32", 1e-4), ("float16", 2e-2), ("int8", 0.5)])
def test_it_translates_the_same(trained, type, tolerance):
    ctranslate2 = pytest.importorskip("ctranslate2")
    run, folder = RunDirectory.open(trained.path / "runs/tiny"), trained.path / "ct2"
    export_run(run, "ctranslate2", "auto", type, folder)
    decode = replace(run.load_config().decode, beam=1)
    ours, _ = load_translator(run, "auto", decode)
    tokenizer = sentencepiece.SentencePieceProcessor(str(folder / "tokenizer.model"))
    theirs = ctranslate2.Translator(str(folder), compute_type="float32")
    for line, (best, *_) in zip(LINES, ours.translate(LINES), strict=True):
        source, target = tokenizer.encode(line, out_type=str), ours.tokenizer.pieces(best.tokens)
        # It scores the end symbol as well, which an output that was cut off does not have.
        (scored,) = theirs.score_batch([source], [[piece for piece in target if piece != "</s>"]])
        np.testing.assert_allclose(sum(scored.log_probs[: len(target)]), best.log_prob, rtol=0, atol=tolerance)
        if type == "float32":
            limit = len(source) + decode.max_extra_tokens
            never = [["<pad>"], ["<s>"], ["<unk>"]]
            (found,) = theirs.translate_batch(
                [source], beam_size=1, max_decoding_length=limit, suppress_sequences=never
            )  # fmt: skip
            assert found.hypotheses[0] == [piece for piece in target if piece != "</s>"]


def test_the_card_says_how_it_is_used(trained):
    """The command in the card is run as it stands."""
    pytest.importorskip("ctranslate2")
    trained.vaswani("evaluate", "runs/tiny")
    trained.vaswani("export", "runs/tiny", "--to", "ctranslate2", "--out", "ct2")
    card = (trained.path / "ct2/README.md").read_text()
    assert "language: [en, de]" in card and "embedded toy corpus" in card and "step 12" in card
    assert "| test | step 12 | sacreBLEU |" in card and "tok:13a" in card and "d_model = 16" in card
    code = card.split("```python\n")[1].split("```")[0]
    (trained.path / "use.py").write_text(code)
    done = subprocess.run([sys.executable, "use.py"], cwd=trained.path, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("['") and done.stdout.endswith("']\n")
