"""One update: the gradients of every micro-batch on every device, their sum, one step of Adam."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jax import Array
from jax.sharding import Mesh

from vaswani import model as transformer
from vaswani.data.packing import Batch
from vaswani.devices import DATA, over_rows, replicated
from vaswani.schema import Config
from vaswani.training.loss import Loss, smoothed_cross_entropy
from vaswani.training.optimizer import make_optimizer

Params = dict[str, Any]


class TrainState(NamedTuple):
    """What an update changes."""

    step: Array  # int32 scalar: updates made
    params: Params
    opt_state: optax.OptState


class Sums(NamedTuple):
    """Totals over the target tokens of an update, padding not counted."""

    loss: Array  # smoothed, nats
    nll: Array  # unsmoothed, nats
    target_tokens: Array
    source_tokens: Array


class StepMetrics(NamedTuple):
    sums: Sums
    gradient_norm: Array
    finite: Array  # False: the update was not applied and the state is unchanged


def state_structure(config: Config, vocab_size: int, mesh: Mesh) -> tuple[nnx.GraphDef, TrainState]:
    """The structure of the model, and the shapes, types and shardings of a train state. No array is made."""
    graphdef, _ = jax.eval_shape(lambda: transformer.build(config.model, vocab_size))

    def place(leaf: jax.ShapeDtypeStruct) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=replicated(mesh))

    return graphdef, jax.tree.map(place, jax.eval_shape(partial(_new_state, config, vocab_size)))


def init_state(config: Config, vocab_size: int, mesh: Mesh) -> TrainState:
    """A new model and optimiser, made directly on every device of the mesh."""
    # jit gives the state its final sharding. Otherwise the first update would be compiled twice.
    return jax.jit(partial(_new_state, config, vocab_size), out_shardings=replicated(mesh))()


def _new_state(config: Config, vocab_size: int) -> TrainState:
    params = transformer.build(config.model, vocab_size, config.train.seed)[1]
    return TrainState(jnp.zeros((), jnp.int32), params, make_optimizer(config.model, config.train).init(params))


def batch_loss(graphdef: nnx.GraphDef, params: Params, batch: Batch, epsilon: float, key: Array | None) -> Sums:
    """The summed loss of rows [rows, row_length]. Dropout needs a key; None means no dropout."""
    model: transformer.Transformer = nnx.merge(graphdef, params)
    source_key, target_key = transformer.split_key(key, 2)
    memory = model.encode(batch.source, batch.source_segments, batch.source_positions, source_key)
    hidden = model.decode(
        batch.target_input,
        batch.target_segments,
        batch.target_positions,
        memory,
        batch.source_segments,
        target_key,
    )
    table = params["embedding"]["table"]
    hidden, targets = hidden.reshape(-1, hidden.shape[-1]), batch.target_output.reshape(-1)
    loss: Loss = smoothed_cross_entropy(hidden, table, targets, epsilon)
    return Sums(loss.smoothed, loss.nll, jnp.sum(batch.target_segments > 0), jnp.sum(batch.source_segments > 0))


def gradients(
    graphdef: nnx.GraphDef, params: Params, batch: Batch, epsilon: float, key: Array | None, mesh: Mesh
) -> tuple[Params, Sums]:
    """The gradient of the summed loss of a whole update, and the sums themselves.

    Each device adds up its micro-batches. Then the results of the devices are added. The caller divides by the tokens
    of the whole update. So the result does not depend on how the update is cut into rows, micro-batches and devices.

    Args:
        batch: [micro_batches, rows, row_length]; the rows are divided among the devices of the mesh.
        key: for dropout; None for no dropout.
    """

    def on_one_device(params: Params, batch: Batch) -> tuple[Params, Sums]:
        def one_micro_batch(total, index_and_batch):
            index, micro_batch = index_and_batch
            micro_key = None if key is None else jax.random.fold_in(jax.random.fold_in(key, index), shard)

            def loss(params: Params):
                sums = batch_loss(graphdef, params, micro_batch, epsilon, micro_key)
                return sums.loss, sums

            grads, sums = jax.grad(loss, has_aux=True)(params)
            return jax.tree.map(jnp.add, total, (grads, sums)), None

        shard = jax.lax.axis_index(DATA)
        no_tokens = jnp.zeros((), jnp.int32)
        zero = (jax.tree.map(jnp.zeros_like, params), Sums(jnp.zeros(()), jnp.zeros(()), no_tokens, no_tokens))
        micro_batches = batch.source.shape[0]
        if micro_batches == 1:
            total, _ = one_micro_batch(zero, (0, jax.tree.map(lambda x: x[0], batch)))
        else:
            total, _ = jax.lax.scan(one_micro_batch, zero, (jnp.arange(micro_batches), batch))
        return jax.lax.psum(total, DATA)

    return over_rows(on_one_device, mesh)(params, batch)


def make_train_step(
    graphdef: nnx.GraphDef, config: Config, mesh: Mesh
) -> Callable[[TrainState, Batch, Array], tuple[TrainState, StepMetrics]]:
    """The compiled update. It reuses the memory of its argument `state`: after it only the returned state is valid."""
    optimizer = make_optimizer(config.model, config.train)

    @partial(jax.jit, donate_argnums=0, out_shardings=replicated(mesh))
    def train_step(state: TrainState, batch: Batch, root_key: Array) -> tuple[TrainState, StepMetrics]:
        key = jax.random.fold_in(root_key, state.step)
        grads, sums = gradients(graphdef, state.params, batch, config.train.label_smoothing, key, mesh)
        grads = jax.tree.map(lambda g: g / jnp.maximum(sums.target_tokens, 1), grads)
        norm = optax.global_norm(grads)
        finite = jnp.isfinite(norm) & jnp.isfinite(sums.loss)
        updates, opt_state = optimizer.update(grads, state.opt_state, state.params)
        params: Any = optax.apply_updates(state.params, updates)
        updated = TrainState(state.step + 1, params, opt_state)
        state = jax.tree.map(lambda new, old: jnp.where(finite, new, old), updated, state)
        return state, StepMetrics(sums, norm, finite)

    return train_step


def make_eval_step(graphdef: nnx.GraphDef, mesh: Mesh) -> Callable[[Params, Batch], Sums]:
    """A compiled function: the loss sums of a batch [1, rows, row_length].

    It uses teacher forcing, without dropout or label smoothing, as Table 3 does.
    """

    def on_one_device(params: Params, batch: Batch) -> Sums:
        rows = jax.tree.map(lambda x: x[0], batch)
        return jax.lax.psum(batch_loss(graphdef, params, rows, 0.0, None), DATA)

    return jax.jit(over_rows(on_one_device, mesh))
