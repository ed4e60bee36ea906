"""Configurations: the files agree with the schema, and what is wrong is named. (The command line: test_cli.)"""

import errno
import os
from importlib import metadata
from pathlib import Path
from zlib import crc32

import pytest

from vaswani import config
from vaswani.errors import UserError
from vaswani.schema import MAY_DIFFER, Config

CONFIGS = Path(__file__).parent.parent / "configs"


def test_base_lists_every_key_with_its_default_and_a_comment():
    assert config.load(CONFIGS / "base.toml") == Config()
    text = (CONFIGS / "base.toml").read_text()
    for key, value in config.flatten(Config()).items():
        table, _, name = key.rpartition(".")
        section = text.split(f"[{table}]\n")[1].split("\n[")[0].split("\n")
        lines = [i for i, line in enumerate(section) if line.startswith(f"{name} = ")]
        assert len(lines) == 1 and section[lines[0] - 1].startswith("# "), f"{key} = {value}"


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.toml")), ids=lambda path: path.name)
def test_every_file_loads_and_comes_back_from_what_a_run_stores(path, tmp_path):
    loaded = config.load(path)
    (tmp_path / "config.toml").write_text(config.to_toml(loaded))
    assert config.load_stored(tmp_path / "config.toml") == config.load(tmp_path / "config.toml") == loaded


def test_what_a_run_stores_names_the_version_and_is_checked(tmp_path):
    path = tmp_path / "config.toml"
    written = config.to_toml(config.override(Config(), {"model.d_ff": "48", "decode.beam": "2"}))
    assert written.startswith(f"# vaswani {metadata.version('vaswani')} wrote this file, crc32 ")
    cut = written[: written.index("[decode]")]
    for text in (cut, written.replace("d_ff = 48\n", ""), written.replace("alpha = 0.6", "alpha = 0.7")):
        path.write_text(text)
        with pytest.raises(UserError, match=r"config\.toml: is damaged, or was edited; after an edit delete its first"):
            config.load_stored(path)
    path.write_text("")
    with pytest.raises(UserError, match=r"config\.toml: is empty"):
        config.load_stored(path)
    edited = written.split("\n", 1)[1].replace("alpha = 0.6", "alpha = 0.7")  # as the message advises
    path.write_text(edited)
    assert (config.load_stored(path).decode.alpha, config.load_stored(path).model.d_ff) == (0.7, 48)
    path.write_text(edited + "\nbeams = 3\n")
    with pytest.raises(UserError, match=r"unknown key 'decode\.beams' \(did you mean decode\.beam\?\)"):
        config.load_stored(path)


def test_a_run_of_a_version_with_fewer_settings_takes_the_defaults(tmp_path):
    path = tmp_path / "config.toml"
    expected = config.override(Config(), {"model.d_ff": "48", "decode.beam": "2"})
    lines = [line for line in config.to_toml(expected).split("\n") if not line.startswith(("#", "alpha", "P_drop"))]
    text = "\n".join(lines)
    earlier = f"# vaswani 0.0.9 wrote this file, crc32 {crc32(text.encode()):08x}. Delete this line after an edit.\n"
    for first_line in ("", earlier):  # the first version wrote no such line
        path.write_text(first_line + text)
        assert config.load_stored(path) == expected


def test_paths_in_a_file_are_relative_to_it_and_on_the_command_line_to_the_working_directory(tmp_path, monkeypatch):
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs/a.toml").write_text('[data]\ndir = "text"\ntokenizer = "../x.model"')
    (tmp_path / "b.toml").write_text('extends = "configs/a.toml"\n[data]\ntokenizer = "y.model"')
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    for path, dir, tokenizer in (
        ("../configs/a.toml", "configs/text", "x.model"),
        ("../b.toml", "configs/text", "y.model"),
    ):
        data = config.load(path).data
        assert (data.dir, data.tokenizer) == (str(tmp_path / dir), str(tmp_path / tokenizer))
    monkeypatch.setenv("HOME", "/home/me")
    data = config.override(config.load("../b.toml"), {"data.dir": "~/text", "data.tokenizer": "z.model"}).data
    assert (data.dir, data.tokenizer) == ("/home/me/text", str(tmp_path / "elsewhere/z.model"))
    stored = tmp_path / "elsewhere/config.toml"
    stored.write_text(config.to_toml(Config(data=data)))
    assert config.load_stored("config.toml").data == data
    stored.write_text('[data]\ndir = "text"')  # as the first version wrote it, which was relative to where it ran
    monkeypatch.chdir(tmp_path)
    assert config.load_stored("elsewhere/config.toml").data.dir == str(tmp_path / "text")


def test_what_may_differ():
    changed = config.override(Config(), {"train.steps": "9", "train.warmup": "5", "train.log_every": "1"})
    assert config.refused_differences(Config(), changed, "run") == "train.warmup = 4000 before, 5 now"
    refused = config.refused_differences(Config(), changed, "sweep")
    assert refused == "train.steps = 100000 before, 9 now; train.warmup = 4000 before, 5 now"
    assert all(free <= config.flatten(Config()).keys() for free in MAY_DIFFER.values())


