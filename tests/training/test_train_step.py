"""An update is the same however it is cut, never made when it is not finite, and holds no logits of a whole batch."""

import dataclasses
import functools
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import AxisType

from vaswani import model as transformer
from vaswani.data.packing import Batch
from vaswani.devices import DATA, make_mesh, shard_rows
from vaswani.schema import Config, ModelConfig, TrainConfig
from vaswani.training import train_step as train_step_module
from vaswani.training.optimizer import learning_rate
from vaswani.training.train_step import (
    Sums,
    batch_loss,
    gradients,
    init_state,
    make_eval_step,
    make_train_step,
    state_structure,
)

TINY = Config(
    model=ModelConfig(N=1, d_model=16, d_ff=32, h=2, d_k=8, d_v=8, P_drop=0.0),
    train=TrainConfig(warmup=10, lr_scale=1.0),
)
V = 13


def unequal_batch(rows: int = 8, length: int = 12) -> Batch:
    """Rows [rows, length] with one pair each, of very unequal lengths."""
    rng = np.random.default_rng(0)
    arrays = {name: np.zeros((rows, length), np.int32) for name in Batch._fields}
    for row in range(rows):
        for side in ("source", "target"):
            n = int(rng.integers(1, length + 1)) if row % 2 else 1 + row % 3
            tokens = rng.integers(3, V, n)
            arrays["source" if side == "source" else "target_output"][row, :n] = tokens
            arrays[f"{side}_segments"][row, :n] = 1
            arrays[f"{side}_positions"][row, :n] = np.arange(n)
            if side == "target":
                arrays["target_input"][row, :n] = [1, *tokens[:-1]]
    return Batch(**arrays)


def cut(batch: Batch, micro_batches: int) -> Batch:
    return Batch(*(x.reshape(micro_batches, -1, x.shape[-1]) for x in batch))


def relative_difference(a, b) -> float:
    """Largest difference of any array, relative to that array's largest value."""
    pairs = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    return max(float(np.abs(np.asarray(x) - np.asarray(y)).max() / np.abs(np.asarray(y)).max()) for x, y in pairs)


@functools.cache
def gradients_of(micro_batches: int, devices: int = 1):
    mesh = mesh_of(devices)
    graphdef, state = state_structure(TINY, V, mesh)[0], init_state(TINY, V, mesh)
    batch = shard_rows(cut(unequal_batch(), micro_batches), mesh)
    return jax.jit(lambda params, batch: gradients(graphdef, params, batch, 0.1, None, mesh))(state.params, batch)


def validation_sums_of(devices: int):
    mesh = mesh_of(devices)
    graphdef, state = state_structure(TINY, V, mesh)[0], init_state(TINY, V, mesh)
    return make_eval_step(graphdef, mesh)(state.params, shard_rows(cut(unequal_batch(), 1), mesh))


def mesh_of(devices: int):
    return jax.make_mesh((devices,), (DATA,), axis_types=(AxisType.Auto,), devices=jax.devices()[:devices])


def test_one_update_of_eight_rows_is_four_micro_batches_of_two():
    """A sum over tokens divided by all of them, never a mean of means."""
    whole, sums = gradients_of(1)
    parts, part_sums = gradients_of(4)
    assert sums.target_tokens == part_sums.target_tokens == (unequal_batch().target_segments > 0).sum()
    assert relative_difference(parts, whole) < 1e-5
    np.testing.assert_allclose(part_sums.loss, sums.loss, rtol=1e-6)


def in_a_process(code: str, devices: int) -> str:
    """What a process of that many devices prints: their number is fixed when JAX starts."""
    flags = f"--xla_backend_optimization_level=0 --xla_force_host_platform_device_count={devices}"
    code = f"import sys; sys.path.insert(0, sys.argv[1])\n{code}"
    command = [sys.executable, "-c", code, str(Path(__file__).parent)]
    environment = {"XLA_FLAGS": flags, "PATH": "/usr/bin:/bin"}
    return subprocess.run(command, check=True, env=environment, stdout=subprocess.PIPE, text=True).stdout


def test_one_device_is_several_with_micro_batches_or_without(tmp_path):
    path = tmp_path / "gradients.npz"
    code = (
        "import jax, numpy as np; from test_train_step import gradients_of, validation_sums_of\n"
        "ways = ((2, 2), (1, 8))  # micro-batches, devices\n"
        "several = jax.tree.leaves([[gradients_of(*way) for way in ways], validation_sums_of(8)])\n"
        f"np.savez({str(path)!r}, *several)"
    )
    in_a_process(code, devices=8)
    one = [2 * [gradients_of(1)], validation_sums_of(1)]
    assert relative_difference(list(np.load(path).values()), jax.tree.leaves(one)) < 1e-5


