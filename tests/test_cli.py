"""Wrong input gets one clear line and exit code 2, and changes nothing; `--help` teaches."""

import gzip
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from vaswani import cli, config
from vaswani.runs import checkpoints


@pytest.fixture
def refused(capsys, monkeypatch, tmp_path):
    """Runs a command here that must be refused, and gives its one line."""

    def run(*arguments: str) -> str:
        capsys.readouterr()
        code = cli.run(arguments)
        out, err = capsys.readouterr()
        lines = [line for line in err.split("\n") if line.startswith("vaswani: ")]
        assert code == 2 and len(lines) == 1 and err.endswith(lines[0] + "\n") and not out, (code, out, err)
        return lines[0]

    monkeypatch.chdir(tmp_path)
    return run


def write_corpus(directory, **files: bytes):
    """tiny files of names like train_en; each of three good lines where not given."""
    directory.mkdir(exist_ok=True)
    for name in ("train_en", "train_de", "valid_en", "valid_de", "test_en", "test_de"):
        (directory / name.replace("_", ".")).write_bytes(files.get(name, b"one two\nthree four\nfive six\n"))


FILES = """
[data]
name = "files"
dir = "text"
splits = {}
valid = "valid"
tests = ["test"]
max_tokens = 64
vocab_size = 300
[train]
row_length = 64
"""


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({"train_de": b"one\ntwo\n"}, ["train.en has 3 lines", "train.de has 2"]),
        ({"train_en": b"one\nt\xffo\nthree\n"}, ["train.en, line 2", "not UTF-8"]),
        ({"train_en": b"", "train_de": b""}, ["train in ", "/text", "holds no text"]),
        ({"valid_en": b"", "valid_de": b""}, ["valid in ", "/text", "holds no text"]),
        ({"train_en": b"\n \n\t\n"}, ["no pair is left after cleaning", "blank"]),
    ],
)
def test_broken_text(refused, tmp_path, files, says):
    write_corpus(tmp_path / "text", **files)
    (tmp_path / "files.toml").write_text(FILES)
    line = refused("train", "files.toml")
    assert all(part in line for part in says), line
    assert not (tmp_path / "runs").exists() and not (tmp_path / "prepared/files").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["train", "tiny.toml", "--model.d-modle", "8"], ["--model.d-modle", "did you mean --model.d-model?"]),
        (["train", "tiny.toml", "--train.stepz", "5"], ["did you mean --train.steps?", "`vaswani train --help`"]),
        (["translate", "runs/tiny", "--beam=2"], ["did you mean --decode.beam?", "`vaswani translate --help`"]),
        (["train", "tiny.toml", "--model.d-model", "big"], ["model.d_model = 'big'", "integer"]),
        (["train", "tiny.toml", "--model.d-model", "15"], ["model.d_model", "multiple of 2"]),
        (["train", "tiny.toml", "--model.h", "0"], ["model.h", "greater than 0"]),
        (["train", "tiny.toml", "--model.P-drop", "1.5"], ["model.P_drop", "less than 1"]),
        (["train", "tiny.toml", "--train.row-length", "32"], ["train.row_length = 32", "data.max_tokens = 64"]),
        (["train", "tiny.toml", "--train.average-last", "9"], ["train.keep_last = 5", "train.average_last = 9"]),
        (["train", "nowhere.toml"], ["nowhere.toml: no such configuration file"]),
        (["train", "tinny"], ["tinny: no such configuration file (did you mean tiny.toml?)"]),
        (["train", "unknown.toml"], ["unknown.toml", "model.layers"]),
        (["train", "looped.toml"], ["looped.toml", "extends itself"]),
        (["train", "broken.toml"], ["broken.toml", "not valid TOML"]),
        (["translate", "runs/nowhere"], ["no run directory at runs/nowhere", "vaswani train"]),
        (["average", "runs/tiney"], ["runs/tiney", "did you mean runs/tiny?"]),
        (["translate", "runs/tiny", "--checkpoint", "7"], ["no checkpoint '7'", "3, 6, 9, 12"]),
        (["translate", "runs/tiny", "--n-best", "3"], ["3", "beam"]),
        (["average", "runs/tiny", "--last", "9"], ["--last 9", "3, 6, 9, 12"]),
        (["train", "tiny.toml", "--train.warmup", "20"], ["train.warmup = 10 before, 20 now"]),
        (["train", "tiny.toml", "--run", "runs/[x]"], ["'['", "--run"]),
        (["train", "tiny.toml", "--data.toy.seed", "3"], ["data.toy.seed", "--data.name"]),
        (["evaluate", "runs/tiny", "--ref", "x"], ["--ref", "--src"]),
        (["evaluate", "runs/tiny", "--ref", "x", "--src", "y", "--hyp", "z"], ["--src", "--hyp", "one of them"]),
        (["ablate", "tiny.toml", "--rows", ""], ["--rows '': names no row", "A,C1,big"]),
        (["translate", "runs/tiny", "--decode.beam", "1000000000"], ["decode.beam", "less than or equal"]),
        (["translate", "runs/tiny", "--decode.batch-tokens", "1000000000000"], ["decode.batch_tokens", "less than"]),
        (["attention", "runs/tiny", "a \udcff b"], ["'a \\udcff b' is not UTF-8"]),
        (["train", "tiny.toml", "--", "--"], ["unrecognized arguments"]),
        (["dance"], ["no command 'dance'; see `vaswani --help`"]),
        (["trian"], ["no command 'trian' (did you mean train?)"]),
        (["train"], ["CONFIG"]),
        ([], ["COMMAND"]),
    ],
)
def test_wrong_arguments(refused, workplace, monkeypatch, arguments, says):
    def files():
        return {path: (path.stat().st_size, path.stat().st_mtime_ns) for path in workplace.rglob("*") if path.is_file()}

    monkeypatch.chdir(workplace)
    before = files()
    line = refused(*arguments)
    assert all(part in line for part in says), line
    assert files() == before


