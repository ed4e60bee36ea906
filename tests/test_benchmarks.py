"""What the benchmarks compute by themselves, and the wrong input that they refuse."""

import sys

import benchmark_common
import benchmark_decoding
import benchmark_encoding
import benchmark_training
import numpy as np
import pytest
from benchmark_peers import by_length, until_end

from vaswani.data.tokenizer import END, PAD
from vaswani.errors import UserError
from vaswani.schema import ModelConfig


def test_the_products_of_an_update_by_hand():
    """A token has 3·64 products of numbers in attention's matrices, 128 in the feed-forward networks', 40 in logits."""
    model = ModelConfig(N=1, d_model=4, d_ff=8, h=2, d_k=2, d_v=2)
    scores = 3 * 2 * 2 * (3 * 2 * 3 + 3 * 3 * 2)  # three attentions, two rows, two heads
    expected = 3 * 2 * (6 * (3 * 64 + 128 + 40) + scores)
    assert benchmark_common.flops(benchmark_common.products(model, 10, rows=2, row_length=3, chunk=6)) == expected
    on_one_of_two_devices = benchmark_common.products(model, 10, rows=1, row_length=3, chunk=1024)
    assert 2 * benchmark_common.flops(on_one_of_two_devices) == expected


def test_peers_answer_in_the_order_they_are_asked():
    sources = [[5] * n for n in (3, 1, 4, 1, 5)]
    batches = []

    def search(members):
        batches.append(members)
        return [[len(sources[i]), i] for i in members]

    assert by_length(sources, 2, search) == [[3, 0], [1, 1], [4, 2], [1, 3], [5, 4]]
    assert batches == [[4, 2], [0, 1], [3]]
    assert until_end([7, 8, END, 9]) == [7, 8] and until_end([7, PAD]) == [7]


def test_random_pairs_fill_their_rows():
    pairs = benchmark_common.random_pairs(5, 8, 20)
    assert len(pairs) == 5 and set(pairs.source_lengths) == set(pairs.target_lengths) == {8}
    assert pairs.target(4)[-1] == END and np.all(pairs.target(4)[:-1] > END)
    with pytest.raises(UserError, match="a vocabulary of 4: the least is"):
        benchmark_common.random_pairs(5, 8, 4)


@pytest.mark.parametrize(
    ("script", "arguments", "says"),
    [
        (benchmark_training, ["--contestants", "nobody"], "--contestants: invalid choice: 'nobody'"),
        (benchmark_training, ["--sweep", "row_length", "vocabulary", "--sweep-points", "64"], "of one --sweep"),
        (benchmark_training, ["--seconds", "0"], "0: must be above 0"),
        (benchmark_encoding, ["--pairs", "-1"], "'-1' should be a whole number"),
        (benchmark_decoding, ["--threads", "100000"], "--threads 100000: this process may use"),
        (benchmark_decoding, ["--lines", "-5"], "'-5' should be a whole number"),
        (benchmark_decoding, ["--decode.beem", "2"], "did you mean --decode.beam"),
    ],
)
def test_wrong_arguments(trained, monkeypatch, script, arguments, says):
    monkeypatch.chdir(trained.path)
    where = {benchmark_training: "tiny.toml", benchmark_encoding: "prepared/tiny", benchmark_decoding: "runs/tiny"}
    monkeypatch.setattr(sys, "argv", [script.__file__, where[script], *arguments])
    with pytest.raises(UserError, match=says):
        script.main()
