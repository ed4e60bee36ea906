"""How the C library treats memory that a program frees."""

import ctypes
from contextlib import suppress

# From malloc.h.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8


def keep_freed_memory() -> None:
    """Keeps freed memory in the process for the next use. Call it before the process has a second thread.

    XLA allocates hundreds of MiB for each update and frees them after it. By default the C library returns them to the
    system, which clears each page before it gives it out again. That takes a tenth of an update on a CPU.
    """
    with suppress(OSError, AttributeError, TypeError):  # the C library is not glibc
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(M_MMAP_THRESHOLD, 1 << 30)
        mallopt(M_TRIM_THRESHOLD, (1 << 31) - 1)
        mallopt(M_ARENA_MAX, 1)
