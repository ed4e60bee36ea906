import os
import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("flags", "devices"), [("", min(os.cpu_count() or 1, 2)), ("--xla_force_host_platform_device_count=3", 3)]
)
def test_two_devices_share_the_processors_unless_the_user_says_how_many(flags, devices):
    program = (
        "from vaswani.training.sharding import make_mesh, use_processors\n"
        "use_processors(); print(make_mesh().size); use_processors(); print(make_mesh().size)"
    )
    environment = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(devices)] * 2
