"""Formulas against counts on the model's code: of its parts, of the whole model, and XLA's."""

import subprocess
import sys

from tests.sizes import count_parameters
from vaswani.paper import costs, counts
from vaswani.paper.tables import TABLE_3
from vaswani.schema import ModelConfig

ROWS = {variation.row: variation for variation in TABLE_3}


def test_parameters_by_parts_are_those_of_the_whole_model():
    for config in (costs.variation_config(ROWS["C1"]), ModelConfig(N=1, d_k=16, h=2, positions="learned")):
        whole = count_parameters(config, 1000)
        assert whole == counts.parameters_without_embedding(config) + 1000 * config.d_model
        assert whole == costs.parameters(config, 1000)


def test_a_row_of_table_3_is_the_base_model_but_for_what_it_states():
    assert costs.variation_config(ROWS["base"]) == costs.variation_config(ROWS["D3"]) == ModelConfig()
    assert costs.variation_config(ROWS["C5"]) == ModelConfig(d_model=1024, d_k=128, d_v=128)
    assert costs.variation_config(ROWS["big"]) == ModelConfig(d_model=1024, d_ff=4096, h=16, P_drop=0.3)


def test_flops_formula_follows_xlas_count():
    config = ModelConfig(N=1, d_model=64, d_ff=128, h=2, d_k=16, d_v=48)
    for n in (16, 128):
        assert 1 <= counts.forward_flops(config, 500, n) / costs.forward_flops_formula(config, 500, n) < 1.12


def test_path_lengths():
    assert costs.maximum_path_length(27, 3, 10) == {
        "Self-Attention": 1, "Recurrent": 27, "Convolutional": 3, "Self-Attention (restricted)": 3,
    }  # fmt: skip
    assert costs.maximum_path_length(28, 3, 28)["Convolutional"] == 4


def test_the_vocabularies_that_a_rounded_count_allows():
    low, high = costs.fitting_vocabulary(65, 44_101_632, 512)
    millions = [(44_101_632 + 512 * V) / 1e6 for V in (low - 1, low, high, high + 1)]
    assert [round(m) for m in millions] == [64, 65, 65, 66]


def test_memory():
    assert counts.score_matrix_bytes(8192, 8, 2) == 2**30
    assert counts.cache_bytes_per_token(32, 8, 128) == 128 * 1024


def test_formulas_need_no_jax():
    code = "import sys, vaswani.paper.costs; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
