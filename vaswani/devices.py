"""The devices: how JAX is set up for them, whatever the environment holds, and how rows are divided among them.

Data parallelism: every device holds all parameters and computes its share of the rows, in training and in search.
"""

import os
import re
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import jax
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from vaswani.console import say
from vaswani.errors import UserError, WorkFailed

DATA = "data"
"""The mesh's one axis."""

# A variable of the environment may set each of these (JAX_ENABLE_X64, …). They change numbers, random bits or shapes,
# or make JAX refuse what vaswani does. So vaswani sets them itself: no result depends on the user's shell.
FIXED = {
    "jax_enable_x64": False,
    "jax_default_matmul_precision": None,
    "jax_numpy_dtype_promotion": "standard",
    "jax_numpy_rank_promotion": "allow",
    "jax_softmax_custom_jvp": False,
    "jax_default_prng_impl": "threefry2x32",
    "jax_enable_custom_prng": False,
    "jax_threefry_partitionable": True,
    "jax_random_seed_offset": 0,
    "jax_disable_jit": False,
    "jax_disable_most_optimizations": False,
    "jax_no_tracing": False,
    "jax_no_execution": False,
    "jax_debug_nans": False,
    "jax_debug_infs": False,
    "jax_error_checking_behavior_nan": "ignore",
    "jax_error_checking_behavior_oob": "ignore",
    "jax_transfer_guard": "allow",
    "jax_array_garbage_collection_guard": "allow",
    "jax_compilation_cache_check_contents": False,
}
_CHOOSE_DEVICES = ("JAX_PLATFORMS", "JAX_PLATFORM_NAME", "JAX_NUM_CPU_DEVICES", "XLA_FLAGS")


def set_up_jax() -> None:
    """Makes JAX ready to compute. Every command that computes calls this first; calling it again does nothing.

    Raises:
        UserError: a variable of the environment asks for devices that are not there, or XLA does not know a flag.
        WorkFailed: this machine's devices do not start.
    """
    for setting, value in FIXED.items():
        jax.config.update(setting, value)
    _keep_compiled_programs()
    _check_xla_flags()
    use_processors()
    _start_devices()


def use_processors() -> None:
    """Two devices share this process's processors, if it has two and the user has not chosen a number of devices.

    While one device goes through an operation that has no parallel parts, or waits, the other computes: on two cores an
    update takes three quarters of the time.
    """
    user_chose = "host_platform_device_count" in os.environ.get("XLA_FLAGS", "") or "JAX_NUM_CPU_DEVICES" in os.environ
    if available_processors() > 1 and not user_chose:
        with suppress(RuntimeError):  # JAX has counted its devices already
            jax.config.update("jax_num_cpu_devices", 2)


def available_processors() -> int:
    """Those that this process may run on: taskset, SLURM or a sweep may have given it a share."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _keep_compiled_programs() -> None:
    """Keeps every compiled program in a directory, so that the next start need not compile it."""
    if not jax.config.values["jax_enable_compilation_cache"]:
        return
    cache_home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    path = os.environ.get("JAX_COMPILATION_CACHE_DIR") or os.path.join(cache_home, "vaswani", "xla")
    try:
        if "://" not in path:  # JAX also takes the address of a bucket
            Path(path).mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=path):
                pass
    except OSError as error:
        say(f"{path}: cannot be written: {error.strerror or error}; every start compiles its programs anew")
        jax.config.update("jax_enable_compilation_cache", False)
        return
    jax.config.update("jax_compilation_cache_dir", path)
    if "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS" not in os.environ:
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)
    # The disk may still become full: the program then stays in memory, and nothing is lost.
    warnings.filterwarnings("ignore", "Error (reading|writing) persistent compilation cache")


@cache
def _check_xla_flags() -> None:
    """XLA ends the process if it does not know a flag, so that another process tries the flags first.

    What else that process may fail at is not about flags, and this one meets it as well.
    """
    flags = os.environ.get("XLA_FLAGS")
    if not flags:
        return
    command = [sys.executable, "-c", "import jax; jax.devices()"]
    done = subprocess.run(command, env=os.environ | {"JAX_PLATFORMS": "cpu"}, capture_output=True, text=True)
    messages = re.findall(r"^[EF]\d+ .*?\] (.*)", done.stderr, flags=re.MULTILINE)  # errors in XLA's log
    if done.returncode and messages:
        raise UserError(f"XLA_FLAGS={flags}: {messages[0]}")


def _start_devices() -> None:
    """JAX starts its devices when they are first asked for."""
    errors = (RuntimeError, ValueError, AssertionError)  # what JAX raises, by variable and platform
    try:
        jax.devices()
    except errors as error:
        chosen = [f"{name}={os.environ[name]}" for name in _CHOOSE_DEVICES if os.environ.get(name)]
        if not chosen:
            raise WorkFailed(f"the devices of this machine do not start: {error}") from None
        jax.config.update("jax_platforms", None)
        try:
            platforms = sorted({device.platform for device in jax.devices()})
        except errors:
            platforms = ["cpu"]
        raise UserError(
            f"{', '.join(chosen)}: there are no such devices; this machine has: {', '.join(platforms)} "
            f"({available_processors()} processors)"
        ) from None


def make_mesh() -> Mesh:
    """All devices of this machine, in a row."""
    return jax.make_mesh((jax.device_count(),), (DATA,), axis_types=(AxisType.Auto,))


def replicated(mesh: Mesh) -> NamedSharding:
    """A copy on every device."""
    return NamedSharding(mesh, PartitionSpec())


def over_rows(function: Callable[..., Any], mesh: Mesh) -> Callable[..., Any]:
    """`function(params, batch)` on every device's share of the rows; its result must be the same on all devices."""
    return jax.shard_map(
        function,
        mesh=mesh,
        in_specs=(PartitionSpec(), PartitionSpec(None, DATA)),
        out_specs=PartitionSpec(),
        check_vma=False,
    )


def shard_rows(batch, mesh: Mesh):
    """Puts arrays [micro_batches, rows, …] on the devices, rows divided among them."""
    return jax.device_put(batch, NamedSharding(mesh, PartitionSpec(None, DATA)))
