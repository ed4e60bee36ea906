"""Each file of a run emptied, cut, changed by one bit, missing, or another run's: named, and never used silently."""

import io
import os
import pickle
import random
import shutil
import sys
from pathlib import Path

import pytest

from tests.workplace import Workplace
from vaswani import cli
from vaswani.runs.integrity import BrokenCheckpoint, files_of, verify

RUN, OTHER = Path("runs/tiny"), Path("runs/other")
KINDS = ("emptied", "cut", "one bit", "missing", "another run's")
SETTINGS = ["--train.valid-lines", "0"]


@pytest.fixture(scope="module")
def two_runs(_trained, tmp_path_factory) -> Path:
    """runs/tiny, and runs/other of another seed, whose arrays have the same shapes; both averaged and evaluated."""
    work = tmp_path_factory.mktemp("damage") / "work"
    shutil.copytree(_trained, work)
    other = ["tiny.toml", "--run", str(OTHER), "--train.seed", "7", *SETTINGS]
    Workplace(work).vaswani("train", *other)
    os.chdir(work)
    for run in (RUN, OTHER):
        assert cli.run(["average", str(run), "--last", "2"]) == 0
        assert cli.run(["evaluate", str(run)]) == 0
    assert cli.run(["attention", str(RUN), "Two dogs."]) == 0
    return work


@pytest.fixture
def work(two_runs, tmp_path, monkeypatch, capsys) -> Path:
    shutil.copytree(two_runs, tmp_path / "work")
    monkeypatch.chdir(tmp_path / "work")
    capsys.readouterr()
    return tmp_path / "work"


@pytest.fixture
def vaswani(monkeypatch, capsys):
    """Runs a command in this process; a defect shows as an exception. Returns exit code, stdout and stderr."""

    def call(*arguments: str) -> tuple[int, str, str]:
        Path("in.txt").write_text("Two dogs see a red house.\n")
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written := io.BytesIO(), write_through=True))
        with open("in.txt") as file:
            monkeypatch.setattr(sys, "stdin", file)
            code = cli.run(arguments)
        return code, written.getvalue().decode(), capsys.readouterr().err

    return call


def damage(path: Path, kind: str, rng: random.Random) -> None:
    """Damages a file at a random place."""
    data = bytearray(path.read_bytes())
    if kind == "missing":
        path.unlink()
    elif kind == "another run's":
        path.write_bytes((OTHER / path.relative_to(RUN)).read_bytes())
    elif kind == "one bit":
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        path.write_bytes(data)
    else:
        path.write_bytes(data[: 0 if kind == "emptied" else rng.randrange(1, len(data))])


def commands(*names: str) -> list[list[str]]:
    """Command lines that read RUN."""
    known = {
        "translate": ["translate", str(RUN)],
        "last": ["translate", str(RUN), "--checkpoint", "last"],
        "evaluate": ["evaluate", str(RUN)],
        "average": ["average", str(RUN), "--last", "2"],
        "train": ["train", "tiny.toml", "--train.steps", "13", *SETTINGS],
        "report": ["report", str(RUN)],
        "compare": ["compare", str(RUN), str(OTHER)],
    }
    return [known[name] for name in names]


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_the_configuration_is_checked_by_every_command(work, vaswani, kind, seed):
    """Also a configuration that is valid: alpha 0.6 -> 0.7, d_model 16 -> 17, or of a run with another seed."""
    damage(RUN / "config.toml", kind, random.Random(seed))
    expected = {
        "missing": ["no run directory at runs/tiny", "config.toml: is missing"],
        "another run's": ["config.toml: these are not the settings", "runs/tiny: this run started with other settings"],
    }.get(kind, ["runs/tiny/config.toml: "])
    for command in commands("translate", "evaluate", "train"):
        code, out, err = vaswani(*command)
        assert code == 2 and out == "" and any(words in err for words in expected), err
        assert err.count("vaswani: ") == 1
    code, out, _ = vaswani("status")
    assert code == 0 and ("damaged: runs/tiny/config.toml" in out or kind in ("missing", "another run's"))


