"""Parameter counts of every paper row, by hand, by the formula, and of the model itself; and the time they take."""

import json
import math
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.sizes import count_parameters
from vaswani.ablation import plan
from vaswani.ablation.progress import SweepProgress
from vaswani.ablation.rows import GROUPS, rows
from vaswani.ablation.sweep import Sweep, SweepRun
from vaswani.commands import plan_ablation
from vaswani.paper.costs import forward_flops_formula, parameters
from vaswani.runs.directory import RunDirectory
from vaswani.schema import Config, ModelConfig

V = 37_000
# Without the embedding, worked from the paper's equations: no bias in attention, biases in the feed-forward network,
# scale and bias in each LayerNorm.
BASE = 44_101_632
WITHOUT_EMBEDDING = {
    "base": BASE, "A1": BASE, "A2": BASE, "A3": BASE, "A4": BASE, "B1": 37_023_744, "B2": 39_383_040,
    "C1": 14_700_544, "C2": 29_401_088, "C3": 58_802_176, "C4": 17_344_512, "C5": 125_927_424,
    "C6": 31_506_432, "C7": 69_292_032, "D1": BASE, "D2": BASE, "D3": BASE, "D4": BASE,
    "E": BASE + 2 * 1024 * 512, "big": 176_283_648,
}  # fmt: skip
PAPER_MILLIONS = {"base": 65, "B1": 58, "B2": 60, "C1": 36, "C2": 50, "C3": 80, "C4": 28, "C5": 168, "C6": 53, "C7": 90}


def test_every_row_of_the_paper():
    made = {row.name: row.config.model for row in rows(Config(), GROUPS)}
    for name, count in WITHOUT_EMBEDDING.items():
        assert parameters(made[name], V) == count + V * made[name].d_model, name
    assert made.keys() == WITHOUT_EMBEDDING.keys()
    for name, millions in PAPER_MILLIONS.items():  # its vocabulary was some 40,000 pieces, so within 3 million of ours
        assert abs(parameters(made[name], 40_700) / 1e6 - millions) < 3, name


@pytest.mark.parametrize(
    "model",
    [
        ModelConfig(N=1),
        ModelConfig(N=2, d_model=24, d_ff=40, h=3, d_k=5, d_v=7, positions="learned", max_positions=300),
    ],
)
def test_the_formula_is_the_model(model):
    assert parameters(model, 1234) == count_parameters(model, 1234)


def run_with(directory: Path, config: Config, updates: int, seconds: float) -> SweepRun:
    """A run whose log ends after so many updates and seconds."""
    run = SweepRun(directory.name, config, RunDirectory(directory), "valid")
    directory.mkdir()
    event = {"kind": "train", "step": updates, "loss": 2.5, "elapsed_s": seconds}
    run.directory.metrics_path.write_text(json.dumps(event) + "\n")
    return run


def with_minutes(minutes: float) -> Config:
    return replace(Config(), train=replace(Config().train, max_minutes=minutes))


def test_time_follows_the_speed_and_the_bound(tmp_path):
    run = run_with(tmp_path / "a", Config(), 99_000, 39_600.0)
    speed = plan.measured_speed([run], V)
    assert speed == pytest.approx(2.5 * 25_000 / 256 * 3 * forward_flops_formula(ModelConfig(), V, n=256))
    assert plan.seconds_left(run, V, speed) - plan.STARTUP_SECONDS == pytest.approx(400.0)
    new = SweepRun("new", Config(), RunDirectory(tmp_path / "new"), "valid")
    assert plan.seconds_left(new, V, speed) - plan.STARTUP_SECONDS == pytest.approx(40_000.0)
    assert plan.measured_speed([new], V) is None and plan.seconds_left(new, V, None) == math.inf
    for spent, left in ((0.0, 120.0), (90.0, 30.0), (121.0, 0.0)):
        bounded = run_with(tmp_path / str(spent), with_minutes(2.0), 10, spent)
        for speed_or_none in (speed, None):
            assert plan.seconds_left(bounded, V, speed_or_none) - plan.STARTUP_SECONDS == left


def sweep_in(path: Path, config: Config) -> Sweep:
    return Sweep(RunDirectory(path), config, rows(config, ["C1", "D1", "E"]), 1, "newstest2013")


def test_the_sweep_counts_what_was_spent_of_max_minutes(tmp_path):
    """Two of four runs have 10 and 15 of their 20 minutes behind them: 10, 5, 20 and 20 are left, two at a time."""
    config = with_minutes(20.0)
    sweep = sweep_in(tmp_path, config)
    for name, minutes in (("base-seed0", 10), ("C1-seed0", 15)):
        run_with(tmp_path / name, config, 2, 60.0 * minutes)
    left = 60 * (10 + 5 + 20 + 20) + 4 * plan.STARTUP_SECONDS
    assert SweepProgress(sweep, V, jobs=2).seconds_left() == pytest.approx(left / 2)
    values = plan.plan(sweep, tmp_path / "prepared", jobs=2)
    assert values["seconds_left"] == round(left / 2) and values["jobs"] == 2
    assert "2 at a time; about 28m10s in all, by the speed of the runs so far" in plan.format_plan(values)


def test_a_plan_without_any_run_guesses_nothing(tmp_path):
    unknown = plan.plan(sweep_in(tmp_path / "a", Config()), tmp_path, jobs=1)
    assert unknown["seconds_left"] is None and {run["seconds_left"] for run in unknown["runs"]} == {None}
    assert "1 at a time; the time is unknown until a run has made its first updates" in plan.format_plan(unknown)
    bounded = plan.plan(sweep_in(tmp_path / "b", with_minutes(10.0)), tmp_path, jobs=9)
    assert bounded["seconds_left"] == 620 and bounded["jobs"] == 4
    assert "4 at a time; at most 10m20s in all, by train.max_minutes" in plan.format_plan(bounded)


@pytest.mark.parametrize(
    ("jobs", "slurm", "at_a_time"), [(None, None, 1), (2, None, 2), (None, "", 4), (3, "partition=gpu", 3), (9, "", 4)]
)
def test_on_slurm_all_runs_go_on_at_once(tmp_path, jobs, slurm, at_a_time):
    assert plan_ablation(sweep_in(tmp_path, Config()), jobs, slurm)["jobs"] == at_a_time


def test_a_dry_run_needs_no_device(tmp_path):
    """`JAX_PLATFORMS` names a device that does not exist: whatever would start JAX would fail."""
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-m", "vaswani", "ablate", root / "configs/toy.toml", "--dry-run", "--json"],
        cwd=tmp_path, env=os.environ | {"JAX_PLATFORMS": "absent", "PYTHONPATH": str(root)},
        capture_output=True, text=True,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["jobs"] == 1 and not any(tmp_path.iterdir())