@pytest.fixture(scope="module")
def workplace(_trained, tmp_path_factory):
    """One for all of these tests, which change nothing."""
    path = shutil.copytree(_trained, tmp_path_factory.mktemp("wrong") / "work")
    (path / "unknown.toml").write_text("[model]\nlayers = 3")
    (path / "looped.toml").write_text('extends = "looped.toml"')
    (path / "broken.toml").write_text("[model")
    return path


def test_a_run_that_holds_only_averaged_parameters_is_not_trained_on(refused, trained, monkeypatch):
    monkeypatch.chdir(trained.path)
    assert cli.run(["average", "runs/tiny", "--last", "2"]) == 0
    assert checkpoints.read_meta(trained.path / "runs/tiny/averaged")["steps"] == [9, 12]
    shutil.rmtree("runs/tiny/checkpoints")
    line = refused("train", "tiny.toml")
    assert "only averaged parameters" in line and "--init runs/tiny" in line


def test_another_tokenizer_and_another_model(refused, trained, monkeypatch):
    """A tokenizer of the same size is not the same tokenizer."""
    monkeypatch.chdir(trained.path)
    other = ["--data.name", "other", "--data.toy.seed", "7"]
    assert cli.run(["prepare", "tiny.toml", *other]) == 0
    shutil.copytree("runs/tiny", "runs/mixed")
    shutil.copy("prepared/other/tokenizer.model", "runs/mixed/tokenizer.model")
    assert "not the tokenizer" in refused("translate", "runs/mixed")
    assert "not the tokenizer" in refused("train", "tiny.toml", "--run", "runs/mixed")
    shutil.copytree("runs/tiny", "runs/wider")
    text = (trained.path / "runs/wider/config.toml").read_text().split("\n", 1)[1]  # without the checksum
    (trained.path / "runs/wider/config.toml").write_text(text.replace("d_ff = 32", "d_ff = 48"))
    assert "a checkpoint of another model" in refused("translate", "runs/wider")


def test_fine_tuning_on_another_corpus_with_the_runs_own_tokenizer(refused, trained, monkeypatch):
    """With another tokenizer it is refused, and what the refusal advises works, in the same run directory."""
    monkeypatch.chdir(trained.path)
    command = ["train", "tiny.toml", "--run", "runs/tuned", "--init", "runs/tiny", "--train.steps", "1"]
    command += ["--data.toy.seed", "7"]
    advice = "--data.tokenizer runs/tiny/tokenizer.model --data.name NEW_NAME"
    assert advice in refused(*command, "--data.name", "other")
    assert cli.run([*command, *advice.split()]) == 0
    tokenizers = [(trained.path / f"runs/{run}/tokenizer.model").read_bytes() for run in ("tiny", "tuned")]
    assert tokenizers[0] == tokenizers[1]


