"""Data parallelism: every device holds all parameters and computes its share of an update's rows."""

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

DATA = "data"
"""The mesh's one axis."""


def make_mesh() -> Mesh:
    """All devices, of all hosts, in a row."""
    return jax.make_mesh((jax.device_count(),), (DATA,), axis_types=(AxisType.Auto,))


def replicated(mesh: Mesh) -> NamedSharding:
    """A copy on every device."""
    return NamedSharding(mesh, PartitionSpec())


def shard_rows(batch, mesh: Mesh):
    """Puts host arrays [micro_batches, rows, …] on the devices, rows divided among them.

    Every host makes the whole update (it is a pure function of the seed) and gives its own devices their part.
    """
    sharding = NamedSharding(mesh, PartitionSpec(None, DATA))

    def put(x: np.ndarray) -> jax.Array:
        return jax.make_array_from_callback(x.shape, sharding, lambda index: x[index])

    return jax.tree.map(put, batch)
