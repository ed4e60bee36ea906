"""What is saved comes back bit for bit, or the run says in one line why not and falls back to what does."""

import builtins
import errno
import io
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from vaswani.errors import UserError, WorkFailed
from vaswani.runs import checkpoints
from vaswani.runs.checkpoints import BrokenCheckpoint, load_chosen_params
from vaswani.runs.directory import RunDirectory


class State(NamedTuple):
    step: Any
    params: Any
    opt_state: Any


def make_state(seed: int = 0, width: int = 5) -> State:
    """A train state as the loop has it: numbered layers, an optimiser with empty parts, several types."""
    random = np.random.default_rng(seed)

    def array(*shape):
        return jnp.asarray(random.normal(size=shape), jnp.float32)

    params = {"embedding": array(7, width), "layers": {i: {"w": array(width, 3), "b": array(3)} for i in (0, 1)}}
    optimizer = optax.chain(optax.clip(1.0), optax.scale_by_adam(mu_dtype=jnp.bfloat16))
    opt_state = jax.tree.map(lambda a: jnp.ones_like(a) * seed, optimizer.init(params))
    return State(jnp.int32(seed), params, opt_state)


def assert_same(tree, other):
    """Structure, types and every bit."""
    assert jax.tree.structure(tree) == jax.tree.structure(other)
    for a, b in zip(jax.tree.leaves(tree), jax.tree.leaves(other), strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


def names(directory):
    return sorted(p.name for p in directory.iterdir())


@pytest.fixture(scope="module")
def three(tmp_path_factory) -> Path:
    """Checkpoints 9, 10 and 100; copied by the tests that change them."""
    directory = tmp_path_factory.mktemp("three") / "checkpoints"
    for step in (100, 9, 10):
        checkpoints.save(directory, step, make_state(step), {"step": step, "best_step": 10})
    return directory


@pytest.fixture
def run(three, tmp_path) -> RunDirectory:
    shutil.copytree(three, tmp_path / "run" / "checkpoints")
    return RunDirectory(tmp_path / "run")


def test_state_and_meta_come_back_bit_for_bit(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a relative path
    state = make_state(3)
    state.params["embedding"] = state.params["embedding"].at[0, :3].set(jnp.array([-0.0, jnp.nan, -jnp.inf]))
    meta = {"iterator": {"epoch": 1, "index": 40}, "best_score": 3.25, "seconds": 0.1, "tokenizer": "ab12", "nan": None}
    checkpoints.save(Path("c"), 3, state, meta)
    for like in (make_state(0), jax.eval_shape(lambda: make_state(0))):
        loaded, loaded_meta = checkpoints.load(Path("c"), 3, like)
        assert_same(loaded, state)
        assert isinstance(loaded, State) and isinstance(loaded.step, jax.Array) and loaded_meta == meta
    on_host, _ = checkpoints.load(Path("c"), 3, jax.tree.map(np.asarray, state))
    assert_same(on_host, state)
    assert isinstance(on_host.params["embedding"], np.ndarray)


def test_steps_are_ordered_as_numbers(run):
    (run.checkpoints / "007").mkdir()
    (run.checkpoints / "200.new").mkdir()
    assert checkpoints.steps(run.checkpoints) == [9, 10, 100]
    step, state, meta = checkpoints.load_newest(run.checkpoints, make_state(), warn=pytest.fail)
    assert step == 100 and meta["step"] == 100
    assert_same(state, make_state(100))
    assert checkpoints.steps(run.path / "missing") == []
    assert checkpoints.load_newest(run.path / "missing", make_state(), warn=pytest.fail) is None


def damage(path: Path, how: str) -> None:
    if how == "another step's":
        shutil.rmtree(path)
        shutil.copytree(path.with_name("9"), path)
        return
    if how == "empty directory":
        shutil.rmtree(path)
        path.mkdir()
        return
    files = [p for p in path.rglob("*") if p.is_file() and p.stat().st_size]
    file = (
        path / "manifest.json"
        if "manifest" in how
        else max((p for p in files if p.parent.name == "d"), key=os.path.getsize)
    )
    data = bytearray(file.read_bytes())
    if how.startswith("delete"):
        file.unlink()
    elif how.startswith("truncate"):
        file.write_bytes(data[: len(data) // 2])
    else:
        data[len(data) // 2] ^= 1
        file.write_bytes(data)


@pytest.mark.parametrize(
    "how",
    [
        "another step's",
        "empty directory",
        "truncate",
        "change",
        "delete",
        "truncate manifest",
        "change manifest",
        "delete manifest",
    ],
)
def test_a_broken_newest_checkpoint_is_moved_aside_and_the_one_before_it_taken(run, how, capfd):
    damage(run.checkpoints / "100", how)
    warnings = []
    step, state, _ = checkpoints.load_newest(run.checkpoints, make_state(), warnings.append)
    assert step == 10
    assert_same(state, make_state(10))
    assert len(warnings) == 1 and "\n" not in warnings[0]
    assert "checkpoints/100: broken checkpoint: " in warnings[0] and "moved to 100.broken" in warnings[0]
    assert names(run.checkpoints) == ["10", "100.broken", "9"]
    assert capfd.readouterr() == ("", "")  # nothing but the warning


def test_where_all_are_broken_there_is_none_and_saving_goes_on(run):
    for step in (9, 10, 100):
        damage(run.checkpoints / str(step), "truncate")
    (run.checkpoints / "100.broken").mkdir()  # of an earlier time
    warnings = []
    assert checkpoints.load_newest(run.checkpoints, make_state(), warnings.append) is None
    assert (
        len(warnings) == 3 and "taking the checkpoint before it" in warnings[1] and "there is no other" in warnings[2]
    )
    checkpoints.save(run.checkpoints, 10, make_state(1), {})
    assert checkpoints.load_newest(run.checkpoints, make_state(), pytest.fail)[0] == 10


def test_a_kill_between_the_two_renames_of_a_save_loses_no_checkpoint(run):
    """A step that is saved again, after its validation: the old one is aside, the new one not yet in its place."""
    (run.checkpoints / "100").rename(run.checkpoints / "100.old")
    (run.checkpoints / "100.new").mkdir()
    step, state, _ = checkpoints.load_newest(run.checkpoints, make_state(), warn=pytest.fail)
    assert step == 100
    assert_same(state, make_state(100))
    checkpoints.prune(run.checkpoints, keep_last=5, best=None)
    assert names(run.checkpoints) == ["10", "100", "9"]


def test_checkpoints_of_another_run_are_not_averaged(run):
    """Their arrays have the same shapes."""
    checkpoints.save(run.checkpoints, 101, make_state(), {"settings": {"train.seed": 1}})
    checkpoints.save(run.checkpoints, 102, make_state(), {"settings": {"train.seed": 2}})
    with pytest.raises(UserError, match="checkpoints/102: has another tokenizer or other settings than step 101"):
        checkpoints.average(run.checkpoints, [101, 102])


def test_a_step_is_saved_whatever_is_in_its_way(run):
    (run.checkpoints / "11").mkdir()  # an empty directory
    (run.checkpoints / "12.new").mkdir()  # of a save that was killed
    for name in ("13", "13.old", "13.new", "14.new", "14.broken"):
        (run.checkpoints / name).write_text("a plain file")
    assert checkpoints.steps(run.checkpoints) == [9, 10, 100]
    for step in (9, 11, 12, 13):  # 9 is there already, and is not the newest
        checkpoints.save(run.checkpoints, step, make_state(step + 1), {"new": True})
        state, meta = checkpoints.load(run.checkpoints, step, make_state())
        assert_same(state, make_state(step + 1))
        assert meta == {"new": True}
    checkpoints.prune(run.checkpoints, keep_last=9, best=None)
    assert names(run.checkpoints) == ["10", "100", "11", "12", "13", "14.broken", "9"]


@pytest.mark.parametrize("what", ["manifest.json", "arrays", ""])
def test_what_may_not_be_read_is_named_and_is_not_broken(run, monkeypatch, what):
    """The permission bits do not hold back root, who may run this."""
    kept, refused = (io.open, os.listdir), run.checkpoints / ("100" if what else "") / what

    def guarded(work):
        def call(path=".", *rest, **options):
            if str(path).startswith(str(refused)):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
            return work(path, *rest, **options)

        return call

    for module, name, work in ((io, "open", kept[0]), (builtins, "open", kept[0]), (os, "listdir", kept[1])):
        monkeypatch.setattr(module, name, guarded(work))
    with pytest.raises(UserError, match=rf"^{refused}.*: cannot be read: Permission denied$"):
        checkpoints.load_newest(run.checkpoints, make_state(), pytest.fail)


@pytest.mark.parametrize(
    ("like", "message"),
    [
        (make_state(width=6), r"params/embedding is float32 \[7, 5\] in the checkpoint and float32 \[7, 6\] in this"),
        (make_state()._replace(step=jnp.float32(0)), r"step is int32 \[\] in the checkpoint and float32 \[\] in this"),
        (make_state()._replace(opt_state={}), r"opt_state/1/count is int32 \[\] in the checkpoint and absent in this"),
        (
            make_state()._replace(opt_state={"x": jnp.ones(2)}),
            r"opt_state/x is absent in the checkpoint and float32",
        ),
    ],
)
def test_a_checkpoint_of_another_model_is_refused_and_stays(run, like, message):
    with pytest.raises(UserError, match="checkpoints/100: a checkpoint of another model: " + message):
        checkpoints.load_newest(run.checkpoints, like, warn=pytest.fail)
    assert checkpoints.steps(run.checkpoints) == [9, 10, 100]


def test_pruning_keeps_the_newest_and_the_best_and_never_deletes_all(run):
    (run.checkpoints / "11.new").mkdir()
    (run.checkpoints / "8.broken").mkdir()
    checkpoints.prune(run.checkpoints, keep_last=1, best=9)
    assert names(run.checkpoints) == ["100", "8.broken", "9"]
    checkpoints.prune(run.checkpoints, keep_last=0, best=None)
    assert names(run.checkpoints) == ["100", "8.broken"]
    checkpoints.prune(run.checkpoints, keep_last=5, best=77)
    assert_same(checkpoints.load(run.checkpoints, 100, make_state())[0], make_state(100))


def test_what_a_stop_or_a_good_validation_saved_is_not_regular(run):
    for step, on_schedule in ((11, False), (12, True), (0, False), (101, False)):
        checkpoints.save(run.checkpoints, step, make_state(), {"on_schedule": on_schedule})
    assert checkpoints.regular(run.checkpoints) == [9, 10, 12, 100, 101]  # the last one in any case
    checkpoints.prune(run.checkpoints, keep_last=3, best=11)
    assert checkpoints.steps(run.checkpoints) == [11, 12, 100, 101]
    checkpoints.save(run.checkpoints, 102, make_state(), {"on_schedule": True})
    checkpoints.prune(run.checkpoints, keep_last=3, best=11)
    assert checkpoints.steps(run.checkpoints) == [11, 12, 100, 102]
    damage(run.checkpoints / "12", "delete manifest")
    damage(run.checkpoints / "100", "truncate manifest")  # is kept until somebody reads it, who is told what helps
    assert checkpoints.regular(run.checkpoints) == [100, 102]
    with pytest.raises(BrokenCheckpoint, match=r"100: broken.*; remove .*100 to average the others"):
        checkpoints.average(run.checkpoints, [100, 102])


def test_the_average_is_the_mean_and_of_equal_checkpoints_that_checkpoint(run):
    mean = checkpoints.average(run.checkpoints, [9, 10, 100])
    trees = [mean, *(make_state(step).params for step in (9, 10, 100))]
    for value, *values in zip(*map(jax.tree.leaves, trees), strict=True):
        expected = np.mean(np.stack(values).astype(np.float64), axis=0)
        assert value.dtype == np.float32
        np.testing.assert_allclose(value, expected, rtol=1e-7)
    params = {"w": np.float32([0.1, -0.0, 1e-40, 3.4e38, np.pi])}  # a float32 sum of these rounds, or overflows
    for step in range(1, 6):
        checkpoints.save(run.path / "equal", step, {"params": params, "count": jnp.int32(step)}, {})
    assert_same(checkpoints.average(run.path / "equal", range(1, 6)), params)
    with pytest.raises(UserError, match="no checkpoints to average"):
        checkpoints.average(run.checkpoints, [])


def test_parameters_are_found_by_name(run, capsys):
    like = jax.eval_shape(lambda: make_state().params)
    for which, step in (("auto", 100), ("last", 100), ("best", 10), ("9", 9)):
        params, meta, label = load_chosen_params(run, which, like)
        assert_same(params, make_state(step).params)
        assert meta["step"] == step and label == f"step {step}"
    with pytest.raises(
        UserError, match=r"run: no checkpoint '11'; choose averaged, best, last or a step of 9, 10, 100"
    ):
        load_chosen_params(run, "11", like)
    with pytest.raises(UserError, match=r"no averaged parameters; `vaswani average .*run` makes them"):
        load_chosen_params(run, "averaged", like)
    with pytest.raises(UserError, match="of another model: embedding is"):
        load_chosen_params(run, "last", make_state(width=6).params)
    with pytest.raises(UserError, match="no checkpoints yet"):
        load_chosen_params(RunDirectory(run.path / "new"), "auto", like)

    average = checkpoints.average(run.checkpoints, [9])
    checkpoints.save_params(run.averaged, average, {"steps": [100]})
    checkpoints.save_params(run.averaged, average, {"steps": [9]})  # replaces
    for which in ("auto", "averaged"):
        params, meta, label = load_chosen_params(run, which, like)
        assert_same(params, make_state(9).params)  # numbered layers included
        assert meta == {"steps": [9]} and label == "averaged"
        assert "up to step 9; step 100 is newer; `vaswani average" in capsys.readouterr().err


def test_a_checkpoint_that_training_deletes_meanwhile_is_not_missed(tmp_path, monkeypatch):
    """`translate` reads the last checkpoint while training saves a newer one and deletes it."""
    run, state = RunDirectory(tmp_path / "run"), make_state()
    checkpoints.save(run.checkpoints, 100, state._asdict(), {})
    load_params, calls = checkpoints.load_params, []

    def delete_first(path, like):
        calls.append(path.name)
        if path.name == "100":
            checkpoints.save(run.checkpoints, 200, state._asdict(), {})
            checkpoints.prune(run.checkpoints, 1, None)
        return load_params(path, like)

    monkeypatch.setattr(checkpoints, "load_params", delete_first)
    params, _, label = load_chosen_params(run, "last", state.params)
    assert (calls, label) == (["100", "200"], "step 200")
    assert np.array_equal(params["embedding"], state.params["embedding"])


def test_a_broken_checkpoint_that_was_asked_for_is_named(run):
    damage(run.checkpoints / "100", "truncate")
    with pytest.raises(BrokenCheckpoint, match=r"checkpoints/100: broken checkpoint: arrays/.* bytes instead of"):
        load_chosen_params(run, "last", make_state().params)


@pytest.mark.skipif(os.getuid() != 0, reason="mounting a small file system needs root")
@pytest.mark.parametrize("free", [8, 60, 300], ids="{} KiB free".format)
def test_a_full_disk_is_one_line_and_leaves_the_earlier_checkpoints(tmp_path, free, capfd):
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(disk)], capture_output=True).returncode:
        pytest.skip("no small file system can be mounted here")
    try:
        state = {"params": np.random.default_rng(0).normal(size=(400, 400)).astype(np.float32)}
        checkpoints.save(disk, 1, state, {"step": 1})
        room = os.statvfs(disk)
        (disk / "ballast").write_bytes(bytes(room.f_bavail * room.f_frsize - free * 1024))
        with pytest.raises(WorkFailed, match="disk/2: cannot be written: no space left on the disk") as caught:
            checkpoints.save(disk, 2, state, {})
        assert "\n" not in str(caught.value)
        assert names(disk) == ["1", "ballast"]
        loaded, meta = checkpoints.load(disk, 1, state)
        assert_same(loaded, state)
        assert meta == {"step": 1}
        assert capfd.readouterr() == ("", "")
    finally:
        # Lazily: a thread of TensorStore may close the last file that was read a moment after `load` returns.
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


def test_a_save_that_fails_in_the_end_changes_nothing(run):
    with pytest.raises(TypeError):
        checkpoints.save(run.checkpoints, 100, make_state(1), {"not JSON": object()})
    assert names(run.checkpoints) == ["10", "100", "9"]
    assert_same(checkpoints.load(run.checkpoints, 100, make_state())[0], make_state(100))


SHARDED = """
import sys, jax, jax.numpy as jnp, numpy as np
from pathlib import Path
from vaswani.runs import checkpoints
mesh = jax.make_mesh((2,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
split = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data"))
like = {"params": jax.ShapeDtypeStruct((4, 3), jnp.float32, sharding=split)}
state, _ = checkpoints.load(Path(sys.argv[1]), 1, like)
assert state["params"].sharding == split
np.testing.assert_array_equal(state["params"], np.arange(12).reshape(4, 3))
checkpoints.save(Path(sys.argv[1]), 2, {"params": state["params"] + 1}, {})
"""


def test_devices_may_be_fewer_or_more_than_when_it_was_saved(tmp_path):
    checkpoints.save(tmp_path, 1, {"params": jnp.arange(12.0).reshape(4, 3)}, {})
    two_devices = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=2", "JAX_PLATFORMS": "cpu"}
    subprocess.run([sys.executable, "-c", SHARDED, str(tmp_path)], check=True, env=two_devices)
    state, _ = checkpoints.load(tmp_path, 2, {"params": jax.ShapeDtypeStruct((4, 3), jnp.float32)})
    np.testing.assert_array_equal(state["params"], np.arange(1, 13).reshape(4, 3))
