import platform
import subprocess
import sys

import pytest

PROGRAM = """
import resource
import numpy as np
{keep}
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    np.ones(25_000_000, np.float32)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
faults()
print(faults())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc's allocator is told to keep memory")
def test_memory_given_back_is_there_for_the_next_update():
    keep = "from vaswani.memory import keep_freed_memory; keep_freed_memory()"
    taken = {}
    for name, line in (("anew", ""), ("kept", keep)):
        command = [sys.executable, "-c", PROGRAM.format(keep=line)]
        taken[name] = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert taken["kept"] < 100 < taken["anew"]
