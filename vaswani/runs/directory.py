"""The names inside a run directory, and its lock."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from vaswani import config as config_module
from vaswani.errors import UserError, closest, did_you_mean
from vaswani.files import read_failure, write_failure, write_json, write_text
from vaswani.runs.versions import versions
from vaswani.schema import Config


class RunDirectory:
    """One training run and all that comes out of it; `vaswani train` makes it, the commands after it add to it."""

    def __init__(self, path: str | Path) -> None:
        """Names the parts of a run, whether or not it exists.

        Raises:
            UserError: the path holds a character that the checkpoints could be written under but not read back from,
                or leads to or through a file.
        """
        self.path = Path(path)
        bad = sorted(set(str(self.path.absolute())) & set("[]\\"))
        if bad:
            raise UserError(
                f"{self.path.absolute()}: the path of a run cannot hold {' or '.join(map(repr, bad))}: its checkpoints "
                "could not be read back; choose another name with --run"
            )
        try:
            there = next(p for p in (self.path, *self.path.absolute().parents) if p.exists())
        except OSError as error:  # a name too long, a directory that may not be looked into
            raise read_failure(self.path, error) from None
        if not there.is_dir():
            raise UserError(f"{there}: is a file, where a run's directory should be; choose another with --run")
        self.config_path = self.path / "config.toml"
        self.versions_path = self.path / "versions.json"
        self.tokenizer_path = self.path / "tokenizer.model"
        self.checkpoints = self.path / "checkpoints"
        self.averaged = self.path / "averaged"
        self.metrics_path = self.path / "metrics.jsonl"
        self.translations = self.path / "translations"
        self.evaluation_path = self.path / "evaluation.json"
        self.attention = self.path / "attention"
        self.report_path = self.path / "report.html"
        self._holder_path = self.path / ".lock.holder"  # not the lock file: waiting processes may truncate that

    @classmethod
    def open(cls, path: str | Path) -> "RunDirectory":
        """An existing run.

        Raises:
            UserError: there is none; the nearest name beside it is offered.
        """
        run = cls(path)
        if run.exists():
            return run
        beside = [p.parent.name for p in run.path.parent.glob("*/config.toml")]
        hint = did_you_mean([run.path.parent / name for name in closest(run.path.name, beside)])
        raise UserError(f"no run directory at {run.path}{hint}; runs are made by `vaswani train CONFIG`")

    def exists(self) -> bool:
        """Whether a run was begun here."""
        try:
            return self.config_path.is_file()
        except OSError as error:
            raise read_failure(self.config_path, error) from None

    def create(self, config: Config) -> None:
        """Writes the resolved configuration, and the versions it runs with; on resuming, writes them anew."""
        write_json(self.versions_path, versions())
        write_text(self.config_path, config_module.to_toml(config))

    def load_config(self) -> Config:
        """The configuration that the run was last started with."""
        return config_module.load_stored(self.config_path)

    def check_same(self, config: Config) -> None:
        """Refuses to go on with a run under settings that would make it another experiment.

        Raises:
            UserError: naming every setting that differs and must not (`schema.MAY_DIFFER`).
        """
        refused = config_module.refused_differences(self.load_config(), config, "run")
        if refused:
            raise UserError(
                f"{self.path}: this run was begun with other settings ({refused}); "
                "set them as they were, or choose another directory with --run"
            )

    def holder(self) -> str:
        """Who holds the lock ("process 4711 on host"), as far as is known; empty if nobody does."""
        if not self._holder_path.exists():
            return ""
        try:  # it may be of a process that was killed
            with FileLock(self.path / ".lock", blocking=False):
                return ""
        except OSError:  # Timeout is one: it is held. Or the directory is read-only, and nobody can hold it.
            with suppress(FileNotFoundError):  # it was let go meanwhile
                return self._holder_path.read_text(encoding="utf-8")
            return ""

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Holds the run for one process. The operating system releases the lock of a process that dies.

        Raises:
            UserError: another process holds it; named by process id and host.
        """
        lock = FileLock(self.path / ".lock")
        holder = self._holder_path
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock.acquire(timeout=0.5)  # for a moment it may be held by one that looks whether it is held: `holder`
        except OSError as error:  # Timeout is one
            if not isinstance(error, Timeout):
                raise write_failure(self.path, error) from None
            who = self.holder() or "another process"
            raise UserError(f"{self.path}: in use by {who}; wait for it, or choose another run with --run") from None
        try:
            write_text(holder, f"process {os.getpid()} on {socket.gethostname()}")
            yield
        finally:
            holder.unlink(missing_ok=True)
            lock.release()
