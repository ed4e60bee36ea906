import os
import subprocess
import sys

import pytest

from vaswani.devices import available_processors


@pytest.mark.skipif(
    available_processors() < 2 or not hasattr(os, "sched_setaffinity"), reason="needs two processors, and Linux"
)
@pytest.mark.parametrize(
    ("said", "processors", "devices"),
    [
        ({}, 2, 2),
        ({}, 1, 1),
        ({"XLA_FLAGS": "--xla_force_host_platform_device_count=3"}, 2, 3),
        ({"JAX_NUM_CPU_DEVICES": "1"}, 2, 1),
    ],
)
def test_two_devices_share_the_processors_at_hand_unless_the_user_says_how_many(said, processors, devices):
    program = (
        f"import os; os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:{processors}])\n"
        "from vaswani.devices import make_mesh, use_processors\n"
        "use_processors(); print(make_mesh().size); use_processors(); print(make_mesh().size)"
    )
    environment = {**os.environ, "XLA_FLAGS": "", "JAX_PLATFORMS": "cpu", **said}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(devices)] * 2
