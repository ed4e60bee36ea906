import gzip
import io
import json
import re
from dataclasses import replace

import datasets
import numpy as np
import pytest
from huggingface_hub.utils import httpx

from vaswani.data.cleaning import Dropped, clean, sample
from vaswani.data.corpus import read_jsonl, read_lines, read_pairs, write_jsonl
from vaswani.errors import UserError
from vaswani.schema import DataConfig

# Text that readers like to turn into something else: missing values, numbers, dates, quotes, other line ends.
HOSTILE = [
    ("null", "NA"), ("007", "1e5"), ("2020-01-01", "nan"), ('5" disk', '"'), ('"open', "zu"), ("", " "),
    ("a\u2028b", "c\u0085d"), ("\x0b\x0c\x1c", "\t"), ("true", "N/A"), ("[red] :smile:", "</s>"),
]  # fmt: skip


def local(directory, **kwargs):
    return DataConfig(dir=str(directory), **kwargs)


def write(directory, name, lines, end="\n", bom=b""):
    data = bom + "".join(line + end for line in lines).encode()
    (directory / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)


def test_a_line_ends_at_newline_only():
    text = ["", " ", "\t", "a\u2028b", "c\u0085d", "e\x0bf\x0cg\x1ch", "i\rj", "last"]
    assert list(read_lines(io.BytesIO("\n".join(text).encode()), "x")) == text
    windows = b"\xef\xbb\xbfone\r\ntwo\r\n\xef\xbb\xbfthree\r"
    assert list(read_lines(io.BytesIO(windows), "x")) == ["one", "two", "\ufeffthree\r"]


def test_aligned_files_plain_and_gzipped_keep_every_line(tmp_path):
    write(tmp_path, "s.en", [a for a, _ in HOSTILE], end="\r\n", bom=b"\xef\xbb\xbf")
    write(tmp_path, "s.de.gz", [b for _, b in HOSTILE])
    assert list(read_pairs(local(tmp_path), "s")) == HOSTILE


def test_unequal_files_name_both_and_both_counts(tmp_path):
    write(tmp_path, "s.en", "abcde")
    write(tmp_path, "s.de", "abcd")
    with pytest.raises(UserError, match=r"s\.en has 5 lines, .*s\.de has 4:"):
        list(read_pairs(local(tmp_path), "s"))
    with pytest.raises(UserError, match=r"s\.de has 4 lines, .*s\.en has 5:"):
        list(read_pairs(local(tmp_path, source="de", target="en"), "s"))


def test_bad_files_are_named(tmp_path):
    write(tmp_path, "s.en", ["a", "b", "c"])
    (tmp_path / "s.de").write_bytes(b"a\nb\ncaf\xe9\n")
    with pytest.raises(UserError, match=r"s\.de, line 3: not UTF-8 \(byte 0xe9 at position 4\)"):
        list(read_pairs(local(tmp_path), "s"))
    (tmp_path / "s.de").unlink()
    (tmp_path / "s.de.gz").write_bytes(gzip.compress(b"a\nb\nc\n" * 999)[:-9])
    with pytest.raises(UserError, match=r"s\.de\.gz: not a whole gzip file"):
        list(read_pairs(local(tmp_path), "s"))
    (tmp_path / "s.de.gz").unlink()
    with pytest.raises(UserError, match=r"no s\.de\[\.gz\]; it holds s$"):
        list(read_pairs(local(tmp_path), "s"))
    with pytest.raises(
        UserError, match=r"no valid\.en\[\.gz\] and valid\.de\[\.gz\], nor valid\.parquet\|json\|jsonl\|csv"
    ):
        list(read_pairs(local(tmp_path), "valid"))
    with pytest.raises(UserError, match="no such directory"):
        list(read_pairs(local(tmp_path / "nowhere"), "s"))
    with pytest.raises(UserError, match=r"data\.dir = '~nobody-here': no such directory"):
        list(read_pairs(local("~nobody-here"), "s"))
    with pytest.raises(UserError, match=r"data\.dir = .*: cannot be read: File name too long"):
        list(read_pairs(local(tmp_path / ("x" * 300)), "s"))
    write(tmp_path, "e.en", [])
    write(tmp_path, "e.de", [])
    with pytest.raises(UserError, match=r"e in .*: holds no text"):
        list(read_pairs(local(tmp_path), "e"))


@pytest.mark.parametrize("nested", [True, False])
@pytest.mark.parametrize("kind", ["parquet", "json", "jsonl", "array"])
def test_tables_give_text_as_it_is(tmp_path, kind, nested):
    rows = [{"en": a, "de": b} for a, b in HOSTILE]
    rows = [{"translation": row} for row in rows] if nested else [{"id": 7} | row for row in rows]
    if kind == "parquet":
        features = {"translation": datasets.Translation(["en", "de"])} if nested else None
        table = datasets.Dataset.from_list(rows, features=features and datasets.Features(features))
        table.to_parquet(tmp_path / "s.parquet")
    elif kind == "array":
        (tmp_path / "s.json").write_text(json.dumps(rows, indent=1))
    else:
        (tmp_path / f"s.{kind}").write_text("\n".join(json.dumps(row, ensure_ascii=False) for row in rows), "utf-8")
    assert list(read_pairs(local(tmp_path), "s")) == HOSTILE


