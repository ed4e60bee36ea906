"""Signals that ask a training to stop. The training then saves a checkpoint and ends."""

import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn, TypeVar

from vaswani.console import say

T = TypeVar("T")


class Interrupted(Exception):
    """A signal stopped the work, and everything is saved. `exit_code` is 128 + signal, as in shells."""

    def __init__(self, signum: int):
        super().__init__(signal.Signals(signum).name)
        self.exit_code = 128 + signum


class StopSignals:
    """Within its `with` block the first stop signal sets `received`. A second one ends the process at once.

    A terminal sends SIGINT at Ctrl-C and SIGHUP when it is closed. The system sends SIGTERM. Clusters warn with SIGUSR1
    or SIGUSR2 before the time limit of a job. An ignored signal stays ignored: `nohup` makes a process ignore SIGHUP.
    """

    SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
    received: int | None = None

    def __enter__(self) -> "StopSignals":
        handled = [s for s in self.SIGNALS if signal.getsignal(s) != signal.SIG_IGN]
        self._before = {s: signal.signal(s, self._receive) for s in handled}
        return self

    def __exit__(self, *exception: object) -> None:
        for signum, handler in self._before.items():
            signal.signal(signum, handler)

    def _receive(self, signum: int, frame: Any) -> None:
        self.received = signum
        for s, handler in self._before.items():
            signal.signal(s, handler)
        with suppress(OSError):  # the terminal may be closed
            name = signal.Signals(signum).name
            say(f"{name} received: saving a checkpoint, then stopping (a second signal stops at once)")


def run_unless_stopped(compute: Callable[[], T], stop: StopSignals) -> T | None:
    """The result of `compute`; None as soon as a stop signal arrives.

    Python runs signal handlers only between its own instructions, and compiling is one long call of C++. So `compute`
    runs in a second thread while the main thread waits. After a stop the second thread is still running. So the caller
    must end the process with `leave_at_once`.
    """
    result: list[T] = []
    failure: list[BaseException] = []

    def target() -> None:
        try:
            result.append(compute())
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=target, daemon=True)
    thread.start()
    while thread.is_alive() and stop.received is None:
        thread.join(0.1)
    if failure:
        raise failure[0]
    return result[0] if result else None


def leave_at_once(exit_code: int) -> NoReturn:
    """Ends the process without waiting for its threads."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(exit_code)