@pytest.mark.parametrize(("old", "new"), [("alpha = 0.6", "alpha = 0.7"), ("d_model = 16", "d_model = 18")])
def test_an_edited_configuration_says_so_and_can_be_used_on_purpose(work, vaswani, old, new):
    text = (RUN / "config.toml").read_text()
    assert old in text
    (RUN / "config.toml").write_text(text.replace(old, new))
    code, _, err = vaswani("translate", str(RUN))
    assert code == 2 and "is damaged, or was edited; after an edit delete its first line" in err
    (RUN / "config.toml").write_text(text.split("\n", 1)[1].replace(old, new))
    code, out, err = vaswani("translate", str(RUN))
    if "alpha" in old:
        assert code == 0 and out.count("\n") == 1
    else:
        assert code == 2 and out == "" and "another model" in err


def test_heads_that_change_no_shape_are_no_silent_change(work, vaswani):
    """h 2 with d_k 8 and h 4 with d_k 4 have the same arrays."""
    text = (RUN / "config.toml").read_text().split("\n", 1)[1]
    text = text.replace("h = 2", "h = 4").replace("d_k = 8", "d_k = 4").replace("d_v = 8", "d_v = 4")
    (RUN / "config.toml").write_text(text)
    code, out, err = vaswani("translate", str(RUN))
    assert code == 2 and out == "" and "config.toml: these are not the settings that averaged was trained with (" in err
    assert "model.h = 2 before, 4 now" in err


@pytest.mark.parametrize("kind", KINDS[:4])
def test_the_tokenizer_is_checked(work, vaswani, kind):
    for seed in range(4):
        shutil.copy(OTHER / "tokenizer.model", RUN)
        damage(RUN / "tokenizer.model", kind, random.Random(seed))
        for command in commands("translate", "train"):
            code, out, err = vaswani(*command)
            assert code == 2 and out == "" and "runs/tiny/tokenizer.model: " in err and err.count("vaswani: ") == 1, err


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("where", ["checkpoints/12", "averaged"])
def test_every_file_of_a_checkpoint_is_checked_before_it_is_used(work, where, kind):
    rng, checkpoint = random.Random(kind), RUN / where
    intact = Path(shutil.copytree(checkpoint, "intact"))
    verify(checkpoint)
    for name in files_of(checkpoint):
        other = OTHER / where / name
        if kind == "another run's" and (not other.exists() or other.read_bytes() == (checkpoint / name).read_bytes()):
            continue
        if (checkpoint / name).stat().st_size or kind == "missing":
            damage(checkpoint / name, kind, rng)
            named = "" if (kind, name) == ("another run's", "manifest.json") else name  # then all the others differ
            with pytest.raises(BrokenCheckpoint, match=f"{where}: broken checkpoint: .*{named}"):
                verify(checkpoint)
            shutil.copy(intact / name, checkpoint / name)
    verify(checkpoint)


def test_commands_refuse_a_damaged_checkpoint_and_training_takes_the_one_before(work, vaswani):
    shutil.rmtree(RUN / "averaged")
    largest = max((p for p in (RUN / "checkpoints/12").rglob("d/*")), key=lambda path: path.stat().st_size)
    damage(largest, "one bit", random.Random(0))
    for command in commands("translate", "evaluate", "average"):
        code, out, err = vaswani(*command)
        assert code == 1 and out == "" and err.count("vaswani: ") == 1, err
        assert "runs/tiny/checkpoints/12: broken checkpoint: the contents of arrays/" in err
    code, _, err = vaswani(*commands("train")[0])
    assert code == 0 and "moved to 12.broken" in err and "going on from step 9" in err


