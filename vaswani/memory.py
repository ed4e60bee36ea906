"""What the C library does with memory that is given back to it."""

import ctypes
from contextlib import suppress

# From malloc.h.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8


def keep_freed_memory() -> None:
    """Keeps freed memory for the next use; to be called before the process has a second thread.

    XLA takes hundreds of MiB for each update and gives them back after it. The C library would hand them to the
    system, which would zero them page by page the next time: a tenth of an update on a CPU.
    """
    with suppress(OSError, AttributeError, TypeError):  # another C library than glibc
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(M_MMAP_THRESHOLD, 1 << 30)
        mallopt(M_TRIM_THRESHOLD, (1 << 31) - 1)
        mallopt(M_ARENA_MAX, 1)
