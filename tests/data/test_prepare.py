import builtins
import errno
import json
import multiprocessing
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.data.texts import VALID, WORDS, configuration, write_lines
from vaswani.data import prepare as module
from vaswani.data.corpus import read_pairs
from vaswani.data.encoded import Writer
from vaswani.data.prepare import prepare
from vaswani.data.prepared_corpus import PreparedCorpus
from vaswani.errors import UserError, WorkFailed
from vaswani.schema import Config, DataConfig


def test_the_prepared_corpus_from_end_to_end(text, root, capsys):
    corpus = prepare(configuration(text), root)
    train, tokenizer = corpus.pairs("train"), corpus.tokenizer
    assert len(train) == 100
    for i in (0, 57, 99):  # the dropped ones have shifted nothing
        a, b = WORDS[i // 10], WORDS[i % 10]
        assert tokenizer.decode(train.source(i)) == f"{a} {b} apples."
        assert train.target(i).tolist() == [*tokenizer.encode(f"{a[::-1]} {b[::-1]} Äpfel."), 2]
    assert train.source_ids.dtype == np.uint16
    assert train.source_lengths.tolist() == [len(train.source(i)) for i in range(100)]

    # Nothing is dropped from the validation and test sets, and their text is untouched.
    assert corpus.raw("valid") == ([s for s, _ in VALID], [t for _, t in VALID])
    assert corpus.raw("test") == (["Last."], ["\r Letzte."])
    valid = corpus.pairs("valid")
    assert len(valid) == 4 and valid.source(1).tolist() == [2] and len(valid.source(3)) > 300

    manifest = json.loads((root / "small" / "manifest.json").read_text())
    assert {k: v["count"] for k, v in manifest["dropped"].items()} == {
        "blank": 1, "length ratio": 1, "duplicate": 2, "too long": 1,
    }  # fmt: skip
    assert manifest["dropped"]["length ratio"]["examples"] == [["x", "viel zu lang"]]
    assert manifest["sets"]["train"]["pairs"] == 100
    assert manifest["sets"]["train"]["words"] == [300, 300]
    assert manifest["sets"]["train"]["tokens"] == [
        int(n.sum()) - 100 for n in (train.source_lengths, train.target_lengths)
    ]
    assert manifest["tokenizer"] == {
        "sha256": tokenizer.checksum, "vocab_size": 340, "lines": 202, "cut": 0,
    }  # fmt: skip
    assert set(manifest["sources"]) == {"train", "valid", "test"}
    assert sorted(p.name for p in root.iterdir()) == [".small.lock", "small"]
    assert "dropped: 1 blank, 1 length ratio, 2 duplicate, 1 too long" in capsys.readouterr().err


def test_the_same_corpus_gives_the_same_files(text, root, tmp_path):
    first, second = prepare(configuration(text), root), prepare(configuration(text), tmp_path / "again")
    assert first.tokenizer.checksum == second.tokenizer.checksum
    assert (first.pairs("train").target_ids == second.pairs("train").target_ids).all()


def test_limit_takes_a_sample_of_what_is_clean(text, root):
    corpus = prepare(configuration(text, limit=30, max_tokens=250, vocab_size=300), root)
    train = corpus.pairs("train")
    kept = [corpus.tokenizer.decode(train.source(i)) for i in range(len(train))]
    assert len(set(kept)) == 30
    order = list(dict.fromkeys(s for s, _ in read_pairs(configuration(text).data, "train")))
    assert kept == sorted(kept, key=order.index)


def test_used_again_only_if_prepared_alike(text, root, capsys):
    config = configuration(text)
    prepare(config, root)
    model = root / "small" / "tokenizer.model"
    written = model.stat().st_mtime_ns
    capsys.readouterr()
    for same in (config, configuration(""), configuration(text / "gone"), configuration(text, splits={"test": "t"})):
        if same.data.dir == str(text / "gone"):
            (text / "gone").mkdir()
        prepare(same, root)
        assert "prepared already, used again" in capsys.readouterr().err
    assert model.stat().st_mtime_ns == written
    with pytest.raises(UserError, match=r"prepared with data\.vocab_size = 340, not 350; .*--data\.name"):
        prepare(configuration(text, vocab_size=350), root)
    for name in ("valid", "test"):
        before = [(text / f"{name}.{side}").read_bytes() for side in ("en", "de")]
        write_lines(text, name, VALID[:2])
        with pytest.raises(UserError, match=rf"was not prepared from what .*{name}\.en.* hold"):
            prepare(config, root)
        for side, content in zip(("en", "de"), before, strict=True):
            (text / f"{name}.{side}").write_bytes(content)
    prepare(config, root)


def test_a_further_test_set_is_added(text, root):
    prepare(configuration(text), root)
    write_lines(text, "more", [("Two.", "Zwei.")])
    prepare(configuration(text, tests=("test", "more")), root)
    corpus = prepare(configuration(text), root)
    assert corpus.raw("more") == (["Two."], ["Zwei."])
    assert corpus.raw("test")[0] == ["Last."]
    with pytest.raises(UserError, match="has no raw set 'none'; it has valid, test, more"):
        corpus.raw("none")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (dict(vocab_size=9999), r"data\.vocab_size = 9999 is too large .* at most \d+"),
        (dict(tests=("nowhere",)), r"no nowhere\.en"),
        (
            dict(max_tokens=2),
            "train: no pair is left after cleaning; dropped: .* 101 too long; too long: for example 'one one apples.' "
            "and 'eno eno Äpfel.'; make a line one sentence, or data.max_tokens larger",
        ),
        (dict(valid="train"), r"data\.train = 'train' cannot be the validation set"),
        (dict(tokenizer="."), r"\.: cannot be read: Is a directory"),
        (dict(tokenizer="none"), r"none: no such tokenizer"),
        (dict(name="x" * 201), r"data\.name: 'xxx.*' cannot be the name of a file"),
        (dict(name="../up"), r"data\.name: '\.\./up' cannot be the name of a file"),
    ],
)
def test_a_failure_leaves_nothing(text, root, changes, message):
    with pytest.raises(UserError, match=message):
        prepare(configuration(text, **changes), root)
    assert not root.exists() or {p.name for p in root.iterdir()} <= {".small.lock"}