def test_a_damaged_average_is_refused(work, vaswani):
    damage(next((RUN / "averaged").rglob("d/*")), "cut", random.Random(0))
    for command in commands("translate", "evaluate"):
        code, out, err = vaswani(*command)
        assert code == 1 and out == "" and "runs/tiny/averaged: broken checkpoint: arrays/" in err
    assert vaswani(*commands("average")[0])[0] == vaswani(*commands("translate")[0])[0] == 0  # made again


def test_a_whole_checkpoint_of_another_run_is_refused(work, vaswani):
    """Of another seed: nothing but its settings tells."""
    shutil.rmtree(RUN / "checkpoints/12")
    shutil.copytree(OTHER / "checkpoints/12", RUN / "checkpoints/12")
    for command in commands("last", "average", "train"):
        code, out, err = vaswani(*command)
        assert code == 2 and out == "" and err.count("vaswani: ") == 1, err
        assert "train.seed = 7 before, 1706 now" in err or "checkpoints/12: has another tokenizer or other s" in err
    shutil.rmtree(RUN / "averaged")
    shutil.copytree(OTHER / "averaged", RUN / "averaged")
    code, out, err = vaswani(*commands("translate")[0])
    assert code == 2 and out == "" and "not the settings that averaged was trained with (train.seed = 7 before" in err


@pytest.mark.parametrize("kind", [*KINDS[:4], "no event"])
def test_a_damaged_log_is_read_as_far_as_it_goes(work, vaswani, kind):
    """Nothing is computed from it; what training drops from it, it says."""
    path = RUN / "metrics.jsonl"
    if kind == "no event":
        lines = path.read_text().split("\n")
        path.write_text("\n".join([lines[0], "5", lines[1], lines[2][:-9], *lines[3:]]))
    else:
        damage(path, kind, random.Random(3))
    for command in commands("report", "train"):
        code, _, err = vaswani(*command)
        assert code == 0, err
    assert vaswani("status")[0] == 0
    assert ("metrics.jsonl: damaged; 2 of its lines cannot be read and are dropped" in err) == (kind == "no event")


@pytest.mark.parametrize("kind", KINDS[:4])
@pytest.mark.parametrize("name", ["versions.json", "evaluation.json", "attention/maps.json", "translations/test.txt"])
def test_damaged_results_are_named_by_what_shows_them(work, vaswani, name, kind):
    """Where text stays text, as after one bit, nothing is computed from it but the page."""
    damage(RUN / name, kind, random.Random(5))
    code, _, err = vaswani(*commands("report")[0])
    allowed = (0, 2) if kind in ("one bit", "missing") else (2,)
    assert code in allowed and (code == 0 or (name.split("/")[0] in err and err.count("vaswani: ") == 1)), err
    code, out, _ = vaswani("status")
    assert code == 0 and ("damaged" in out or name != "evaluation.json" or kind in ("one bit", "missing"))
    if name == "translations/test.txt":
        code, out, err = vaswani(*commands("compare")[0])
        assert code in allowed and (code == 0 or ("runs/tiny" in err and out == "")), err


def test_nothing_is_ever_unpickled(work, vaswani):
    """Python reports every class that a pickle asks for."""
    asked = []
    sys.addaudithook(lambda event, arguments: asked.append(arguments) if event == "pickle.find_class" else None)
    for command in commands("translate", "average", "report", "train"):
        assert vaswani(*command)[0] == 0
    assert asked == []
    pickle.loads(pickle.dumps(Path("x")))
    assert asked, "the hook hears"


def test_a_size_that_is_not_true_takes_no_memory(work, vaswani):
    """A model of 10 TB in a configuration; the arrays of the checkpoint are compared before any is made."""
    text = (RUN / "config.toml").read_text().split("\n", 1)[1]
    (RUN / "config.toml").write_text(text.replace("d_ff = 32", "d_ff = 100000000000"))
    code, out, err = vaswani("translate", str(RUN))
    assert code == 2 and out == "" and "a checkpoint of another model: " in err
