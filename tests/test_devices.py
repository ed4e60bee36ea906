"""The user's environment changes no result: a variable is without effect, or refused in one line."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from vaswani.devices import FIXED, available_processors

HOSTILE = {
    "JAX_ENABLE_X64": "1",
    "JAX_DEFAULT_MATMUL_PRECISION": "bfloat16",
    "JAX_DEFAULT_DTYPE_BITS": "64",
    "JAX_NUMPY_DTYPE_PROMOTION": "strict",
    "JAX_NUMPY_RANK_PROMOTION": "raise",
    "JAX_SOFTMAX_CUSTOM_JVP": "1",
    "JAX_DEFAULT_PRNG_IMPL": "rbg",
    "JAX_ENABLE_CUSTOM_PRNG": "1",
    "JAX_THREEFRY_PARTITIONABLE": "0",
    "JAX_RANDOM_SEED_OFFSET": "7",
    "JAX_DISABLE_JIT": "1",
    "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
    "JAX_NO_TRACING": "1",
    "JAX_NO_EXECUTION": "1",
    "JAX_DEBUG_NANS": "1",
    "JAX_DEBUG_INFS": "1",
    "JAX_ERROR_CHECKING_BEHAVIOR_NAN": "raise",
    "JAX_ERROR_CHECKING_BEHAVIOR_OOB": "raise",
    "JAX_TRANSFER_GUARD": "disallow",
    "JAX_ARRAY_GARBAGE_COLLECTION_GUARD": "fatal",
    "JAX_COMPILATION_CACHE_CHECK_CONTENTS": "1",
}


def test_variables_that_change_numbers_are_without_effect(trained):
    """Training (from step 12, with dropout) and translating give the same with all of them as with none."""
    assert {name.lower() for name in HOSTILE} >= FIXED.keys()
    results = []
    for name, variables in (("plain", {}), ("hostile", HOSTILE)):
        run = trained.path / "runs" / name
        shutil.copytree(trained.path / "runs/tiny", run)
        environment = trained.environment | variables
        trained.vaswani("train", "tiny.toml", "--run", str(run), "--train.steps", "14", env=environment)
        done = trained.vaswani("translate", str(run), "--scores", input="The dog sleeps.\n", env=environment)
        events = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
        losses = [(event["step"], event["loss"], event["gradient_norm"]) for event in events if "loss" in event]
        results.append((losses, done.stdout))
    assert results[0] == results[1] and results[0][0][-1][0] == 14


@pytest.mark.parametrize(
    ("variable", "value", "says"),
    [
        ("JAX_PLATFORMS", "cuda", "there are no such devices; this machine has: "),
        ("JAX_PLATFORMS", "gpu,foo", "there are no such devices; this machine has: "),
        ("JAX_NUM_CPU_DEVICES", "0", "there are no such devices; this machine has: "),
        ("XLA_FLAGS", "--xla_force_host_platform_device_count=0", "there are no such devices; this machine has: "),
        ("XLA_FLAGS", "--no_such_flag=1", "Unknown flag in XLA_FLAGS: --no_such_flag=1"),
        ("XLA_FLAGS", "--xla_force_host_platform_device_count=two", "Couldn't interpret value two"),
    ],
)
def test_devices_that_are_not_there_are_refused_in_one_line(trained, variable, value, says):
    environment = trained.environment | {"XLA_FLAGS": "", "JAX_PLATFORMS": "", variable: value}
    line = trained.refused("translate", "runs/tiny", input="The dog sleeps.\n", env=environment)
    assert line.startswith(f"vaswani: {variable}={value}: {says}")


def test_a_variable_that_jax_does_not_understand_is_refused_in_one_line(trained):
    environment = trained.environment | {"JAX_ENABLE_X64": "maybe"}
    line = trained.refused("status", env=environment)
    assert "'maybe'" in line and "JAX_ENABLE_X64" in line


def test_commands_that_compute_nothing_need_no_device(trained):
    environment = trained.environment | HOSTILE | {"JAX_PLATFORMS": "foo", "XLA_FLAGS": "--no_such_flag"}
    environment["JAX_NUM_CPU_DEVICES"] = "0"
    dry_run = "ablate tiny.toml --rows A1 --dry-run"
    for command in ("--help", "prepare tiny.toml", "status", "report runs/tiny", dry_run):
        trained.vaswani(*command.split(), env=environment)
    shutil.copytree(trained.path / "runs/tiny", trained.path / "runs/other")
    line = trained.refused("compare", "runs/tiny", "runs/other", env=environment)
    assert line.startswith("vaswani: runs/tiny: has no translation of 'test'")  # which has nothing to do with devices


def test_the_users_cache_directory_wins(trained):
    environment = trained.environment | {"JAX_COMPILATION_CACHE_DIR": str(trained.path / "mine")}
    environment["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    trained.vaswani("translate", "runs/tiny", input="The dog sleeps.\n", env=environment)
    assert any((trained.path / "mine").iterdir())


def test_a_cache_that_cannot_be_used_is_one_line(trained):
    (trained.path / "file").write_text("")
    environment = trained.environment | {"JAX_COMPILATION_CACHE_DIR": "file"}
    done = trained.vaswani("translate", "runs/tiny", input="The dog sleeps.\n", env=environment)
    (line,) = done.stderr.splitlines()
    assert line.startswith("file: cannot be written: ") and done.stdout.count("\n") == 1


@pytest.mark.skipif(
    available_processors() < 2 or not hasattr(os, "sched_setaffinity"), reason="needs two processors, and Linux"
)
@pytest.mark.parametrize(
    ("variables", "processors", "devices"),
    [
        ({}, 2, 2),
        ({}, 1, 1),
        ({"XLA_FLAGS": "--xla_force_host_platform_device_count=3"}, 2, 3),
        ({"JAX_NUM_CPU_DEVICES": "1"}, 2, 1),
    ],
)
def test_two_devices_share_the_processors_unless_the_user_chooses_how_many(variables, processors, devices):
    program = (
        f"import os; os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:{processors}])\n"
        "from vaswani.devices import make_mesh, use_processors\n"
        "use_processors(); print(make_mesh().size); use_processors(); print(make_mesh().size)"
    )
    environment = {**os.environ, "XLA_FLAGS": "", "JAX_PLATFORMS": "cpu", **variables}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(devices)] * 2
