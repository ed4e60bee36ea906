"""From text to a prepared corpus: prepared/NAME, shared by every run on it, there whole or not at all.

manifest.json                 sources with checksums, what was dropped and why, the configuration of the preparation
tokenizer.model               the joint byte-pair encoding
{train,valid}.{source,target}.npy, ….offsets.npy    ids, memory-mapped
{valid,test}.jsonl            raw text, ["source", "target"] a line; references are never decoded ids
"""

import hashlib
import importlib.metadata
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from itertools import compress, islice
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from filelock import FileLock, Timeout
from pydantic import TypeAdapter, ValidationError

from vaswani.config import differences
from vaswani.console import say, watched
from vaswani.data.cleaning import CleanedPairs, Dropped, clean, sample
from vaswani.data.corpus import Pair, find_files, read_jsonl, read_pairs, write_jsonl
from vaswani.data.encoded import EncodedPairs, Writer
from vaswani.data.tokenizer import Tokenizer, learn
from vaswani.errors import UserError
from vaswani.files import atomic_path, read_failure, read_json, write_failure, write_json
from vaswani.schema import Config, DataConfig, ToyConfig

T = TypeVar("T")

PREPARED = Path("prepared")
"""Where prepared corpora are, below the working directory."""

# More pairs would hardly change the pieces, and SentencePiece keeps what it learns from in memory.
LEARN_FROM_PAIRS = 1_000_000
LONGEST_NAME = 200  # bytes; file systems allow 255, and endings are added
CHUNK = 10_000  # pairs encoded at a time
ANOTHER_NAME = "choose another name with --data.name, or remove it"


class PreparedCorpus:
    """What `prepare` made.

    Example:
        corpus = PreparedCorpus.open("prepared/multi30k")
        corpus.pairs("train").source(0)              # ids, the last one is the end symbol
        sources, references = corpus.raw("test_2016_flickr")
    """

    def __init__(self, path: Path, manifest: dict[str, Any], tokenizer: Tokenizer):
        self.path = path
        self.manifest = manifest
        self.tokenizer = tokenizer

    @classmethod
    def open(cls, path: str | Path) -> "PreparedCorpus":
        """Opens prepared/NAME.

        Raises:
            UserError: it is not there, or its tokenizer is not the one it was encoded with.
        """
        path = Path(path)
        if path.exists() and not path.is_dir():
            raise UserError(f"{path}: is a file, not a prepared corpus; remove it, or choose another --data.name")
        manifest = read_json(path / "manifest.json")
        if manifest is None:
            raise UserError(f"{path}: no prepared corpus; `vaswani prepare CONFIG` makes it")
        if not isinstance(manifest, dict) or not {"config", "sources", "sets", "tokenizer"} <= manifest.keys():
            raise UserError(f"{path / 'manifest.json'}: not that of a prepared corpus; remove {path} and prepare again")
        tokenizer = Tokenizer.load(path / "tokenizer.model")
        if tokenizer.checksum != manifest["tokenizer"]["sha256"]:
            raise UserError(f"{path / 'tokenizer.model'}: not the tokenizer that this corpus was encoded with")
        return cls(path, manifest, tokenizer)

    def config(self) -> DataConfig:
        """What it was prepared with."""
        try:
            return TypeAdapter(DataConfig).validate_python(self.manifest["config"])
        except ValidationError:
            raise UserError(f"{self.path}: was prepared by another version of vaswani; {ANOTHER_NAME}") from None

    def pairs(self, name: str) -> EncodedPairs:
        """The encoded pairs of the training or validation set, by the set's name (`data.train`, `data.valid`)."""
        self._check(name, encoded=True)
        pairs = EncodedPairs.load(self.path, name)
        self._check_count(name, len(pairs), "encoded")
        return pairs

    def raw(self, name: str) -> tuple[list[str], list[str]]:
        """Sources and references of the validation set or a test set, as they stood in the corpus."""
        self._check(name, encoded=False)
        pairs = list(read_jsonl(self.path / f"{name}.jsonl"))
        self._check_count(name, len(pairs), "raw")
        return [source for source, _ in pairs], [target for _, target in pairs]

    def _check(self, name: str, encoded: bool) -> None:
        data = self.manifest["config"]
        names = [data["train"], data["valid"]] if encoded else [data["valid"], *data["tests"]]
        if name not in names:
            kind = "encoded" if encoded else "raw"
            raise UserError(f"{self.path}: has no {kind} set {name!r}; it has {', '.join(dict.fromkeys(names))}")

    def _check_count(self, name: str, count: int, kind: str) -> None:
        """Refuses files that have lost or gained lines since: a score of them would be of another set."""
        prepared = self.manifest["sets"][name]["pairs"]
        if count != prepared:
            raise UserError(
                f"{self.path}: its {kind} set {name} has {count} pairs, not the {prepared} that were prepared; "
                f"remove {self.path} and prepare again"
            )


