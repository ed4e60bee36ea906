"""The paper's tables, spot-checked, and the defaults that must equal them."""

from vaswani.paper import tables as paper
from vaswani.schema import Config

ROWS = {variation.row: variation for variation in paper.TABLE_3}
SETTINGS = ("N", "d_model", "d_ff", "h", "d_k", "d_v", "P_drop", "epsilon_ls", "steps", "positions")


def stated(row: str) -> dict:
    return {name: value for name in SETTINGS if (value := getattr(ROWS[row], name)) is not None}


def test_table_3_has_every_row_once_in_the_papers_order():
    rows = " ".join(v.row for v in paper.TABLE_3)
    assert rows == "base A1 A2 A3 A4 B1 B2 C1 C2 C3 C4 C5 C6 C7 D1 D2 D3 D4 E big"


def test_table_3_says_only_what_differs():
    assert stated("A1") == {"h": 1, "d_k": 512, "d_v": 512}
    assert stated("B1") == {"d_k": 16}
    assert stated("C5") == {"d_model": 1024, "d_k": 128, "d_v": 128}
    assert stated("D1") == {"P_drop": 0.0}
    assert stated("E") == {"positions": "learned"}
    assert stated("big") == {"N": 6, "d_model": 1024, "d_ff": 4096, "h": 16, "P_drop": 0.3, "steps": 300_000}
    for row in ("A1", "A2", "A3", "A4"):  # the heads change, the amount of computation does not
        heads = stated(row)
        assert heads["h"] * heads["d_k"] == 512 == heads["h"] * heads["d_v"]


def test_table_3_results():
    assert (ROWS["base"].perplexity, ROWS["base"].bleu, ROWS["base"].params_millions) == (4.92, 25.8, 65)
    assert (ROWS["C4"].perplexity, ROWS["C4"].bleu, ROWS["C4"].params_millions) == (5.75, 24.5, 28)
    assert (ROWS["E"].perplexity, ROWS["E"].bleu, ROWS["E"].params_millions) == (4.92, 25.7, None)
    assert (ROWS["big"].perplexity, ROWS["big"].bleu, ROWS["big"].params_millions) == (4.33, 26.4, 213)
    # Without smoothing the perplexity is better and BLEU worse.
    assert ROWS["D3"].perplexity < ROWS["base"].perplexity and ROWS["D3"].bleu < ROWS["base"].bleu


def test_table_2():
    systems = {s.name: (s.bleu_en_de, s.bleu_en_fr, s.flops_en_de) for s in paper.TABLE_2}
    assert systems["Transformer (base model)"] == (27.3, 38.1, 3.3e18)
    assert systems["Transformer (big)"] == (28.4, 41.8, 2.3e19)


def test_the_configuration_defaults_are_the_papers_base_model():
    config = Config()
    base = ROWS["base"]
    for name in ("N", "d_model", "d_ff", "h", "d_k", "d_v", "P_drop", "positions"):
        assert getattr(config.model, name) == getattr(base, name), name
    recipe = paper.BASE
    for name in ("steps", "tokens_per_update", "warmup", "beta_1", "beta_2", "epsilon", "checkpoint_minutes"):
        assert getattr(config.train, name) == getattr(recipe, name), name
    assert config.train.label_smoothing == recipe.epsilon_ls == base.epsilon_ls
    assert config.train.average_last == recipe.averaged_checkpoints
    for name in ("beam", "alpha", "max_extra_tokens"):
        assert getattr(config.decode, name) == getattr(recipe, name), name