def test_an_update_goes_downhill_and_divides_by_the_tokens_of_all_its_micro_batches():
    """Adam's first step is the learning rate, against the sign of the gradient."""
    mesh, micro_batches = make_mesh(), 4
    graphdef, state = state_structure(TINY, V, mesh)[0], init_state(TINY, V, mesh)
    before = jax.device_get(state.params)
    grads, sums = gradients_of(micro_batches)
    batch = shard_rows(cut(unequal_batch(), micro_batches), mesh)
    state, metrics = make_train_step(graphdef, TINY, mesh)(state, batch, jax.random.key(0))
    np.testing.assert_allclose(metrics.gradient_norm, optax.global_norm(grads) / sums.target_tokens, rtol=1e-5)
    for old, new, g in zip(*map(jax.tree.leaves, (before, state.params, grads)), strict=True):
        clear = np.abs(g) > 1e-6 * sums.target_tokens
        moved = (np.asarray(new) - old)[clear]
        np.testing.assert_allclose(moved, -learning_rate(1, 16, 10) * np.sign(g[clear]), rtol=2e-3, atol=1e-6)


def test_the_seed_chooses_the_parameters():
    reseeded = dataclasses.replace(TINY, train=dataclasses.replace(TINY.train, seed=7))
    tables = [init_state(config, V, make_mesh()).params["embedding"]["table"] for config in (TINY, reseeded)]
    assert not np.array_equal(*tables)


def test_in_bfloat16_parameters_stay_float32_and_gradients_point_the_same_way():
    low = dataclasses.replace(TINY, model=dataclasses.replace(TINY.model, dtype="bfloat16"))
    mesh, batch = make_mesh(), cut(unequal_batch(), 1)
    graphdef, state = state_structure(low, V, mesh)[0], init_state(low, V, mesh)
    state, metrics = make_train_step(graphdef, low, mesh)(state, shard_rows(batch, mesh), jax.random.key(0))
    arrays = [x for x in jax.tree.leaves((state.params, state.opt_state)) if x.ndim]
    assert metrics.finite and {x.dtype.name for x in arrays} == {"float32"}
    graphdef, state = state_structure(low, V, mesh)[0], init_state(low, V, mesh)
    grads, _ = jax.jit(lambda params: gradients(graphdef, params, batch, 0.1, None, mesh))(state.params)
    a, b = (np.concatenate([np.ravel(x) for x in jax.tree.leaves(g)]) for g in (grads, gradients_of(1)[0]))
    assert a @ b / np.linalg.norm(a) / np.linalg.norm(b) > 0.99 and not np.array_equal(a, b)


def test_dropout_is_where_the_paper_has_it_and_new_each_time(monkeypatch):
    """Section 5.4: on the two sums of embedding and position, and on each sub-layer's output; nowhere else."""
    mesh, keys, dropout = make_mesh(), [], transformer.dropout

    def recorded(x, rate, key):
        keys.append((rate, jax.random.key_data(key)))
        return dropout(x, rate, key)

    monkeypatch.setattr(transformer, "dropout", recorded)
    config = dataclasses.replace(TINY, model=dataclasses.replace(TINY.model, P_drop=0.3))
    graphdef, state = state_structure(config, V, mesh)[0], init_state(config, V, mesh)

    @jax.jit
    def loss(batch, key):
        keys.clear()
        sums = gradients(graphdef, state.params, batch, 0.1, key, mesh)[1]
        return sums.loss / sums.target_tokens

    @jax.jit
    def seen(batch, key):
        keys.clear()
        batch_loss(graphdef, state.params, batch, 0.1, key)
        rates, data = zip(*keys, strict=True)
        assert rates == (0.3,) * (2 + 2 + 3)
        return jnp.stack(data)

    one, key = unequal_batch(), jax.random.key(0)
    assert len(np.unique(seen(one, key), axis=0)) == 7
    # The same rows twice, as two micro-batches, are other losses than one of them; so is the next update.
    twice = Batch(*(np.stack([x, x]) for x in one))
    losses = [loss(cut(one, 1), key), loss(twice, key), loss(cut(one, 1), jax.random.fold_in(key, 1))]
    assert len({round(float(x), 5) for x in losses}) == 3
    still = dataclasses.replace(config, train=dataclasses.replace(config.train, lr_scale=1e-30))
    train_step, batch = make_train_step(graphdef, still, mesh), shard_rows(cut(one, 1), mesh)
    state, first = train_step(state, batch, key)
    state, second = train_step(state, batch, key)
    assert abs(first.sums.loss - second.sums.loss) > 1e-3 * first.sums.loss


