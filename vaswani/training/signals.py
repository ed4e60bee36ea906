"""SIGTERM and Ctrl-C ask a run to stop; it writes a checkpoint and leaves."""

import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

from vaswani.console import say

T = TypeVar("T")


class Interrupted(Exception):
    """Raised once everything is saved. `exit_code` is the shell's convention, 128 + signal."""

    def __init__(self, signum: int):
        super().__init__(signal.Signals(signum).name)
        self.exit_code = 128 + signum


class StopSignals:
    """Within its `with` block the first SIGTERM or SIGINT sets `received`; a second one ends the process as usual."""

    received: int | None = None

    def __enter__(self) -> "StopSignals":
        self._before = {s: signal.signal(s, self._receive) for s in (signal.SIGTERM, signal.SIGINT)}
        return self

    def __exit__(self, *exception: object) -> None:
        for signum, handler in self._before.items():
            signal.signal(signum, handler)

    def _receive(self, signum: int, frame: Any) -> None:
        self.received = signum
        say(f"{signal.Signals(signum).name} received: saving a checkpoint, then stopping (again to stop at once)")
        for s, handler in self._before.items():
            signal.signal(s, handler)


def run_unless_stopped(work: Callable[[], T], stop: StopSignals) -> T | None:
    """The result of `work`, or None as soon as a stop is asked for.

    Python runs signal handlers between its own instructions, and compiling or searching is one long call into C++: so
    it is done in a thread, while this one waits for the signal. What was given up goes on there; see `leave_at_once`.
    """
    result: list[T] = []
    failure: list[BaseException] = []

    def target() -> None:
        try:
            result.append(work())
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
    """Ends the process without waiting for what is still under way in a thread."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(exit_code)
