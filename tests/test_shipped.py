"""The configurations that come with vaswani have names, and can be written out."""

import pytest

from vaswani import config, shipped
from vaswani.errors import UserError


@pytest.mark.parametrize("name", shipped.names())
def test_written_out_it_is_the_same(name, tmp_path):
    text = shipped.written_out(name)
    (tmp_path / "mine.toml").write_text(text)
    assert config.load(tmp_path / "mine.toml") == config.load(shipped.find(name))
    assert not any(line.startswith("extends") for line in text.split("\n"))
    comments = [line.partition("# ")[2] for line in shipped.find(name).read_text().split("\n")]
    assert [comment for comment in comments if comment not in text] == []


def test_a_file_comes_before_a_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert shipped.find("toy") == shipped.DIRECTORY / "toy.toml"
    assert shipped.find("table3/A1").name == "A1.toml"
    (tmp_path / "toy").mkdir()  # no file
    assert shipped.find("toy") == shipped.DIRECTORY / "toy.toml"
    (tmp_path / "toy").rmdir()
    (tmp_path / "toy").write_text("")
    assert str(shipped.find("toy")) == "toy"
    for wrong, says in {
        "toi": "did you mean toy?",
        "x.toml": "no such configuration file",
        ".": "is a directory",
    }.items():
        with pytest.raises(UserError, match=says.replace("?", r"\?")):
            shipped.find(wrong)
    with pytest.raises(UserError, match=r"no configuration 'multi' .*`vaswani config` lists them"):
        shipped.written_out("multi")


def test_the_commands_take_names(prepared):
    listed = prepared.vaswani("config").stdout.split("\n")
    assert [line.split()[0] for line in listed if line] == shipped.names()
    (prepared.path / "mine.toml").write_text(prepared.vaswani("config", "toy").stdout)
    small = ["--data.name", "small", "--data.toy.train-pairs", "300", "--data.vocab-size", "500"]
    prepared.vaswani("prepare", "toy", *small)
    again = prepared.vaswani("prepare", "mine.toml", *small)
    assert "prepared already" in again.stderr
    assert "(did you mean toy?)" in prepared.refused("train", "tpy")