def test_big_is_the_papers():
    model, train = config.load(CONFIGS / "big.toml").model, config.load(CONFIGS / "big.toml").train
    assert (model.d_model, model.d_ff, model.h, model.d_k, model.d_v, model.N) == (1024, 4096, 16, 64, 64, 6)
    assert (model.P_drop, train.steps, train.average_last) == (0.3, 300_000, 20)


def test_extends_says_only_what_differs(tmp_path):
    (tmp_path / "a.toml").write_text('[data]\nsplits = { x = "y" }\n[model]\nh = 4\nN = 2\n')
    (tmp_path / "b.toml").write_text('extends = "a.toml"\n[model]\nN = 3\n[data]\nsplits = {}\n')
    b = config.load(tmp_path / "b.toml")
    assert (b.model.h, b.model.N, b.model.d_model, b.data.splits) == (4, 3, 512, {})


def test_overriding_by_text():
    settings = {"model.d_model": "256", "data.tests": "a,b", "data.splits": "a=x,b=y", "data.deduplicate": "false"}
    changed = config.override(Config(), settings)
    assert config.differences(Config(), changed) == {
        "model.d_model": (512, 256),
        "data.tests": (("newstest2014",), ("a", "b")),
        "data.splits": (Config().data.splits, {"a": "x", "b": "y"}),
        "data.deduplicate": (True, False),
    }


def test_numbers_as_text():
    settings = {"train.lr_scale": "1e-1", "train.steps": "1_000", "decode.alpha": "1", "data.deduplicate": "True"}
    changed = config.flatten(config.override(Config(), settings))
    assert [changed[key] for key in settings] == [0.1, 1000, 1.0, True]


@pytest.mark.parametrize("text", ["valid", "a=x,valid", "=x", "a="])
def test_a_table_that_is_none(text):
    with pytest.raises(UserError, match=r"command line: data.splits = .* is not KEY=VALUE"):
        config.override(Config(), {"data.splits": text})


@pytest.mark.parametrize(
    ("toml", "says"),
    [
        ("[modle]\nN = 2", "unknown key 'modle' (did you mean model?)"),
        ("[train]\nd_model = 2", "unknown key 'train.d_model' (did you mean model.d_model?)"),
        ("[data.toy]\ndificulty = 2", "did you mean data.toy.difficulty?"),
        ('[model]\npositions = "rotary"', "'sinusoidal' or 'learned'"),
        ("[train]\nlr_scale = 0", "train.lr_scale = 0"),
        ('[model]\nN = "two"', "model.N = 'two'"),
        ("model = 3", "model = 3"),
        ('[model]\npositions = "learned"\nmax_positions = 100', "max_positions = 100"),
        ("[train]\ncheckpoint_minutes = 0", "nothing would be saved"),
        ("[train]\nmax_tokens_per_device = 100", "less than one row"),
        ('[data]\ntarget = "en"', "both 'en'"),
        ("[train]\nsteps = true", "train.steps = true: should be a number"),
        ('[train]\nwarmup = "20"', "train.warmup = '20': should be a number"),
        ("[data]\nlimit = -1", "data.limit = -1: input should be greater than or equal to 0"),
        ("[data]\ndeduplicate = 1", "data.deduplicate = 1: should be true or false"),
        ('[data]\ndir = "a\\u0000b"', "cannot be a path"),
        ("[train]\nlr_scale = inf", "train.lr_scale = inf"),
        ("[train]\nepsilon = nan", "train.epsilon = nan"),
        ("[decode]\nalpha = inf", "decode.alpha = inf"),
        ("[data]\nmax_length_ratio = nan", "data.max_length_ratio = nan"),
        ('[data.splits]\n"a\\nb" = 3', "data.splits.a b = 3"),
        ("extends = 3", "extends = 3: should be the path"),
        ('extends = ["a.toml"]', "extends = ['a.toml']: should be the path"),
        ('extends = "a\\u0000b"', "should be the path"),
        ("x = " + "[" * 5000, "not valid TOML: nests too deeply"),
    ],
)
def test_mistakes_are_named(tmp_path, toml, says):
    (tmp_path / "x.toml").write_text(toml)
    with pytest.raises(UserError) as error:
        config.load(tmp_path / "x.toml")
    assert says in str(error.value) and "x.toml" in str(error.value) and "\n" not in str(error.value)


def test_files_that_cannot_be_read_are_named(tmp_path, monkeypatch):
    for i in range(30):
        (tmp_path / f"{i}.toml").write_text(f'extends = "{i + 1}.toml"')
    (tmp_path / "x.toml").write_text('extends = "."')
    (tmp_path / "a").write_bytes(b"\xef\xbb\xbf[model]\r\nN = 2\r\n")
    assert config.load(tmp_path / "a").model.N == 2  # with the mark that Windows' editors begin with
    cases = {"0.toml": "0.toml: extends a file", "x.toml": "is a directory", "a/b": "a/b: cannot be read: Not a dir"}
    for name, says in {**cases, "y" * 300: "File name too long"}.items():
        with pytest.raises(UserError, match=says):
            config.load(tmp_path / name)

    def refused(*_):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(Path, "read_bytes", refused)
    with pytest.raises(UserError, match="a: cannot be read: Permission denied"):
        config.load(tmp_path / "a")
