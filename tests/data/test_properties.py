"""What holds for any text, any bytes and any lengths. HYPOTHESIS_PROFILE=long draws 10,000 examples of each."""

import csv
import gzip
import io
import json
from pathlib import Path

import numpy as np
import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from tests.data.test_packing import encoded, expected, unpacked
from vaswani.data import tokenizer as tokenizer_module
from vaswani.data.corpus import read_jsonl, read_lines, read_pairs, write_jsonl
from vaswani.data.packing import TrainingBatches, one_pass, pack
from vaswani.data.tokenizer import SPECIALS, Tokenizer, cut, learn
from vaswani.errors import UserError
from vaswani.schema import DataConfig, TrainConfig

# Any Unicode text, and text made of what is likely to be taken for something else.
TRAPS = [
    "</s>",
    "<s>",
    "<unk>",
    "<pad>",
    "<0x41>",
    "<0x",
    "▁",
    "▅",
    " ",
    "  ",
    "\0",
    "\r",
    "\u2028",
    "\ufeff",
    "a",
    "é",
]
TEXT = st.text() | st.lists(st.sampled_from(TRAPS) | st.text(max_size=3)).map("".join)
LINE = TEXT.map(lambda text: text.replace("\n", ""))


@pytest.fixture(scope="module")
def directory(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("properties")


@pytest.fixture(scope="module")
def tokenizer(directory) -> Tokenizer:
    learn(["Two dogs play in the snow.", "Ein Mann liest größere Bücher.", "</s> 中文 😀"], 310, directory / "m")
    return Tokenizer.load(directory / "m")


# Tokenizer


@given(text=TEXT)
def test_decoding_gives_the_text_back(tokenizer, text):
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text.replace("▁", " ").replace("\r", " ").replace("\n", " ")
    assert not set(SPECIALS) & set(ids)
    assert tokenizer.encode_batch([text, text]) == [ids, ids]


@given(ids=st.lists(st.integers(0, 309)))
def test_any_ids_decode_to_one_line(tokenizer, ids):
    text = tokenizer.decode(ids)
    assert "\n" not in text and "\r" not in text
    text.encode()


@given(lines=st.lists(TEXT, min_size=1, max_size=5), vocab_size=st.integers(261, 320))
def test_any_lines_give_a_tokenizer_or_one_clear_line(directory, lines, vocab_size):
    try:
        learn(lines, vocab_size, directory / "any")
    except UserError:
        return
    learned = Tokenizer.load(directory / "any")
    assert learned.vocab_size == vocab_size
    for line in lines:
        assert learned.decode(learned.encode(line)) == line.replace("▁", " ").replace("\r", " ").replace("\n", " ")


@given(line=st.text(st.sampled_from(" aé中😀▅"), max_size=60) | TEXT, most=st.integers(4, 12))
def test_a_line_is_cut_into_all_its_characters(line, most):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokenizer_module, "MAX_LINE_BYTES", most)
        parts = list(cut(line))
    assert all(0 < len(part.encode()) <= most and "▅" not in part for part in parts)
    assert "".join(parts).replace(" ", "") == line.replace("▅", "").replace(" ", "")


# Reading


@given(data=st.binary() | TEXT.map(str.encode))
def test_lines_of_any_bytes(data):
    try:
        lines = list(read_lines(io.BytesIO(data), "x"))
    except UserError:
        with pytest.raises(UnicodeDecodeError):
            data.decode()
        return
    text = data.removeprefix(b"\xef\xbb\xbf").decode().replace("\r\n", "\n")
    assert "".join(line + "\n" for line in lines).removesuffix("\n") == text.removesuffix("\n")


def read_or_refuse(directory: Path, name: str) -> list[tuple[str, str]]:
    """The pairs of a set, which can be stored; none if they are refused in one line."""
    try:
        pairs = list(read_pairs(DataConfig(dir=str(directory)), name))
    except UserError as error:
        assert str(error).isprintable()
        return []
    write_jsonl(directory / "stored", pairs)
    assert list(read_jsonl(directory / "stored")) == pairs
    return pairs


@given(source=st.binary(), target=st.binary(), damage=st.integers(0, 60))
def test_aligned_files_of_any_bytes(directory, source, target, damage):
    (directory / "aligned.en").write_bytes(source)
    packed = bytearray(gzip.compress(target))
    if damage < len(packed):
        packed[damage] ^= 1
    (directory / "aligned.de.gz").write_bytes(packed)
    pairs = read_or_refuse(directory, "aligned")
    assert len(pairs) <= source.count(b"\n") + 1


@given(pairs=st.lists(st.tuples(LINE, LINE), min_size=1, max_size=6))
def test_aligned_files_give_any_text_back(directory, pairs):
    """But a "\\r" at a line's end is half of a line end, and U+FEFF at the start a byte order mark."""
    pairs = [tuple(text.rstrip("\r").lstrip("\ufeff") for text in pair) for pair in pairs]
    for side, language in enumerate(("en", "de")):
        (directory / f"text.{language}").write_bytes("".join(pair[side] + "\n" for pair in pairs).encode())
    assert list(read_pairs(DataConfig(dir=str(directory)), "text")) == pairs


