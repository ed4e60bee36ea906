"""Commands run side by side: as processes of this machine, or as jobs of SLURM."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from vaswani.errors import UserError


class Job(Protocol):
    """A command on its way."""

    def exit_code(self) -> int | None:
        """None while it runs; minus the signal's number where one ended it."""
        ...

    def stop(self) -> None:
        """Asks it to save and leave."""
        ...

    def kill(self) -> None: ...


Start = Callable[[str, Sequence[str], Path], Job]
"""(name, arguments of `vaswani`, log) -> the job; its output is appended to the log."""


def vaswani(*arguments: str) -> list[str]:
    """A command line of this very program."""
    return [sys.executable, "-m", "vaswani", *arguments]


class Process:
    """A local process in a session of its own: Ctrl-C on the terminal reaches the sweep alone, which passes it on.

    The process is told whose child it is and leaves, saving, when that one has gone, however it went.
    """

    def __init__(self, arguments: Sequence[str], log: Path, cores: set[int] | None, jobs: int):
        environment = os.environ | {"PYTHONUNBUFFERED": "1"}
        if jobs > 1:  # on a GPU they share its memory, of which JAX would give three quarters to the first
            environment.setdefault("XLA_PYTHON_CLIENT_MEM_FRACTION", f"{0.9 / jobs:.2f}")
        with open(log, "ab") as file:
            self._process = subprocess.Popen(
                vaswani(*arguments, "--parent", str(os.getpid())), env=environment, start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
            )  # fmt: skip
        self.cores = cores
        if cores:
            with suppress(OSError):  # it has gone already
                os.sched_setaffinity(self._process.pid, cores)  # before it starts any thread

    def exit_code(self) -> int | None:
        return self._process.poll()

    def stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


def local(jobs: int) -> Start:
    """Starts processes that divide this machine's cores; at most `jobs` are meant to run at a time."""
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
    def __init__(self, job: Any):
        self._job = job

    def exit_code(self) -> int | None:
        if not self._job.done():
            return None
        try:
            return self._job.result()
        except Exception:  # submitit's own, of a job that was cancelled, ran out of time or never came to life
            return 1

    def stop(self) -> None:
        self._job.cancel()  # SIGTERM, and SIGKILL after the cluster's KillWait

    kill = stop


def slurm(folder: Path, options: str) -> Start:
    """Submits to SLURM through submitit.

    Args:
        folder: for the scripts and logs of the jobs, where the nodes can see it.
        options: of sbatch, as "partition=gpu,gpus_per_node=1,time=600" (time in minutes).

    Raises:
        UserError: submitit is not installed, there is no SLURM, or an option is not as above; from the function that
            is returned: the job was refused.
    """
    try:
        import submitit  # type: ignore  # the extra "slurm"
    except ImportError:
        raise UserError("--slurm needs submitit: scripts/setup.sh slurm") from None
    pairs = [option.partition("=") for option in options.split(",") if option]
    if bad := [key for key, equals, _ in pairs if not equals]:
        raise UserError(f"--slurm: {bad[0]!r} is not KEY=VALUE, as partition=gpu,gpus_per_node=1,time=600")
    parameters: dict[str, Any] = {key: int(value) if value.isdigit() else value for key, _, value in pairs}
    try:
        executor = submitit.SlurmExecutor(folder=folder)
        executor.update_parameters(**{"time": 24 * 60, "stderr_to_stdout": True} | parameters)
    except (RuntimeError, ValueError, NotImplementedError) as error:
        raise UserError(f"--slurm: {_first_line(error)}") from None

    def start(name: str, arguments: Sequence[str], log: Path) -> Job:
        executor.update_parameters(job_name=name)
        try:
            job = executor.submit(run_logged, vaswani(*arguments), os.getcwd(), str(log.absolute()))
        except RuntimeError as error:  # submitit's FailedJobError: sbatch refused it
            raise UserError(f"--slurm: {_first_line(error)}") from None
        return SlurmJob(job)

    return start


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


def run_logged(command: Sequence[str], directory: str, log: str) -> int:
    """What a node runs."""
    with open(log, "ab") as file:
        return subprocess.call(command, cwd=directory, stdout=file, stderr=subprocess.STDOUT)


def leave_with(parent: int) -> None:
    """Sends SIGTERM to this process as soon as `parent` is its parent no more."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()