def test_csv_gives_text_as_it_is(tmp_path):
    rows = ["de,id,en", "NA,1,null", "1e5,2,007", '",3,5" disk', 'zu,4,"open', '"a, ""b""",5,"c, d"', "x,6,"]
    (tmp_path / "s.csv").write_text("\n".join(rows), "utf-8")
    assert list(read_pairs(local(tmp_path), "s")) == [
        ("null", "NA"), ("007", "1e5"), ('5" disk', '"'), ('"open', "zu"), ("c, d", 'a, "b"'), ("", "x"),
    ]  # fmt: skip


def test_bad_tables_are_named(tmp_path):
    cases = {
        "a.csv": ("en,de\na,b,c\n", r"a\.csv, line 2: has 3 columns where the first line names 2"),
        "a2.csv": ("en,de,en\na,b,c\n", r"a2\.csv, line 1: names the column 'en' more than once"),
        "b.csv": ("en,fr\na,b\n", r"b\.csv, row 1: has the columns \['en', 'fr'\]; needs en and de"),
        "c.jsonl": ('{"en": "x", "de": "y"}\n{"en"', r"c\.jsonl, line 2: not JSON"),
        "d.jsonl": ('{"en": 7, "de": "y"}\n', r"d\.jsonl, row 1: 7 is not text"),
        "e.jsonl": ('{"en": "\\ud800", "de": "y"}\n', r"e\.jsonl, row 1: half of a surrogate pair"),
        "f.parquet": ("no", r"f\.parquet: not a parquet file"),
    }
    for name, (content, message) in cases.items():
        (tmp_path / name).write_text(content)
        with pytest.raises(UserError, match=message):
            list(read_pairs(local(tmp_path), name.split(".")[0]))


def test_hub_is_asked_for_the_mapped_split(monkeypatch):
    asked = []

    def load_dataset(path, name, split, streaming):
        asked.append((path, name, split, streaming))
        return iter([{"translation": {"en": "Hello", "de": None}}])

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    assert list(read_pairs(DataConfig(), "newstest2013")) == [("Hello", "")]
    assert asked == [("wmt/wmt14", "de-en", "validation", True)]


@pytest.mark.parametrize(
    "error",
    [
        ConnectionError("Couldn't reach it\nand more"),
        httpx.ReadError("Couldn't reach it"),
        datasets.exceptions.DatasetNotFoundError("Couldn't reach it"),
        datasets.exceptions.DatasetGenerationError("Couldn't reach it"),
        RuntimeError("Couldn't reach it"),
    ],
)
@pytest.mark.parametrize("rows", [0, 1])
def test_what_the_hub_refuses_is_one_line(monkeypatch, error, rows):
    def load_dataset(*_, **__):
        yield from [{"en": "a", "de": "b"}] * rows
        raise error

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    with pytest.raises(UserError, match=r"split 'test'.*\(Couldn't reach it\); .* --data\.dir$"):
        list(read_pairs(DataConfig(), "newstest2014"))


def test_no_such_split_or_subset_is_one_line(tmp_path):
    """The library itself, on a data set in a local directory."""
    (tmp_path / "train.jsonl").write_text('{"en": "a", "de": "b"}\n')
    data = DataConfig(corpus=str(tmp_path), subset="", train="train")
    assert list(read_pairs(data, "train")) == [("a", "b")]
    with pytest.raises(UserError, match=r"split 'none'.*\(Bad split: none\. Available splits: \['train'\]\)"):
        list(read_pairs(data, "none"))
    with pytest.raises(UserError, match=r"de-en.*\(BuilderConfig 'de-en' not found"):
        list(read_pairs(replace(data, subset="de-en"), "train"))


def test_a_defect_is_not_taken_for_the_users_error(monkeypatch):
    def load_dataset(*_, **__):
        raise TypeError("an argument that no longer exists")

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    with pytest.raises(TypeError, match="no longer exists"):
        list(read_pairs(DataConfig(), "newstest2014"))


def test_a_blank_side_drops_the_pair():
    pairs = [("a", "A"), ("", "B"), ("c", " \t"), ("d", "D"), ("x" * 4, "y"), ("x" * 5, "y"), ("y", "x" * 5)]
    dropped = Dropped()
    assert list(clean(pairs, 4.0, dropped)) == [("a", "A"), ("d", "D"), ("xxxx", "y")]
    assert dropped.counts == {"blank": 2, "length ratio": 2}
    assert dropped.examples["blank"] == [("", "B"), ("c", " \t")]
    assert len(list(clean(pairs, 0, Dropped()))) == 5


def test_sample_is_exact_repeatable_and_uniform():
    keep = np.arange(10_000) % 2 == 0
    chosen = sample(keep, 1000)
    assert chosen.sum() == 1000 and not chosen[~keep].any()
    assert (chosen == sample(keep, 1000)).all()
    assert abs(chosen[:5000].sum() - 500) < 60  # 4 standard deviations
    assert sample(keep, 0) is keep and sample(keep, 5000) is keep


def test_stored_pairs_come_back_as_they_were(tmp_path):
    pairs = [*HOSTILE, ("a\nb\r", "\ufeff\0")]
    write_jsonl(tmp_path / "x", pairs)
    assert list(read_jsonl(tmp_path / "x")) == pairs
    assert re.fullmatch(rb"([^\n]+\n){11}", (tmp_path / "x").read_bytes())
