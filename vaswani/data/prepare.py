"""From text to a prepared corpus: prepared/NAME exists whole or not at all."""

import hashlib
import importlib.metadata
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from itertools import compress, islice
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout

from vaswani.config import differences
from vaswani.console import say, watched
from vaswani.data.cleaning import CleanedPairs, Dropped, clean, sample
from vaswani.data.corpus import Pair, find_files, read_jsonl, read_pairs, write_jsonl
from vaswani.data.encoded import EncodedPairs, Writer
from vaswani.data.prepared_corpus import PreparedCorpus, write_manifest
from vaswani.data.tokenizer import Tokenizer, learn
from vaswani.errors import UserError
from vaswani.files import atomic_path, fingerprint, flush, read_failure, write_failure
from vaswani.schema import Config, DataConfig, ToyConfig

PREPARED = Path("prepared")
"""Where prepared corpora are, below the working directory."""

# More pairs would hardly change the pieces, and SentencePiece keeps what it learns from in memory.
LEARN_FROM_PAIRS = 1_000_000
LONGEST_NAME = 200  # bytes; file systems allow 255, and endings are added
CHUNK = 10_000  # pairs encoded at a time
ANOTHER_NAME = "choose another name with --data.name, or remove it"


def prepare(config: Config, root: Path = PREPARED) -> PreparedCorpus:
    """Builds prepared/NAME, or uses it again if it exists, and adds the test sets it lacks.

    Building reads the text, cleans the training set, learns the joint encoding and encodes. An existing corpus must
    have been prepared with the same settings from the same text; only the place of the text (`data.dir`) may differ.
    Two processes never prepare one corpus at the same time.

    Args:
        config: only `config.data` matters.
        root: where prepared corpora live.

    Raises:
        UserError: the text is missing or broken, the vocabulary is too large, or the name is that of another corpus.
        WorkFailed: the disk is full, or cannot be written to.
    """
    data = config.data
    _check_names(data)
    path = root / data.name
    if not path.exists():
        with _only_one(path):
            if not path.exists():  # another process may just have built it
                _build(data, path)
                return PreparedCorpus.open(path)
    corpus = PreparedCorpus.open(path)
    _check_same(corpus, data)
    say(f"{path}: prepared already, used again")
    if set(data.tests) <= set(corpus.manifest["config"]["tests"]):
        return corpus
    with _only_one(path):
        _add_tests(data, path)
    return PreparedCorpus.open(path)


def _build(data: DataConfig, path: Path) -> None:
    """Makes the corpus beside its place; it takes its name when it is whole."""
    partial = path.with_name(f".{path.name}.partial")
    try:
        shutil.rmtree(partial, ignore_errors=True)  # of a process that was killed
        partial.mkdir()
        _fill(data, partial)
        for file in partial.iterdir():
            flush(file)
        os.rename(partial, path)
        flush(path.parent)
    except OSError as error:  # from writing: `corpus` explains its own
        raise write_failure(path, error) from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _fill(data: DataConfig, directory: Path) -> None:
    """Writes everything of a prepared corpus into an empty directory."""
    raw_sets = dict.fromkeys((data.valid, *data.tests))
    # First, so that a wrong name is found before the long work.
    sets: dict[str, dict[str, Any]] = {name: {"pairs": _store_raw(data, name, directory)} for name in raw_sets}

    dropped = Dropped()
    pairs, kept = _clean(data, directory, dropped)
    model = directory / "tokenizer.model"
    learned = _make_tokenizer(pairs, kept, data, model)
    tokenizer = Tokenizer.load(model)

    train = watched(pairs.read(kept), f"encoding {data.train}", int(kept.sum()))
    sets[data.train] = encode_set(train, tokenizer, directory, data.train, data.max_tokens, dropped)
    _check_left(sets[data.train]["pairs"], data, dropped)
    say(f"{data.train}: {sets[data.train]['pairs']:,} pairs; dropped: {dropped}")
    pairs.path.unlink()
    sets[data.valid] = encode_set(read_jsonl(directory / f"{data.valid}.jsonl"), tokenizer, directory, data.valid)
    for name in (data.train, data.valid):
        sets[name]["sha256"] = EncodedPairs.load(directory, name).digest()

    manifest = {
        "config": asdict(data),
        "sources": {name: _source(data, name) for name in (data.train, *raw_sets)},
        "sets": sets,
        "dropped": dropped.to_dict(),
        "tokenizer": {"sha256": tokenizer.checksum, "vocab_size": tokenizer.vocab_size, **learned},
        "files": {file.name: fingerprint(file) for file in sorted(directory.iterdir()) if file != model},
        "versions": {name: importlib.metadata.version(name) for name in ("sentencepiece", "datasets", "numpy")},
    }
    write_manifest(directory, manifest)


