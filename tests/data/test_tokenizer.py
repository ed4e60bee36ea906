import re

import pytest

from vaswani.data.tokenizer import BEGIN, END, PAD, UNKNOWN, Tokenizer, check_same_tokenizer, cut, learn
from vaswani.errors import UserError

LINES = [
    "Two dogs play in the snow.",
    "Zwei Hunde spielen im Schnee.",
    "A man reads.",
    "Ein Mann liest größere Bücher.",
]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    path = tmp_path_factory.mktemp("tokenizer") / "with, a comma.model"
    learn(iter(LINES), 320, path)
    return Tokenizer.load(path)


@pytest.mark.parametrize(
    "text",
    ["", " ", "  a  b ", "</s>", "<pad><s><unk> <0x41>", "\0", "a\tb\t", "x\u0085y\u2028z", "\ufeffbom", "\u2585",
     "😀 👩\u200d🚀 … ½ ｆｕｌｌ e\u0301 é", "& \" ' &amp; -> „so“", "Two dogs", "größere 中文 ⁇"],
)  # fmt: skip
def test_text_round_trips_and_never_becomes_a_special_symbol(tokenizer, text):
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert not {PAD, BEGIN, END, UNKNOWN} & set(ids)


def test_what_does_not_round_trip(tokenizer):
    assert tokenizer.decode(tokenizer.encode("a▁b")) == "a b"
    assert tokenizer.decode(tokenizer.encode("a\r\nb\nc")) == "a  b c"


def test_decode_leaves_specials_out(tokenizer):
    ids = tokenizer.encode("A man")
    assert tokenizer.decode([BEGIN, *ids[:1], UNKNOWN, *ids[1:], END, PAD, PAD]) == "A man"


def test_batch_equals_one_by_one_and_words_are_joint(tokenizer):
    assert tokenizer.encode_batch([*LINES, ""]) == [tokenizer.encode(line) for line in [*LINES, ""]]
    assert tokenizer.pieces(tokenizer.encode("A man"))[0].startswith("▁")
    assert (tokenizer.vocab_size, tokenizer.pieces([0, 1, 2, 3, 4])) == (
        320,
        ["<pad>", "<s>", "</s>", "<unk>", "<0x00>"],
    )


def test_same_lines_same_pieces(tokenizer, tmp_path):
    learn(iter(LINES), 320, tmp_path / "again")
    learn(iter(LINES[:3]), 300, tmp_path / "other")
    assert Tokenizer.load(tmp_path / "again").checksum == tokenizer.checksum
    assert Tokenizer.load(tmp_path / "other").checksum != tokenizer.checksum


def test_too_large_names_the_largest_size_and_that_size_works(tmp_path):
    with pytest.raises(UserError, match=r"data\.vocab_size = 37000 is too large") as error:
        learn(iter(LINES), 37_000, tmp_path / "m")
    largest = int(re.search(r"at most (\d+)", str(error.value))[1])
    learn(iter(LINES), largest, tmp_path / "m")
    assert Tokenizer.load(tmp_path / "m").vocab_size == largest
    with pytest.raises(UserError, match=f"at most {largest}"):
        learn(iter(LINES), largest + 1, tmp_path / "m")


def test_too_small_and_empty_are_errors(tmp_path):
    with pytest.raises(UserError, match=r"data\.vocab_size = 261 is too small: .* alone are (\d+)"):
        learn(iter(LINES), 261, tmp_path / "m")
    with pytest.raises(UserError, match="no text"):
        learn(iter([]), 300, tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


def test_lines_that_cannot_be_learned_from_are_cut_and_counted(tmp_path):
    lines = [*LINES, "q" * 4192, "q" * 4193, "é" * 2097, "▅ w"]
    assert learn(iter(lines), 300, tmp_path / "m") == {"lines": 8, "cut": 3, "first_cut": "q" * 40}


def test_no_character_is_lost_with_a_long_line(tmp_path):
    """Each of these characters stands only in a line that SentencePiece itself would leave out."""
    learn(["x" * 4192 + "ß" * 9, "y" * 4191 + "ü" * 9, "▅" + "中" * 9, "z z " * 2000 + "é" * 9], 290, tmp_path / "m")
    tokenizer = Tokenizer.load(tmp_path / "m")
    assert [tokenizer.pieces(tokenizer.encode(character)) for character in "ßü中é"] == [
        ["▁", "ß"], ["▁", "ü"], ["▁", "中"], ["▁", "é"],
    ]  # fmt: skip


def test_long_lines_are_cut_at_spaces():
    word = "wörd " * 800  # 6 bytes each
    assert list(cut(word)) == [("wörd " * 698)[:-1], "wörd " * 102]
    assert list(cut("a" * 4192 + " b")) == ["a" * 4192, "b"]
    assert list(cut("中" * 2000)) == ["中" * 1397, "中" * 603]
    assert list(cut("▅a▅▅ b▅")) == ["a", " b"]
    assert list(cut("▅")) == []


def test_lines_that_fail_to_come_fail_as_they_did(tmp_path):
    def broken():
        yield "a b"
        raise UserError("line 2: not UTF-8")

    with pytest.raises(UserError, match=r"^line 2: not UTF-8$"):
        learn(broken(), 300, tmp_path / "m")


def test_another_tokenizer_is_refused(tokenizer):
    check_same_tokenizer("m", tokenizer.checksum, tokenizer.checksum, "prepared/x", "")
    with pytest.raises(UserError, match=r"^m: not the tokenizer of prepared/x; prepare again$"):
        check_same_tokenizer("m", tokenizer.checksum, "0", "prepared/x", "prepare again")


def test_not_a_tokenizer(tmp_path):
    with pytest.raises(UserError, match="no such tokenizer"):
        Tokenizer.load(tmp_path / "none")
    (tmp_path / "m").write_bytes(b"junk")
    with pytest.raises(UserError, match="not a SentencePiece model"):
        Tokenizer.load(tmp_path / "m")
