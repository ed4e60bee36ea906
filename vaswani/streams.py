"""The standard streams of the process: closed ones, and output that nobody reads any more."""

import os
import sys


def replace_closed_streams() -> None:
    """Opens the null device for each closed stream: a file opened later would get its number, and be written to."""
    for stream in (sys.stdin, sys.stdout, sys.stderr):  # in this order: each gets the lowest free number
        if stream is None:
            null = os.open(os.devnull, os.O_RDWR)
    if sys.stderr is None:
        sys.stderr = os.fdopen(null, "w")


def flush_output() -> None:
    """Writes what is still buffered; an error names standard output."""
    try:
        sys.stdout.flush()
    except OSError as error:
        sys.stdout = None  # otherwise the interpreter tries once more when it ends, and complains
        error.filename = "standard output"
        raise