def _clean(data: DataConfig, directory: Path, dropped: Dropped) -> tuple[CleanedPairs, np.ndarray]:
    """Reads the training set. Returns its clean pairs, and which of them are kept, booleans [pairs]."""
    pairs = CleanedPairs(directory / ".cleaned.jsonl")  # no set begins with a dot
    text = watched(read_pairs(data, data.train), f"reading {data.train}")
    pairs.fill(clean(text, data.max_length_ratio, dropped))
    first = pairs.first_of_equals(dropped) if data.deduplicate else np.ones(len(pairs), bool)
    kept = sample(first, data.limit)
    _check_left(int(kept.sum()), data, dropped)
    return pairs, kept


def _make_tokenizer(pairs: CleanedPairs, kept: np.ndarray, data: DataConfig, model: Path) -> dict[str, Any]:
    """Learns the joint pieces, or copies those of `data.tokenizer`. Returns what the manifest says about them."""
    if data.tokenizer:
        Tokenizer.load(data.tokenizer)
        shutil.copyfile(data.tokenizer, model)
        return {"from": data.tokenizer}
    learning = sample(kept, LEARN_FROM_PAIRS)
    say(f"learning {data.vocab_size:,} joint pieces from {2 * int(learning.sum()):,} lines")
    learned = learn((text for pair in pairs.read(learning) for text in pair), data.vocab_size, model)
    if learned["cut"]:
        say(
            f"{learned['cut']:,} of these lines are longer than 4,192 bytes or hold U+2585, and were cut for learning; "
            f"the first begins {learned['first_cut']!r}; a line should be one sentence"
        )
    return learned


def encode_set(
    pairs: Iterable[Pair],
    tokenizer: Tokenizer,
    directory: Path,
    name: str,
    max_tokens: int = 0,
    dropped: Dropped | None = None,
) -> dict[str, Any]:
    """Writes the ids of one set, without the pairs of more than `max_tokens` tokens a side, end symbol counted.

    Returns:
        Pairs and, for each side, words, tokens (end symbols not counted) and fertility, their ratio.
    """
    pairs, count = iter(pairs), 0
    words, tokens = np.zeros(2, int), np.zeros(2, int)
    with Writer(directory, name, tokenizer.vocab_size) as writer:
        while chunk := list(islice(pairs, CHUNK)):
            sides = [tokenizer.encode_batch([pair[side] for pair in chunk]) for side in (0, 1)]
            fits = [not max_tokens or max(len(s), len(t)) < max_tokens for s, t in zip(*sides, strict=True)]
            if dropped is not None:
                for pair in compress(chunk, (not fit for fit in fits)):
                    dropped.add("too long", pair)
            sides = [list(compress(side, fits)) for side in sides]
            writer.append(*sides)
            count += len(sides[0])
            tokens += [sum(map(len, side)) for side in sides]
            words += [sum(len(pair[side].split()) for pair in compress(chunk, fits)) for side in (0, 1)]
    fertility = [round(float(t / max(w, 1)), 3) for t, w in zip(tokens, words, strict=True)]
    return {"pairs": count, "words": words.tolist(), "tokens": tokens.tolist(), "fertility": fertility}


def _store_raw(data: DataConfig, name: str, directory: Path) -> int:
    """Copies a set as it stands. Returns the number of its pairs."""
    with atomic_path(directory / f"{name}.jsonl") as temporary:
        return write_jsonl(temporary, read_pairs(data, name))


def _check_left(pairs: int, data: DataConfig, dropped: Dropped) -> None:
    if not pairs:
        raise UserError(f"{data.train}: no pair is left after cleaning; dropped: {dropped}; {dropped.advice()}")


