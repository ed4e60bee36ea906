import json
import re
import shutil
from pathlib import Path

import pytest

from tests.data.texts import VALID, configuration, write_lines, write_text
from vaswani.data import prepared_corpus as module
from vaswani.data.prepare import prepare
from vaswani.data.prepared_corpus import PreparedCorpus, same_text
from vaswani.errors import UserError

FILES = ["manifest.json", "tokenizer.model", "valid.jsonl", "test.jsonl"]
FILES += [f"{name}.{side}.{kind}" for name in ("train", "valid") for side in ("source", "target")
          for kind in ("npy", "offsets.npy")]  # fmt: skip


def read_all(path: Path) -> None:
    corpus = PreparedCorpus.open(path)
    corpus.pairs("train"), corpus.pairs("valid"), corpus.raw("valid"), corpus.raw("test")


def flip_a_bit(content: bytes) -> bytes:
    """In the middle of the file: not in a header, and not in the manifest's own checksum."""
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """A directory of two prepared corpora, "small" and "second", with the same names and numbers of sets."""
    directory = tmp_path_factory.mktemp("made")
    text, root = write_text(directory / "text"), directory / "prepared"
    prepare(configuration(text), root)
    write_lines(text, "train", [(f"{i} pears", f"{i} Birnen") for i in range(100)])
    write_lines(text, "valid", VALID[::-1])
    write_lines(text, "test", [("Other", "Andere")])
    prepare(configuration(text, name="second", vocab_size=300), root)
    return root


@pytest.fixture
def two(made, tmp_path) -> tuple[Path, Path]:
    """Copies of the two, to be damaged."""
    shutil.copytree(made, tmp_path / "prepared")
    return tmp_path / "prepared" / "small", tmp_path / "prepared" / "second"


@pytest.mark.parametrize("damage", ["emptied", "truncated", "a flipped bit", "missing", "of another corpus"])
@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_is_named_in_one_line(two, name, damage):
    path, other = two
    file = path / name
    read_all(path)
    content = file.read_bytes()
    if damage == "missing":
        file.unlink()
    else:
        file.write_bytes(
            {
                "emptied": b"",
                "truncated": content[:-7],
                "a flipped bit": flip_a_bit(content),
                "of another corpus": (other / name).read_bytes(),
            }[damage]
        )
    # The manifest of another corpus says that the tokenizer is the wrong one: which of the two is cannot be known.
    named = path / "tokenizer.model" if (name, damage) == ("manifest.json", "of another corpus") else file
    named = path if (name, damage) == ("manifest.json", "missing") else named
    with pytest.raises(UserError, match=f"^{re.escape(str(named))}: "):
        read_all(path)


def test_prepare_does_not_use_a_damaged_corpus_again(text, root):
    path = prepare(configuration(text), root).path
    ids = path / "train.target.npy"
    ids.write_bytes(flip_a_bit(ids.read_bytes()))
    expected = rf"train\.target\.npy: has changed since it was prepared; remove {path} and prepare again$"
    with pytest.raises(UserError, match=expected):
        prepare(configuration(text), root)


def test_of_a_large_file_only_the_size_is_checked(two, monkeypatch):
    path, _ = two
    ids = path / "train.target.npy"
    monkeypatch.setattr(module, "LARGEST_CHECKED", ids.stat().st_size - 1)
    content = ids.read_bytes()
    ids.write_bytes(flip_a_bit(content))
    PreparedCorpus.open(path).pairs("train")
    ids.write_bytes(content + b"x")
    with pytest.raises(UserError, match=r"has changed since it was prepared \(it has [\d,]+ bytes, not [\d,]+\)"):
        PreparedCorpus.open(path).pairs("train")


def made_by_0_1_0(path: Path) -> None:
    """Takes out of a manifest what version 0.1.0 did not write."""
    manifest = json.loads((path / "manifest.json").read_text())
    del manifest["crc32"], manifest["files"], manifest["sets"]["train"]["sha256"], manifest["sets"]["valid"]["sha256"]
    (path / "manifest.json").write_text(json.dumps(manifest))


def test_a_corpus_of_version_0_1_0_is_used_and_its_counts_are_checked(text, root):
    path = prepare(configuration(text), root).path
    made_by_0_1_0(path)
    read_all(path)
    write_lines(text, "more", VALID)
    corpus = prepare(configuration(text, tests=("test", "more")), root)
    assert corpus.raw("more")[0] == [source for source, _ in VALID]
    lines = (path / "valid.jsonl").read_text().splitlines(keepends=True)
    (path / "valid.jsonl").write_text("".join(lines[:-1]))
    with pytest.raises(UserError, match="small: its raw set valid has 3 pairs, not the 4 that were prepared"):
        corpus.raw("valid")
    (path / "valid.jsonl").write_text("5\n")
    with pytest.raises(UserError, match=r"valid\.jsonl: cannot be read"):
        corpus.raw("valid")


def test_another_text_of_equal_counts_is_told_apart(text, root):
    """Two words of one training pair change places; the text stays as long in every count."""
    now = prepare(configuration(text), root).training_text()
    for language in ("en", "de"):
        path = text / f"train.{language}"
        lines = path.read_text().split("\n")
        words = lines[1].split(" ")
        path.write_text("\n".join([lines[0], " ".join([words[0], words[2], words[1]]), *lines[2:]]))
    model = str(root / "small" / "tokenizer.model")
    other = prepare(configuration(text, name="other", tokenizer=model), root).training_text()
    assert {**other, "sha256": ""} == {**now, "sha256": ""}
    assert same_text(now, now) and not same_text(other, now)


def test_a_text_is_compared_in_what_both_versions_recorded():
    old = {"pairs": 9, "words": [1, 2], "tokens": [3, 4], "fertility": [3.0, 2.0]}
    new = {**old, "sha256": "a"}
    assert same_text(old, new) and same_text(new, old)
    assert not same_text({**old, "tokens": [3, 5]}, new)
    assert not same_text(None, new) and not same_text({}, new)