@pytest.mark.parametrize("what", ["text", "train.de", "test.jsonl"])
def test_what_may_not_be_read_is_no_failure_to_write(text, root, monkeypatch, what):
    """The permission bits do not hold back root, who may run this."""
    (text / "train.de.gz").mkdir()  # not a file, and not taken for one
    for language in ("en", "de"):
        (text / f"test.{language}").unlink()
    (text / "test.jsonl").write_text('{"en": "Last.", "de": "Letzte."}')
    opened, listed = builtins.open, os.listdir

    def guarded(function):
        def call(path, *rest, **options):
            if os.path.basename(path) == what and root not in Path(path).parents:
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
            return function(path, *rest, **options)

        return call

    monkeypatch.setattr(builtins, "open", guarded(opened))
    monkeypatch.setattr(os, "listdir", guarded(listed))
    sets = dict(tests=("nowhere",)) if what == "text" else {}
    with pytest.raises(UserError, match=f"{what}'?: cannot be read: Permission denied$"):
        prepare(configuration(text, **sets), root)
    assert [p.name for p in root.iterdir()] == [".small.lock"]


def test_if_every_line_is_too_long_the_message_shows_one_and_says_what_to_do(text, root, capsys):
    write_lines(text, "train", [(f"\x1b[2J{word} " * 900, f"{word} " * 2000) for word in WORDS])
    with pytest.raises(UserError) as error:
        prepare(configuration(text, vocab_size=300), root)
    long = "'\\x1b[2Jone \\x1b[2Jone"
    assert f"dropped: 10 too long; too long: for example {long}" in str(error.value)
    assert str(error.value).endswith("…'; make a line one sentence, or data.max_tokens larger")
    cut = "20 of these lines are longer than 4,192 bytes or hold U+2585, and were cut for learning; the first begins "
    assert cut + long in capsys.readouterr().err


def test_a_set_may_have_any_name(text, root):
    for language in ("en", "de"):
        (text / f"valid.{language}").rename(text / f"cleaned.{language}")
    corpus = prepare(configuration(text, valid="cleaned"), root)
    assert corpus.raw("cleaned")[0] == [s for s, _ in VALID]
    assert ".cleaned.jsonl" not in [p.name for p in corpus.path.iterdir()]


def test_a_full_disk_leaves_nothing(text, root, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Writer, "append", full)
    with pytest.raises(WorkFailed, match="small: cannot be written: no space left"):
        prepare(configuration(text), root)
    assert [p.name for p in root.iterdir()] == [".small.lock"]


def _prepare_in_process(config, root, built):
    build = module._build

    def counted(*args):
        built.put(os.getpid())
        build(*args)

    module._build = counted
    prepare(config, root)


def test_two_processes_at_once_prepare_it_once(text, root):
    context = multiprocessing.get_context("spawn")
    built = context.Queue()
    processes = [context.Process(target=_prepare_in_process, args=(configuration(text), root, built)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    built.get(timeout=5)
    assert built.empty()
    assert len(PreparedCorpus.open(root / "small").pairs("train")) == 100


def test_the_embedded_corpus(root):
    toy = pytest.importorskip("vaswani.data.toy.grammar")
    data = DataConfig(name="toy", corpus="toy", valid="valid", tests=("test", "test_long"), vocab_size=400, splits={})
    data = replace(data, toy=replace(data.toy, train_pairs=300, test_pairs=20))
    corpus = prepare(Config(data=data), root)
    sets = toy.generate(data.toy)
    for name in ("valid", "test", "test_long"):
        assert list(zip(*corpus.raw(name), strict=True)) == [tuple(pair) for pair in sets[name]]
    with pytest.raises(UserError, match="has no set 'x'; it has train, valid, test, test_long"):
        list(read_pairs(data, "x"))


def test_a_killed_preparation_leaves_nothing_wrong(text, tmp_path):
    """Also one that adds a test set. `python -m tests.data.killed TEXT PLACE 1` kills before every file operation."""
    write_lines(text, "more", VALID)
    command = [sys.executable, "-m", "tests.data.killed", str(text), str(tmp_path / "place"), "11"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    built, added = map(int, done.stdout.split())
    assert built >= 5 and added >= 2