def test_two_processes_on_one_run(trained):
    first = trained.start("train", "tiny.toml", "--train.steps", "1000000")
    try:
        for line in first.stderr:
            if line.startswith("step"):
                break
        line = trained.refused("train", "tiny.toml", "--train.steps", "1000000")
        assert f"in use by process {first.pid}" in line
        status = json.loads(trained.vaswani("status", "--json").stdout)
        assert str(first.pid) in status[0]["in_use_by"]
    finally:
        first.kill()
        first.wait()


def test_translating_keeps_lines_as_they_are(trained):
    """N lines in, N lines out, blanks kept; only "\\n" ends a line; the locale does not matter."""
    source = "The dog sleeps.\n\n \n\t\nA\u2028B\x85C\x0bD\x0cE\x1cF\r\nlast, without an end"
    environment = trained.environment | {"LC_ALL": "C", "PYTHONIOENCODING": "ascii"}
    done = trained.vaswani("translate", "runs/tiny", "--decode.beam", "1", input=source, env=environment)
    assert done.stdout.count("\n") == 6 and done.stdout.split("\n")[1:4] == ["", "", ""]
    scored = trained.vaswani("translate", "runs/tiny", "--n-best", "2", "--scores", input="The dog sleeps.\nNo.\n")
    rows = [line.split("\t") for line in scored.stdout.splitlines()]
    assert [row[0] for row in rows] == ["1", "1", "2", "2"] and float(rows[0][1]) >= float(rows[1][1])
    bad = trained.vaswani("translate", "runs/tiny", input=b"fine\nt\xffo\n", encoding=None, code=2)
    assert b"standard input, line 2: not UTF-8" in bad.stderr


@pytest.mark.parametrize(
    ("command", "code", "says"),
    [
        ("status >/dev/full", 1, "standard output: No space left on device"),
        ("status --help >/dev/full", 1, "standard output: No space left on device"),
        ("translate runs/tiny </dev/zero >&-", 2, "standard output is closed"),
        ("translate runs/tiny <&-", 2, "standard input is closed"),
        ("status <&-", 0, ""),
        ("status 2>&-", 0, ""),
        ("average runs/tiny --last 9 <&- >&- 2>&-", 2, ""),
    ],
)
def test_full_and_closed_streams(trained, command, code, says):
    buffered = {key: value for key, value in trained.environment.items() if key != "PYTHONUNBUFFERED"}
    shell = ["sh", "-c", f'"$0" -m vaswani {command}', sys.executable]
    done = subprocess.run(shell, cwd=trained.path, env=buffered, capture_output=True, text=True)
    assert done.returncode == code and says in done.stderr and done.stderr.count("\n") == bool(says), done.stderr


