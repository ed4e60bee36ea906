"""A prepared corpus on disk, prepared/NAME, which every run on it shares. `prepare.py` makes it.

manifest.json                 sources with checksums, what was dropped and why, the configuration of the preparation,
                              size and CRC-32 of the files below
tokenizer.model               the joint byte-pair encoding
{train,valid}.{source,target}.npy, ….offsets.npy    ids, memory-mapped
{valid,test}.jsonl            raw text, ["source", "target"] a line; references are never decoded ids
"""

import json
import zlib
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from vaswani.data.corpus import read_jsonl
from vaswani.data.encoded import EncodedPairs
from vaswani.data.tokenizer import Tokenizer, check_same_tokenizer
from vaswani.errors import UserError
from vaswani.files import fingerprint, read_failure, read_json, write_json
from vaswani.schema import DataConfig

# The CRC-32 of a larger file would delay each start by more than a tenth of a second; its size is checked alone.
LARGEST_CHECKED = 2**28


class PreparedCorpus:
    """What `prepare` made.

    Each file is checked when it is opened: its size always, its CRC-32 up to 256 MiB. Version 0.1.0 recorded neither
    for the ids and the raw text; what it prepared is read without these checks.

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
            UserError: it does not exist, its manifest is damaged, or its tokenizer is not the one it was encoded with.
        """
        path = Path(path)
        manifest = read_manifest(path)
        model = path / "tokenizer.model"
        tokenizer = Tokenizer.load(model)
        expected = manifest["tokenizer"]["sha256"]
        check_same_tokenizer(model, tokenizer.checksum, expected, "this corpus", _prepare_again(path))
        return cls(path, manifest, tokenizer)

    def config(self) -> DataConfig:
        """What it was prepared with."""
        try:
            return TypeAdapter(DataConfig).validate_python(self.manifest["config"])
        except ValidationError:
            raise UserError(
                f"{self.path}: was prepared by another version of vaswani; {_prepare_again(self.path)}, "
                "or choose another name with --data.name"
            ) from None

    def pairs(self, name: str) -> EncodedPairs:
        """The encoded pairs of the training or validation set.

        Args:
            name: the set's, `data.train` or `data.valid`.

        Raises:
            UserError: no such set, or one of its files is damaged.
        """
        config = self.manifest["config"]
        self._check_name(name, "encoded", [config["train"], config["valid"]])
        for file in EncodedPairs.files(name):
            self._check_file(file)
        pairs = EncodedPairs.load(self.path, name)
        self._check_count(name, len(pairs), "encoded")
        return pairs

    def raw(self, name: str) -> tuple[list[str], list[str]]:
        """Sources and references of the validation set or a test set, as they stood in the corpus.

        Raises:
            UserError: no such set, or its file is damaged.
        """
        config = self.manifest["config"]
        self._check_name(name, "raw", [config["valid"], *config["tests"]])
        self._check_file(f"{name}.jsonl")
        pairs = list(read_jsonl(self.path / f"{name}.jsonl"))
        self._check_count(name, len(pairs), "raw")
        return [source for source, _ in pairs], [target for _, target in pairs]

    def training_text(self) -> dict[str, Any]:
        """Which text the training set is: counts and a digest of its ids, for a checkpoint to store (`same_text`)."""
        return self.manifest["sets"][self.manifest["config"]["train"]]

    def check_files(self) -> None:
        """Checks every file that the manifest records.

        Raises:
            UserError: a file is missing or damaged.
        """
        for file in self.manifest.get("files", {}):
            self._check_file(file)

    def _check_file(self, name: str) -> None:
        recorded = self.manifest.get("files", {}).get(name)
        if recorded is None:  # prepared by version 0.1.0
            return
        path, (size, _) = self.path / name, recorded
        try:
            size_now = path.stat().st_size
            intact = size_now == size and (size > LARGEST_CHECKED or fingerprint(path) == recorded)
        except FileNotFoundError:
            raise UserError(f"{path}: is missing; {_prepare_again(self.path)}") from None
        except OSError as error:
            raise read_failure(path, error) from None
        if not intact:
            lengths = f" (it has {size_now:,} bytes, not {size:,})" if size_now != size else ""
            raise UserError(f"{path}: has changed since it was prepared{lengths}; {_prepare_again(self.path)}")

    def _check_name(self, name: str, kind: str, names: list[str]) -> None:
        if name not in names:
            raise UserError(f"{self.path}: has no {kind} set {name!r}; it has {', '.join(dict.fromkeys(names))}")

    def _check_count(self, name: str, count: int, kind: str) -> None:
        """Refuses files that have lost or gained lines: a score of them would be of another set."""
        prepared = self.manifest["sets"][name]["pairs"]
        if count != prepared:
            raise UserError(
                f"{self.path}: its {kind} set {name} has {count} pairs, not the {prepared} that were prepared; "
                f"{_prepare_again(self.path)}"
            )


def same_text(stored: dict[str, Any] | None, now: dict[str, Any]) -> bool:
    """Whether a checkpoint was trained on this text.

    Args:
        stored: `PreparedCorpus.training_text` as the checkpoint has it; that of version 0.1.0 has counts alone.
        now: the text of the prepared corpus. Both are compared in what both have.
    """
    return bool(stored) and all(stored[key] == now[key] for key in stored.keys() & now.keys())


def write_manifest(directory: Path, manifest: dict[str, Any]) -> None:
    """Writes the manifest with a checksum of itself."""
    write_json(directory / "manifest.json", {"crc32": _checksum(manifest), **manifest})


def read_manifest(directory: Path) -> dict[str, Any]:
    """The manifest of prepared/NAME, without its checksum.

    Raises:
        UserError: the directory is no prepared corpus, or its manifest is damaged.
    """
    path = directory / "manifest.json"
    if directory.exists() and not directory.is_dir():
        raise UserError(f"{directory}: is a file, not a prepared corpus; remove it, or choose another --data.name")
    manifest = read_json(path)
    if manifest is None:
        raise UserError(f"{directory}: no prepared corpus; `vaswani prepare CONFIG` makes it")
    if not isinstance(manifest, dict) or not {"config", "sources", "sets", "tokenizer"} <= manifest.keys():
        raise UserError(f"{path}: is not the manifest of a prepared corpus; {_prepare_again(directory)}")
    checksum = manifest.pop("crc32", None)  # version 0.1.0 wrote none
    if checksum is not None and checksum != _checksum(manifest):
        raise UserError(f"{path}: has changed since it was prepared; {_prepare_again(directory)}")
    return manifest


def _checksum(manifest: dict[str, Any]) -> int:
    return zlib.crc32(json.dumps(manifest).encode())


def _prepare_again(directory: Path) -> str:
    return f"remove {directory} and prepare again"
