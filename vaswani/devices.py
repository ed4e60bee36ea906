"""Data parallelism: every device holds all parameters and computes its share of the rows, in training and in search."""

import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import jax
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

DATA = "data"
"""The mesh's one axis."""


def use_processors() -> None:
    """Two devices share this process's processors, where it has two and JAX has not counted its devices yet.

    While one goes through an operation that has no parallel parts, or waits, the other computes: on two cores an
    update takes three quarters of the time.
    """
    said = "host_platform_device_count" in os.environ.get("XLA_FLAGS", "") or "JAX_NUM_CPU_DEVICES" in os.environ
    if available_processors() > 1 and not said:
        with suppress(RuntimeError):  # too late: the devices are counted
            jax.config.update("jax_num_cpu_devices", 2)


def available_processors() -> int:
    """Those that this process may run on: taskset, SLURM or a sweep may have given it a share."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def make_mesh() -> Mesh:
    """All devices of this machine, in a row."""
    return jax.make_mesh((jax.device_count(),), (DATA,), axis_types=(AxisType.Auto,))


def replicated(mesh: Mesh) -> NamedSharding:
    """A copy on every device."""
    return NamedSharding(mesh, PartitionSpec())


def over_rows(function: Callable[..., Any], mesh: Mesh) -> Callable[..., Any]:
    """`function(params, batch)` on every device's share of the rows; what it returns must be alike on all."""
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