def _add_tests(data: DataConfig, path: Path) -> None:
    """Adds the test sets that a prepared corpus lacks."""
    manifest = PreparedCorpus.open(path).manifest  # another process may just have added its own
    for leftover in path.glob(".tmp-*"):  # of a process that was killed here
        leftover.unlink()
    for name in data.tests:
        if name not in manifest["config"]["tests"]:
            manifest["sets"][name] = {"pairs": _store_raw(data, name, path)}
            manifest["config"]["tests"].append(name)
            manifest["sources"][name] = _source(data, name)
            manifest.setdefault("files", {})[f"{name}.jsonl"] = fingerprint(path / f"{name}.jsonl")
            say(f"{path}: test set {name} added")
    write_manifest(path, manifest)


def _source(data: DataConfig, name: str) -> dict[str, Any]:
    """Where a set came from."""
    if data.dir:
        return {"files": [{"path": str(path.resolve()), "sha256": _checksum(path)} for path in find_files(data, name)]}
    if data.corpus == "toy":
        return {"toy": asdict(data.toy)}
    return {"hub": data.corpus, "subset": data.subset, "split": data.splits.get(name, name)}


def _checksum(path: Path) -> str:
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise read_failure(path, error) from None


def _check_same(corpus: PreparedCorpus, data: DataConfig) -> None:
    """Refuses a corpus that is damaged, or that was prepared with other settings or from other text."""
    if differ := differences(_essentials(corpus.config()), _essentials(data)):
        listed = ", ".join(f"data.{key} = {was!r}, not {now!r}" for key, (was, now) in differ.items())
        raise UserError(f"{corpus.path}: was prepared with {listed}; {ANOTHER_NAME}")
    _check_sources(corpus, data)
    corpus.check_files()


def _essentials(data: DataConfig) -> DataConfig:
    """The configuration without what the training pairs and the tokenizer do not depend on."""
    splits = {name: data.splits.get(name, name) for name in (data.train, data.valid)}
    toy = data.toy if data.corpus == "toy" else ToyConfig()
    tokenizer = data.tokenizer and os.path.abspath(data.tokenizer)  # once it was stored as it was given
    return replace(data, name="", dir="", tests=(), splits=splits, toy=toy, tokenizer=tokenizer)


def _check_sources(corpus: PreparedCorpus, data: DataConfig) -> None:
    """Refuses sets that can be read and are not those that were prepared, or stored since."""
    for name in dict.fromkeys((data.train, data.valid, *data.tests)):
        if (recorded := corpus.manifest["sources"].get(name)) is None:
            continue  # a test set that will be added
        if data.dir:
            try:
                files = find_files(data, name)
            except UserError:
                continue  # the prepared corpus does not need them any more
            if [file["sha256"] for file in recorded.get("files", [])] != [_checksum(path) for path in files]:
                raise UserError(
                    f"{corpus.path}: was not prepared from what {', '.join(map(str, files))} hold; {ANOTHER_NAME}"
                )
        elif "split" in recorded and recorded["split"] != (split := data.splits.get(name, name)):
            raise UserError(
                f"{corpus.path}: its {name} is the split {recorded['split']!r}, not {split!r}; {ANOTHER_NAME}"
            )


def _check_names(data: DataConfig) -> None:
    """Names become file names."""
    for key, names in {
        "name": (data.name,),
        "train": (data.train,),
        "valid": (data.valid,),
        "tests": data.tests,
    }.items():
        for name in names:
            if not name or name.startswith(".") or "/" in name or "\0" in name or len(name.encode()) > LONGEST_NAME:
                raise UserError(f"data.{key}: {name!r} cannot be the name of a file")
    if data.train in (data.valid, *data.tests):
        raise UserError(f"data.train = {data.train!r} cannot be the validation set or a test set too")


@contextmanager
def _only_one(path: Path) -> Iterator[None]:
    """Waits until no other process works on the corpus `path`."""
    lock = FileLock(path.with_name(f".{path.name}.lock"))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=0)
    except Timeout:
        say(f"{path}: another process prepares it; waiting")
        lock.acquire()
    except OSError as error:
        raise write_failure(path, error) from None
    try:
        yield
    finally:
        lock.release()
