"""Runs commands side by side: as processes of this machine, or as jobs of SLURM."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from vaswani.errors import UserError, WorkFailed


class Job(Protocol):
    """A command that was started."""

    failure: str
    """Why it ended, where that is not in its log; else empty."""

    def exit_code(self) -> int | None:
        """None while it runs; minus the signal's number where one ended it."""
        ...

    def stop(self) -> None:
        """Asks it to save and end."""
        ...

    def kill(self) -> None: ...


Start = Callable[[str, Sequence[str], Path], Job]
"""(name, arguments of `vaswani`, log) -> the job. Its output is appended to the log."""


def vaswani(*arguments: str) -> list[str]:
    """A command line that starts this program."""
    return [sys.executable, "-m", "vaswani", *arguments]


class Process:
    """A local process in a session of its own: Ctrl-C on the terminal reaches only the sweep, which passes it on.

    The process knows its parent's number. When the parent has ended, for whatever reason, it saves and ends too.
    """

    failure = ""

    def __init__(self, arguments: Sequence[str], log: Path, cores: set[int] | None, jobs: int):
        environment = os.environ | {"PYTHONUNBUFFERED": "1"}
        if jobs > 1:  # on a GPU JAX would give three quarters of the memory to the first process
            environment.setdefault("XLA_PYTHON_CLIENT_MEM_FRACTION", f"{0.9 / jobs:.2f}")
        with open(log, "ab") as file:
            self._process = subprocess.Popen(
                vaswani(*arguments, "--parent", str(os.getpid())), env=environment, start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
            )  # fmt: skip
        self.cores = cores
        if cores:
            with suppress(OSError):  # it has ended already
                os.sched_setaffinity(self._process.pid, cores)  # before it starts any thread

    def exit_code(self) -> int | None:
        return self._process.poll()

    def stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


def local(jobs: int) -> Start:
    """Starts processes that divide this machine's cores; the caller runs at most `jobs` at a time."""
    available = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    shares = [set(available[i::jobs]) for i in range(jobs)] if 1 < jobs <= len(available) else []
    started: list[Process] = []

    def start(name: str, arguments: Sequence[str], log: Path) -> Job:
        taken = [process.cores for process in started if process.exit_code() is None]
        free = next((share for share in shares if share not in taken), None)
        started.append(Process(arguments, log, free, jobs))
        return started[-1]

    return start


class SlurmJob:
    """A job that submitit has submitted."""

    failure = ""

    def __init__(self, job: Any):
        self._job = job

    def exit_code(self) -> int | None:
        if not self._job.done():
            return None
        try:
            return self._job.result()
        except Exception as error:  # the job was cancelled, ran out of time, or never began
            self.failure = _reason(error)
            return 1

    def stop(self) -> None:
        self._job.cancel()  # SIGTERM, and SIGKILL after the cluster's KillWait

    kill = stop


def slurm(folder: Path, options: str) -> Start:
    """Submits to SLURM through submitit.

    Args:
        folder: for the scripts and logs of the jobs; the nodes must see it.
        options: of sbatch, as "partition=gpu,gpus_per_node=1,time=600" (time in minutes).

    Raises:
        UserError: submitit is not installed, there is no SLURM, or an option is not as above.

    The function that is returned raises UserError if SLURM calls an option invalid, and WorkFailed if it does not take
    the job for another reason.
    """
    try:
        import submitit  # type: ignore  # the extra "slurm"
    except ImportError:
        raise UserError("--slurm needs submitit: scripts/setup.sh slurm") from None
    pairs = [option.partition("=") for option in options.split(",") if option]
    if bad := [key for key, equals, _ in pairs if not equals]:
        raise UserError(f"--slurm: {bad[0]!r} is not KEY=VALUE, as partition=gpu,gpus_per_node=1,time=600")
    parameters: dict[str, Any] = {key: int(value) if value.isdecimal() else value for key, _, value in pairs}
    try:
        executor = submitit.SlurmExecutor(folder=folder)
        executor.update_parameters(**{"time": 24 * 60, "stderr_to_stdout": True} | parameters)
    except (RuntimeError, ValueError, NotImplementedError) as error:
        raise UserError(f"--slurm: {_first_line(error)}") from error

    def start(name: str, arguments: Sequence[str], log: Path) -> Job:
        executor.update_parameters(job_name=name)
        try:
            job = executor.submit(run_logged, vaswani(*arguments), os.getcwd(), str(log.absolute()))
        except RuntimeError as error:  # submitit's FailedJobError: sbatch refused it
            kind = UserError if "invalid" in str(error).lower() else WorkFailed
            raise kind(f"--slurm: {_first_line(error)}") from error
        return SlurmJob(job)

    return start


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


def _reason(error: Exception) -> str:
    """submitit's message in one line: what it says itself, and the last line of the output that it quotes."""
    says, *quoted = re.split(r"^-{5,}$", str(error), flags=re.MULTILINE)
    output = quoted[0].strip().splitlines() if quoted else []
    return " ".join(" ".join([says, *output[-1:]]).split()) or type(error).__name__


def run_logged(command: Sequence[str], directory: str, log: str) -> int:
    """Runs a command on a node of the cluster, its output appended to the log. Returns its exit code."""
    with open(log, "ab") as file:
        return subprocess.call(command, cwd=directory, stdout=file, stderr=subprocess.STDOUT)


def end_with(parent: int) -> None:
    """Sends SIGTERM to this process as soon as its parent is no longer the process `parent`."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()