def test_the_whole_way_and_scores_of_given_translations(trained, monkeypatch, capsys):
    monkeypatch.chdir(trained.path)
    assert cli.run(["reproduce", "tiny.toml", "--json"]) == 0
    sets = json.loads(capsys.readouterr().out)["sets"]
    assert sets["test"]["lines"] == 12 and sets["test"]["checkpoint"] == "averaged"
    assert "nrefs:1" in sets["test"]["scores"][0]["signature"]
    assert (trained.path / "runs/tiny/report.html").stat().st_size > 10_000
    reference = trained.path / "runs/tiny/translations/test.reference.txt"
    raw = [json.loads(line)[1] for line in (trained.path / "prepared/tiny/test.jsonl").read_text().splitlines()]
    assert reference.read_text().splitlines() == raw
    evaluation = (trained.path / "runs/tiny/evaluation.json").read_bytes()
    source = trained.path / "runs/tiny/translations/test.source.txt"
    assert cli.run(["evaluate", "runs/tiny", "--ref", str(reference), "--src", str(source), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["sets"]["test.reference"]["scores"] == sets["test"]["scores"]
    assert (trained.path / "runs/tiny/evaluation.json").read_bytes() == evaluation
    with gzip.open("ref.de.gz", "wt") as file:
        file.write(reference.read_text())
    assert cli.run(["evaluate", "runs/tiny", "--ref", "ref.de.gz", "--hyp", str(reference), "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)["sets"]["ref"]["scores"]
    assert scores[0]["value"] == pytest.approx(100)
    # The first reference is right, the second is not: both count.
    (trained.path / "other.de").write_text("eins\n" * 12)
    references = ["--ref", str(reference), "--ref", "other.de"]
    assert cli.run(["evaluate", "runs/tiny", *references, "--hyp", str(reference), "--json"]) == 0
    for score in json.loads(capsys.readouterr().out)["sets"]["test.reference"]["scores"]:
        assert score["value"] == pytest.approx(100) and score["signature"].startswith("nrefs:2|")
    (trained.path / "short.de").write_text("eins\nzwei\n")
    for option in ("--hyp", "--src"):
        assert cli.run(["evaluate", "runs/tiny", "--ref", "short.de", option, str(reference)]) == 2
        assert f"{reference} has 12 lines, short.de 2; line i" in capsys.readouterr().err
    (trained.path / "empty.de").touch()
    assert cli.run(["evaluate", "runs/tiny", "--ref", "empty.de", "--hyp", str(reference)]) == 2
    assert capsys.readouterr().err.startswith("vaswani: empty.de: is empty")


def test_what_is_printed_is_utf_8_whatever_the_system_has(prepared):
    prepared.environment = prepared.environment | {"PYTHONIOENCODING": "latin-1"}
    assert "…" in prepared.vaswani("ablate", "--help").stdout  # which Latin-1 lacks


@pytest.mark.parametrize("error", [RuntimeError("RESOURCE_EXHAUSTED: Out of memory."), MemoryError()])
def test_memory_that_runs_out_is_told_in_one_line(monkeypatch, capsys, error):
    def average(arguments):
        raise error

    monkeypatch.setattr(cli, "parse", lambda argv: SimpleNamespace(command=average))
    assert cli.run([]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "out of memory" in line and "--train.max-tokens-per-device" in line and "--decode.batch-tokens" in line


def test_help_lists_the_commands_in_the_order_of_the_way_with_an_example_each(capsys):
    assert cli.run(["--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    names = "prepare train average translate evaluate report attention status".split()
    names += "config reproduce compare ablate export import paper".split()
    assert [line.split()[0] for line in lines if line.startswith("  ") and line[2] != " "] == names
    assert [line.split()[1] for line in lines if line.startswith("             vaswani ")] == names


@pytest.mark.parametrize("command", [*cli.STEPS, *cli.MORE, *cli.INTERNAL], ids=lambda command: command.name)
def test_every_example_of_the_help_is_a_command_line_that_is_understood(command, monkeypatch, capsys):
    monkeypatch.chdir(Path(__file__).parent.parent)
    for example in command.examples:
        name, *words = shlex.split(re.split(" [<>] ", example)[0])
        assert name == command.name and command.parser().parse_args(words).command is command.run
    with pytest.raises(SystemExit) as leaving:
        cli.run([command.name, "--help"])
    text = capsys.readouterr().out.split("\n\n")
    assert leaving.value.code == 0 and text[1] == command.what and text[2].startswith("Examples:\n  vaswani ")


@pytest.mark.parametrize("error", [ValueError("a defect"), RuntimeError("another"), NotImplementedError()])
def test_a_defect_is_not_taken_for_wrong_input(monkeypatch, error):
    def average(arguments):
        raise error

    monkeypatch.setattr(cli, "parse", lambda argv: SimpleNamespace(command=average))
    with pytest.raises(type(error)):
        cli.run([])


def test_help_shows_every_setting_with_its_meaning(capsys):
    with pytest.raises(SystemExit) as leaving:
        cli.run(["train", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert leaving.value.code == 0
    for key, description in config.descriptions().items():
        assert f"--{key.replace('_', '-')} VALUE" in text and " ".join(description.split()[:4]) in text


@pytest.mark.parametrize("content", [b"{", b"{}", b"[]", b"\xff", b"", b'{"sets": null}'])
def test_a_damaged_file_of_ours_is_named(refused, trained, monkeypatch, content):
    monkeypatch.chdir(trained.path)
    trained.path.joinpath("runs/tiny/evaluation.json").write_bytes(content)
    assert "runs/tiny/evaluation.json" in refused("report", "runs/tiny")
    trained.path.joinpath("prepared/tiny/manifest.json").write_bytes(content)
    assert "prepared/tiny/manifest.json" in refused("evaluate", "runs/tiny")
    assert "prepared/tiny/manifest.json" in refused("prepare", "tiny.toml")


def test_a_damaged_log_keeps_its_whole_events(trained, monkeypatch, capsys):
    monkeypatch.chdir(trained.path)
    path = trained.path / "runs/tiny/metrics.jsonl"
    whole = path.read_bytes()
    path.write_bytes(b'\xff\n5\n{}\n{"kind": "valid", "step": 3}\n' + whole + b'{"kind": "tr')
    assert cli.run(["status", "--json"]) == 0 and json.loads(capsys.readouterr().out)[0]["step"] == 12
    assert cli.run(["train", "tiny.toml", "--train.steps", "13"]) == 0
    assert path.read_bytes().startswith(whole)
