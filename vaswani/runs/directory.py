"""The names of the files in a run directory, and its lock."""

import json
import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from zlib import crc32

from filelock import FileLock, Timeout

from vaswani import config as config_module
from vaswani.errors import UserError, alike, did_you_mean
from vaswani.files import read_failure, write_failure, write_json, write_text
from vaswani.runs.versions import versions
from vaswani.schema import FREE_ON_RESUME, Config


class RunDirectory:
    """One training and its results. `vaswani train` makes it, and later commands add to it.

    Attributes:
        config_path: every setting, as TOML.
        versions_path: the versions that the run was last trained with.
        tokenizer_path: its own copy of the tokenizer.
        checkpoints: a directory a step; see `checkpoints.py`.
        averaged: the mean of the last checkpoints, written by `vaswani average`.
        metrics_path: what was measured during training; see `events.py`.
        tensorboard: the same for TensorBoard.
        translations: translated sets; see `translations.py`.
        evaluation_path: the scores of those sets.
        attention: attention maps.
        report_path: the report, a page.
        log_path: the output of a run that a sweep started.
        finished_path: how such a run ended.
    """

    def __init__(self, path: str | Path) -> None:
        """Only names files: the run need not exist.

        Raises:
            UserError: Orbax could not read checkpoints below this path, or a part of it is a file.
        """
        self.path = Path(path)
        bad = sorted(set(str(self.path.absolute())) & set("[]\\"))
        if bad:
            raise UserError(
                f"{self.path.absolute()}: the path of a run cannot contain {' or '.join(map(repr, bad))}, because its "
                "checkpoints could not be read; choose another name with --run"
            )
        try:
            existing = next(p for p in (self.path, *self.path.absolute().parents) if p.exists())
        except OSError as error:  # a name that is too long, a directory without permission
            raise read_failure(self.path, error) from None
        if not existing.is_dir():
            raise UserError(f"{existing}: is a file, but a run is a directory; choose another with --run")
        self.config_path = self.path / "config.toml"
        self.versions_path = self.path / "versions.json"
        self.tokenizer_path = self.path / "tokenizer.model"
        self.checkpoints = self.path / "checkpoints"
        self.averaged = self.path / "averaged"
        self.metrics_path = self.path / "metrics.jsonl"
        self.tensorboard = self.path / "tensorboard"
        self.translations = self.path / "translations"
        self.evaluation_path = self.path / "evaluation.json"
        self.attention = self.path / "attention"
        self.report_path = self.path / "report.html"
        self.log_path = self.path / "log.txt"
        self.finished_path = self.path / "finished.json"
        self._holder_path = self.path / ".lock.holder"  # apart from the lock: waiting processes truncate that one

    @classmethod
    def open(cls, path: str | Path) -> "RunDirectory":
        """An existing run.

        Raises:
            UserError: there is no run; the message names the most similar one beside it.
        """
        run = cls(path)
        if run.exists():
            return run
        neighbours = [p.parent.name for p in run.path.parent.glob("*/config.toml")]
        hint = did_you_mean([run.path.parent / name for name in alike(run.path.name, neighbours)])
        raise UserError(f"no run directory at {run.path}{hint}; runs are made by `vaswani train CONFIG`")

    def exists(self) -> bool:
        """Whether this directory is a run."""
        try:
            return self.config_path.is_file()
        except OSError as error:
            raise read_failure(self.config_path, error) from None

    def create(self, config: Config) -> None:
        """Writes the configuration and the versions; each start of the training writes them again."""
        write_json(self.versions_path, versions())
        text = config_module.to_toml(config)
        write_text(
            self.config_path, f"# crc32 {crc32(text.encode()):08x}; delete this line if you edit the file\n{text}"
        )

    def load_config(self) -> Config:
        """The configuration that the run was last started with; a key that has gone is not taken for its default.

        Raises:
            UserError: the file is not as it was written, or as `config.load`.
        """
        with suppress(OSError):  # `config.load` says why
            first, _, rest = self.config_path.read_bytes().partition(b"\n")
            written = re.match(rb"# crc32 ([0-9a-f]{8});", first)
            if written and int(written[1], 16) != crc32(rest):
                raise UserError(
                    f"{self.config_path}: is damaged, or was edited; if you edited it, delete its first line, which "
                    "holds the checksum of the others"
                )
        return config_module.load(self.config_path, complete=True)

    def check_same(self, config: Config) -> None:
        """Refuses settings that would make this run another experiment.

        Raises:
            UserError: naming every setting that differs and is not in `schema.FREE_ON_RESUME`.
        """
        if refused := other_settings(essential_settings(self.load_config()), config):
            raise UserError(
                f"{self.path}: this run was begun with other settings ({refused}); "
                "set them as they were, or choose another directory with --run"
            )

    def holder(self) -> str:
        """Who holds the lock, as "process 4711 on host"; empty if nobody does."""
        if not self._holder_path.exists():
            return ""
        try:  # the process that wrote the file may have been killed
            with FileLock(self.path / ".lock", blocking=False):
                return ""
        except Timeout:
            with suppress(FileNotFoundError):  # released meanwhile
                return self._holder_path.read_text(encoding="utf-8")
            return ""
        except OSError:  # a read-only directory, in which nobody can hold a lock
            return ""

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Gives the run to one process. The operating system releases the lock of a process that ends.

        Raises:
            UserError: another process holds the lock; the message names process and host.
        """
        lock = FileLock(self.path / ".lock")
        holder = self._holder_path
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock.acquire(timeout=0.5)  # `holder` of another process takes it for a moment
        except Timeout:
            who = self.holder() or "another process"
            raise UserError(f"{self.path}: in use by {who}; wait for it, or choose another run with --run") from None
        except OSError as error:
            raise write_failure(self.path, error) from None
        try:
            write_text(holder, f"process {os.getpid()} on {socket.gethostname()}")
            yield
        finally:
            holder.unlink(missing_ok=True)
            lock.release()


def essential_settings(config: Config) -> dict[str, Any]:
    """The settings that may not change while a run goes on, as a checkpoint stores them: {"model.d_model": 512, …}."""
    flat = config_module.flatten(config)
    return json.loads(json.dumps({key: value for key, value in flat.items() if key not in FREE_ON_RESUME}))


def other_settings(saved: dict[str, Any], config: Config) -> str:
    """What `config` changes of the essential settings `saved`, as "train.seed = 1 there, 2 now"; empty if nothing.

    A setting that only another version of the product knows is not compared.
    """
    now = essential_settings(config)
    return "; ".join(f"{k} = {old!r} there, {now[k]!r} now" for k, old in saved.items() if k in now and now[k] != old)
