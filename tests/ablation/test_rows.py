"""The rule gives the paper's rows on the paper's base, and sensible ones elsewhere."""

from dataclasses import replace
from pathlib import Path

import pytest

from vaswani import config as config_module
from vaswani.ablation.rows import GROUPS, PAPER_ROWS, rows
from vaswani.errors import UserError
from vaswani.schema import Config, ModelConfig, TrainConfig

CONFIGS = Path(__file__).parents[2] / "configs"
ALL = [*GROUPS]


def around_paper_base() -> dict:
    return {row.name: row for row in rows(config_module.load(CONFIGS / "base.toml"), ALL)}


def model_of(row) -> tuple:
    return tuple(row.settings[key] for key in ("N", "d_model", "d_ff", "h", "d_k", "d_v"))


def test_the_files_are_the_rule_on_base():
    """Each states only what the row changes, and comes to the same configuration."""
    made = around_paper_base()
    assert list(made) == list(PAPER_ROWS)
    for file in sorted((CONFIGS / "table3").glob("*.toml")):
        assert config_module.differences(config_module.load(file), made[file.stem].config) == {}, file.name
    assert {file.stem for file in (CONFIGS / "table3").glob("*.toml")} == set(PAPER_ROWS) - {"base", "big"}
    assert not any(row.note or row.same_as for row in made.values())
    big, ours = made["big"], config_module.load(CONFIGS / "big.toml")
    memory_and_averaging = {"train.max_tokens_per_device", "train.keep_last", "train.average_last"}
    assert set(config_module.differences(ours, big.config)) == memory_and_averaging


def test_every_cell_of_the_paper():
    made = around_paper_base()
    for name, row in made.items():
        stated = {k: v for k in row.settings if (v := getattr(PAPER_ROWS[name], k)) is not None}
        assert row.settings == made["base"].settings | stated, name


def test_around_a_small_model():
    """N 2, d_model 128, d_ff 512, h 4, d_k = d_v = 32: h / 8 does not exist, N / 3 neither."""
    model = ModelConfig(N=2, d_model=128, d_ff=512, h=4, d_k=32, d_v=32)
    made = {row.name: row for row in rows(replace(Config(), model=model, train=TrainConfig(steps=1500)), ALL)}
    expected = {
        "base": (2, 128, 512, 4, 32, 32),
        "A1": (2, 128, 512, 1, 128, 128), "A2": (2, 128, 512, 2, 64, 64),
        "A3": (2, 128, 512, 8, 16, 16), "A4": (2, 128, 512, 16, 8, 8),
        "B1": (2, 128, 512, 4, 8, 32), "B2": (2, 128, 512, 4, 16, 32),
        "C1": (1, 128, 512, 4, 32, 32), "C2": (1, 128, 512, 4, 32, 32), "C3": (3, 128, 512, 4, 32, 32),
        "C4": (2, 64, 512, 4, 16, 16), "C5": (2, 256, 512, 4, 64, 64),
        "C6": (2, 128, 256, 4, 32, 32), "C7": (2, 128, 1024, 4, 32, 32),
        "big": (2, 256, 1024, 8, 32, 32),
    }  # fmt: skip
    assert {name: model_of(made[name]) for name in expected} == expected
    nearest = "the nearest size that exists is taken"
    assert made["A1"].note == f"h would be 0.5; {nearest}" and made["C3"].note == f"N would be 2.667; {nearest}"
    assert made["C2"].same_as == "C1"
    assert [made[d].config.model.P_drop for d in ("D1", "D2")] == [0.0, 0.2]
    assert [made[d].config.train.label_smoothing for d in ("D3", "D4")] == [0.0, 0.2]
    assert made["E"].config.model.positions == "learned"
    assert made["big"].config.train.steps == 4500 and made["big"].config.model.P_drop == 0.3


def test_a_row_equal_to_the_base_is_the_base_whatever_was_asked_for():
    one_layer = replace(Config(), model=ModelConfig(N=1, P_drop=0.2))
    for names in (["C", "D"], ["C2", "D2"]):
        made = {row.name: row for row in rows(one_layer, names)}
        assert made["C2"].same_as == "base" == made["D2"].same_as


def test_rows_are_chosen_by_group_by_name_and_from_files(tmp_path):
    own = tmp_path / "post_hoc.toml"
    own.write_text(f'extends = "{CONFIGS / "table3" / "A1.toml"}"\n[model]\nd_ff = 96\n[train]\nwarmup = 10\n')
    made = rows(Config(), ["E", "A", "C1", str(own)])
    assert [row.name for row in made] == "base A1 A2 A3 A4 C1 E post_hoc".split()
    assert config_module.differences(Config(), made[-1].config) == {
        "model.d_ff": (2048, 96),
        "train.warmup": (4000, 10),
    }
    assert made[-1].note == "train.warmup = 10"  # what no column shows
    with pytest.raises(UserError, match=r"--rows F: no such row; choose groups \(A, B, C, D, E, big\), single"):
        rows(Config(), ["F"])
    (tmp_path / "other_data.toml").write_text("[data]\nvocab_size = 500\n")
    with pytest.raises(UserError, match=r"has no table \[data\]"):
        rows(Config(), [str(tmp_path / "other_data.toml")])


def test_a_row_that_cannot_be_is_refused_only_where_it_is_asked_for():
    short = replace(Config(), model=ModelConfig(max_positions=100))
    assert rows(short, ["A1"])
    with pytest.raises(UserError, match=r"row E: model\.max_positions = 100"):
        rows(short, ["E"])


def test_a_budget_of_minutes_grows_with_the_steps():
    bounded = replace(Config(), train=replace(Config().train, max_minutes=15.0))
    assert {r.name: r.config.train.max_minutes for r in rows(bounded, ["A1", "big"])} == {
        "base": 15.0, "A1": 15.0, "big": 45.0,
    }  # fmt: skip