def prepare(config: Config, root: Path = PREPARED) -> PreparedCorpus:
    """Reads the text, cleans the training set, learns the joint encoding, encodes; or finds all that done.

    A corpus of that name is used again if it was prepared alike; where the text is read from (`data.dir`) may differ,
    and test sets that it lacks are added. Two processes never prepare one corpus at the same time.

    Args:
        config: only `config.data` matters.
        root: where prepared corpora live.

    Raises:
        UserError: the text is missing or broken, the vocabulary too large, or the name taken by another preparation.
        WorkFailed: the disk is full, or cannot be written to.
    """
    data = config.data
    _check_names(data)
    final, partial = root / data.name, root / f".{data.name}.partial"
    if not final.exists():
        with _only_one(root, data.name):
            if not final.exists():  # another process may just have finished it
                try:
                    shutil.rmtree(partial, ignore_errors=True)  # of a process that was killed
                    partial.mkdir()
                    _build(data, partial)
                    os.rename(partial, final)
                except OSError as error:  # from writing: `corpus` explains its own
                    raise write_failure(final, error) from None
                finally:
                    shutil.rmtree(partial, ignore_errors=True)
                return PreparedCorpus.open(final)
    return _use_again(PreparedCorpus.open(final), data)


def _build(data: DataConfig, directory: Path) -> None:
    """Everything of a prepared corpus, into an empty directory."""
    raw_sets = dict.fromkeys((data.valid, *data.tests))
    # First, so that a wrong name is found before the long work.
    raw = {name: {"pairs": _store_raw(data, name, directory)} for name in raw_sets}

    dropped = Dropped()
    pairs = CleanedPairs(directory / ".cleaned.jsonl")  # no set begins with a dot
    pairs.fill(clean(watched(read_pairs(data, data.train), f"reading {data.train}"), data.max_length_ratio, dropped))
    first = pairs.first_of_equals(dropped) if data.deduplicate else np.ones(len(pairs), bool)
    kept = sample(first, data.limit)
    _check_left(int(kept.sum()), data, dropped)

    model = directory / "tokenizer.model"
    learnt = _learn_tokenizer(pairs, kept, data, model)
    tokenizer = Tokenizer.load(model)

    train = watched(pairs.read(kept), f"encoding {data.train}", int(kept.sum()))
    encoded = encode_set(train, tokenizer, directory, data.train, data.max_tokens, dropped)
    _check_left(encoded["pairs"], data, dropped)
    say(f"{data.train}: {encoded['pairs']:,} pairs; dropped: {dropped}")
    pairs.path.unlink()

    valid = encode_set(read_jsonl(directory / f"{data.valid}.jsonl"), tokenizer, directory, data.valid)
    manifest = {
        "config": asdict(data),
        "sources": {name: _source(data, name) for name in (data.train, *raw_sets)},
        "sets": {**raw, data.train: encoded, data.valid: valid},
        "dropped": dropped.to_dict(),
        "tokenizer": {"sha256": tokenizer.checksum, "vocab_size": tokenizer.vocab_size, **learnt},
        "versions": {name: importlib.metadata.version(name) for name in ("sentencepiece", "datasets", "numpy")},
    }
    write_json(directory / "manifest.json", manifest)


def _learn_tokenizer(pairs: CleanedPairs, kept: np.ndarray, data: DataConfig, model: Path) -> dict[str, Any]:
    """Learns the joint pieces, or takes those of `data.tokenizer`. Returns what the manifest says of it."""
    if data.tokenizer:
        Tokenizer.load(data.tokenizer)
        shutil.copyfile(data.tokenizer, model)
        return {"from": data.tokenizer}
    learning = sample(kept, LEARN_FROM_PAIRS)
    say(f"learning {data.vocab_size:,} joint pieces from {2 * int(learning.sum()):,} lines")
    learnt = learn((text for pair in pairs.read(learning) for text in pair), data.vocab_size, model)
    if learnt["skipped"]:
        say(f"{learnt['skipped']:,} lines were left out of that: over 4192 bytes, or with the reserved U+2585")
    return learnt


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
        raise UserError(f"{data.train}: no pair is left after cleaning; dropped: {dropped}")


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


def _use_again(corpus: PreparedCorpus, data: DataConfig) -> PreparedCorpus:
    """Checks that the corpus is the one that would be prepared now, and adds test sets it lacks."""
    if differ := differences(_essentials(corpus.config()), _essentials(data)):
        listed = ", ".join(f"data.{key} = {was!r}, not {now!r}" for key, (was, now) in differ.items())
        raise UserError(f"{corpus.path}: was prepared with {listed}; {ANOTHER_NAME}")
    _check_sources(corpus, data)
    say(f"{corpus.path}: prepared already, used again")
    if set(data.tests) <= set(corpus.manifest["config"]["tests"]):
        return corpus
    with _only_one(corpus.path.parent, corpus.path.name):
        manifest = PreparedCorpus.open(corpus.path).manifest  # another process may just have added its own
        for name in data.tests:
            if name not in manifest["config"]["tests"]:
                manifest["sets"][name] = {"pairs": _store_raw(data, name, corpus.path)}
                manifest["config"]["tests"].append(name)
                manifest["sources"][name] = _source(data, name)
                say(f"{corpus.path}: test set {name} added")
        write_json(corpus.path / "manifest.json", manifest)
    return PreparedCorpus.open(corpus.path)


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
def _only_one(root: Path, name: str) -> Iterator[None]:
    """Waits until no other process works on the corpus `name`."""
    lock = FileLock(root / f".{name}.lock")
    try:
        root.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=0)
    except Timeout:
        say(f"{root / name}: another process prepares it; waiting")
        lock.acquire()
    except OSError as error:
        raise write_failure(root / name, error) from None
    try:
        yield
    finally:
        lock.release()
