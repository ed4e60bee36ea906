"""Data parallelism: every device holds all parameters and computes its share of an update's rows."""

import jax
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

DATA = "data"
"""The mesh's one axis."""


def make_mesh() -> Mesh:
    """All devices of this machine, in a row."""
    return jax.make_mesh((jax.device_count(),), (DATA,), axis_types=(AxisType.Auto,))


def replicated(mesh: Mesh) -> NamedSharding:
    """A copy on every device."""
    return NamedSharding(mesh, PartitionSpec())


def shard_rows(batch, mesh: Mesh):
    """Puts arrays [micro_batches, rows, …] on the devices, rows divided among them."""
    return jax.device_put(batch, NamedSharding(mesh, PartitionSpec(None, DATA)))