@given(rows=st.lists(st.lists(st.sampled_from([*',"\r\t\0é', "en", "de", "a b", '""', '"a,b"']), max_size=9)))
def test_csv_of_any_rows(directory, rows):
    text = "en,de\n" + "\n".join("".join(row) for row in rows)
    (directory / "any.csv").write_bytes(text.encode())
    read_or_refuse(directory, "any")


@given(data=st.binary())
def test_tables_of_any_bytes(directory, data):
    for kind in ("csv", "json", "parquet"):
        (directory / f"bytes_{kind}.{kind}").write_bytes(data)
        assert read_or_refuse(directory, f"bytes_{kind}") == []


@given(pairs=st.lists(st.tuples(LINE, LINE), min_size=1, max_size=6))
def test_csv_gives_any_text_back(directory, pairs):
    with open(directory / "quoted.csv", "w", encoding="utf-8", newline="") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows([("en", "de"), *pairs])
    assert list(read_pairs(DataConfig(dir=str(directory)), "quoted")) == pairs


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT | st.text(st.characters(categories=["Cs", "L"])),
    lambda values: st.lists(values, max_size=3) | st.dictionaries(st.sampled_from(["en", "de", "translation"]), values),
    max_leaves=8,
)


@given(rows=st.lists(JSON, max_size=4), end=st.text(st.sampled_from('}{][",:1'), max_size=3), as_array=st.booleans())
def test_json_of_any_values(directory, rows, end, as_array):
    text = json.dumps(rows) if as_array else "\n".join(map(json.dumps, rows))
    (directory / "any_json.json").write_text(text + end)
    read_or_refuse(directory, "any_json")


@given(pairs=st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=6), as_array=st.booleans(), escape=st.booleans())
def test_json_gives_any_text_back(directory, pairs, as_array, escape):
    rows = [{"translation": {"en": source, "de": target}} for source, target in pairs]
    text = (
        json.dumps(rows, ensure_ascii=escape)
        if as_array
        else "\n".join(json.dumps(row, ensure_ascii=escape) for row in rows)
    )
    (directory / "text_json.json").write_bytes(text.encode())
    assert list(read_pairs(DataConfig(dir=str(directory)), "text_json")) == pairs


@given(places=st.lists(st.integers(0, 10_000), min_size=1, max_size=4), bit=st.integers(0, 7))
def test_a_damaged_parquet_file_is_refused_or_read(directory, places, bit):
    whole = directory / "whole.parquet"
    if not whole.exists():
        parquet.write_table(pyarrow.table({"en": ["a", "b é"], "de": ["A", ""]}), whole)
    content = bytearray(whole.read_bytes())
    for place in places:
        content[place % len(content)] ^= 1 << bit
    (directory / "damaged.parquet").write_bytes(content)
    read_or_refuse(directory, "damaged")


# Packing


@given(
    lengths=st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40)), max_size=80),
    row_length=st.integers(40, 100),
    seed=st.none() | st.integers(0, 9),
)
def test_pack_puts_each_pair_into_one_row_that_holds_it(lengths, row_length, seed):
    sides = np.array(lengths, int).reshape(-1, 2).T
    rows = list(pack(*sides, row_length, None if seed is None else np.random.default_rng(seed)))
    assert sorted(pair for row in rows for pair in row) == list(range(len(lengths)))
    assert all(side[row].sum() <= row_length for side in sides for row in rows)
    assert all(rows)


@given(
    lengths=st.lists(st.tuples(st.integers(0, 39), st.integers(0, 39)), min_size=1, max_size=40),
    row_length=st.integers(40, 100),
    tokens_per_update=st.integers(1, 1000),
    max_tokens_per_device=st.integers(1, 500),
    devices=st.integers(1, 5),
)
def test_an_epoch_holds_each_pair_once(lengths, row_length, tokens_per_update, max_tokens_per_device, devices):
    pairs = encoded(*([[4 + i] * pair[side] for i, pair in enumerate(lengths)] for side in (0, 1)))
    train = TrainConfig(
        row_length=row_length, tokens_per_update=tokens_per_update, max_tokens_per_device=max_tokens_per_device, seed=3
    )
    batches = TrainingBatches(pairs, train, devices)
    drawn = []
    while True:
        batch = next(batches)
        if batches.state["epoch"] == 1:
            break
        assert batch.source.shape == batches.shape and batches.shape.rows % devices == 0
        drawn += unpacked(batch)
    assert sorted(drawn) == expected(pairs)
    assert sorted(pair for batch in one_pass(pairs, train, devices) for pair in unpacked(batch)) == expected(pairs)
