"""`vaswani status` has a row for each run, whatever state its files are in."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from vaswani.evaluation.bleu import Score, SetEvaluation, to_json
from vaswani.files import write_json
from vaswani.report.status import format_status, read_status
from vaswani.runs import checkpoints
from vaswani.runs.directory import RunDirectory
from vaswani.schema import Config, TrainConfig


def make_run(path: Path, step: int, **progress) -> RunDirectory:
    """A run of 9 steps or 1 minute whose last checkpoint is of `step`."""
    run = RunDirectory(path)
    run.create(Config(train=TrainConfig(steps=9, max_minutes=1)))
    run.metrics_path.write_text(json.dumps({"kind": "valid", "step": step, "perplexity": 3.5, "bleu": None}) + "\n")
    checkpoints.save(run.checkpoints, step, {"params": np.zeros(2)}, {"best_step": step, "progress": progress})
    score = Score("sacreBLEU", 27.3, 26.0, 28.0, "nrefs:1", "cased")
    write_json(run.evaluation_path, to_json({"test": SetEvaluation((score,), 4, "averaged", {"beam": 4}, 0)}))
    return run


def test_a_row_says_how_a_run_ended(tmp_path):
    make_run(tmp_path / "all", 9, validated_step=9)
    make_run(tmp_path / "cut", 9, validated_step=6)  # a signal came before its last validation
    make_run(tmp_path / "minutes", 5, elapsed_s=61.0, validated_step=5)
    make_run(tmp_path / "stopped", 5, elapsed_s=30.0)
    RunDirectory(tmp_path / "young").create(Config())
    shutil.copytree(tmp_path / "all", tmp_path / "used")
    before = sorted(tmp_path.rglob("*"))
    with RunDirectory(tmp_path / "used").lock():
        rows = {row["run"]: row for row in read_status(tmp_path)}
    assert {name: row["ended"] for name, row in rows.items()} == {
        "all": "finished: all 9 updates are made (train.steps)",
        "cut": "stopped at step 9; the same command goes on from there",
        "minutes": "finished: the time limit of 1 min is reached (train.max_minutes)",
        "stopped": "stopped at step 5; the same command goes on from there",
        "young": "",
        "used": "",
    }
    assert [name for name, row in rows.items() if row["in_use_by"]] == ["used"]
    assert rows["all"]["sets"] == {"test": 27.3} and rows["all"]["perplexity"] == 3.5
    assert set(tmp_path.rglob("*")) - set(before) == {tmp_path / "used/.lock"}  # looking leaves no trace


DAMAGE = {
    "config.toml": ["", "[modle]", "x = [", None],
    "evaluation.json": ["{", "5", '{"sets": {"x": {}}}', '{"sets": {"test": {"scores": []}}}', None],
    "metrics.jsonl": [None],
    "checkpoints/9/manifest.json": ["{", "5"],
}


@pytest.mark.parametrize(("file", "content"), [(file, text) for file, texts in DAMAGE.items() for text in texts])
def test_a_damaged_run_is_a_row_that_says_so_among_the_others(tmp_path, file, content):
    """A directory (None) in place of a file stands for all that cannot be read."""
    make_run(tmp_path / "fine", 9, validated_step=9)
    make_run(tmp_path / "hurt", 9, validated_step=9)
    path = tmp_path / "hurt" / file
    path.unlink()
    if content is None:
        path.mkdir()
    else:
        path.write_text(content)
    fine, hurt = read_status(tmp_path)
    # The values of the other files are not lost.
    lost = {
        "config.toml": {"steps": None, "ended": ""},
        "evaluation.json": {"sets": {}},
        "metrics.jsonl": {"perplexity": None},
        "checkpoints/9/manifest.json": {"ended": ""},
    }[file]
    assert hurt == fine | {"run": "hurt", "damaged": hurt["damaged"]} | lost
    assert not fine["damaged"] and fine["ended"].startswith("finished") and fine["sets"] and fine["perplexity"]
    assert file.split("/")[0] in hurt["damaged"] and "\n" not in hurt["damaged"]
    lines = format_status([fine, hurt], tmp_path).split("\n")
    assert len(lines) == 3 and f"damaged: {tmp_path}/hurt/" in lines[2] and "damaged" not in lines[1]


def test_fields_of_another_version_hide_nothing(tmp_path):
    make_run(tmp_path / "newer", 9, validated_step=9, field_of_a_later_version=[1])
    make_run(tmp_path / "older", 5)
    newer, older = read_status(tmp_path)
    assert newer["ended"] == "finished: all 9 updates are made (train.steps)" and not newer["damaged"]
    assert older["ended"] == "stopped at step 5; the same command goes on from there" and not older["damaged"]


def test_names_cannot_control_the_terminal(tmp_path):
    make_run(tmp_path / "reset\x1bc", 5)
    assert "reset\\x1bc" in format_status(read_status(tmp_path), tmp_path)


def test_status_imports_no_jax():
    code = "import sys, vaswani.report.status; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