def test_a_row_that_is_all_padding_has_finite_gradients():
    batch = Batch(*(np.concatenate([x, np.zeros_like(x)]) for x in unequal_batch()))
    mesh = make_mesh()
    graphdef, state = state_structure(TINY, V, mesh)[0], init_state(TINY, V, mesh)
    run = jax.jit(lambda params, batch: gradients(graphdef, params, batch, 0.1, None, mesh))
    with_empty_rows, _ = run(state.params, shard_rows(cut(batch, 1), mesh))
    without, _ = run(state.params, shard_rows(cut(unequal_batch(), 1), mesh))
    assert all(np.isfinite(g).all() for g in jax.tree.leaves(with_empty_rows))
    assert relative_difference(with_empty_rows, without) < 1e-5


@pytest.mark.parametrize(("loss", "entry"), [(1.0, np.inf), (np.nan, 1.0), (1.0, 1.0)])
def test_an_update_that_is_not_finite_changes_nothing(monkeypatch, loss, entry):
    """Be it one entry of one gradient, or the loss alone."""

    def gradients(graphdef, params, *_):
        grads = jax.tree.map(jnp.ones_like, params)
        grads["embedding"]["table"] = grads["embedding"]["table"].at[5, 0].set(entry)
        return grads, Sums(jnp.float32(loss), jnp.float32(1), jnp.int32(3), jnp.int32(3))

    monkeypatch.setattr(train_step_module, "gradients", gradients)
    mesh = make_mesh()
    graphdef, state = state_structure(TINY, V, mesh)[0], init_state(TINY, V, mesh)
    before = jax.device_get(state)
    batch = shard_rows(cut(unequal_batch(), 1), mesh)
    after, metrics = make_train_step(graphdef, TINY, mesh)(state, batch, jax.random.key(0))
    finite = np.isfinite([loss, entry]).all()
    assert metrics.finite == finite and after.step == int(finite)
    leaves = zip(jax.tree.leaves(before), jax.tree.leaves(jax.device_get(after)), strict=True)
    assert {np.array_equal(x, y) for x, y in leaves} == {not finite}


def test_the_state_and_the_step_compile_once():
    mesh = make_mesh()
    graphdef, state = state_structure(TINY, V, mesh)[0], init_state(TINY, V, mesh)
    train_step = make_train_step(graphdef, TINY, mesh)
    arrays = []
    for update in range(4):
        batch = shard_rows(cut(unequal_batch(), 2), mesh)
        state, _ = train_step(state, batch, jax.random.key(update))
        arrays.append(len(jax.live_arrays()))
    assert train_step._cache_size() == 1
    assert arrays[2] == arrays[3]


def compiled_memory(vocab_size: int, rows: int = 64, length: int = 64) -> int:
    """Bytes of temporaries of the compiled update on 4096 tokens, nothing allocated."""
    mesh = make_mesh()
    config = Config(model=ModelConfig(N=1, d_model=16, d_ff=32, h=2, d_k=8, d_v=8))
    graphdef, state = state_structure(config, vocab_size, mesh)[0], init_state(config, vocab_size, mesh)
    batch = Batch(*(np.zeros((1, rows, length), np.int32) for _ in Batch._fields))
    compiled = (
        make_train_step(graphdef, config, mesh).lower(state, shard_rows(batch, mesh), jax.random.key(0)).compile()
    )
    return compiled.memory_analysis().temp_size_in_bytes


@pytest.mark.parametrize("devices", [1, 2])
def test_no_logits_of_a_whole_batch(devices):
    """At V = 37,000 the logits of 4096 tokens are 606 MB; a chunk of 1024 is 152 MB, with its gradient 303 MB."""
    code = f"from test_train_step import compiled_memory; print(compiled_memory(37_000, rows={64 * devices}))"
    temporaries = int(in_a_process(code, devices))
    assert temporaries < 4096 * 37_000 * 4 * 0.75, f"{temporaries:,} bytes"
