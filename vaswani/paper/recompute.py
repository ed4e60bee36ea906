"""`vaswani paper`: the paper's numbers and ours, which the code that trains and translates computes."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from vaswani.decoding.beam_search import length_penalty
from vaswani.model import MultiHeadAttention, sinusoids
from vaswani.paper import costs, counts, demonstrations
from vaswani.paper.checks import Check, below, derived, numbers, only
from vaswani.paper.costs import VOCABULARY
from vaswani.paper.tables import BASE, BIG, TABLE_1, TABLE_2, TABLE_3
from vaswani.schema import ModelConfig
from vaswani.training.optimizer import learning_rate

ROUNDED_TIME = "0.4 s a step is rounded"
VOCABULARY_LARGER = 'the vocabulary is larger than "about 37000"'


def check_paper() -> Iterator[Check]:
    """Every comparison, in the paper's order. It takes about half a minute on two CPU cores."""
    for section in (depth, attention, heads, masks, order, table_1, memory, training, smoothing, table_2, table_3):
        yield from section()


# --- section 3: the model ---


def depth() -> Iterator[Check]:
    plain, normed = demonstrations.depth_gradient_norms(80)
    what = "gradient norm through 80 feed-forward layers"
    yield Check("Section 3.1", f"{what}, x + FFN(x)", "explodes", f"{plain:.1e}", plain > 1e4, printed=False)
    yield Check("Section 3.1", f"{what}, Add & Norm", "bounded", f"{normed:.2f}", 0.1 < normed < 10, printed=False)


def attention() -> Iterator[Check]:
    where = "Section 3.2.1, equation 1"
    Q, K = [[1, 0, 1, 0], [0, 2, 0, 2], [1, 1, 1, 1]], [[1, 0, 1, 0], [0, 1, 0, 1], [1, 1, 0, 0]]
    weights, output = demonstrations.one_head(Q, K, [[1, 0, 0, 1], [0, 1, 0, 2], [0, 0, 1, 3]])
    for i, row in enumerate(("0.506 0.186 0.307", "0.090 0.665 0.245", "0.333 0.333 0.333")):
        yield derived(where, f"by hand, 3 tokens, d_k = 4: weights of query {i + 1}", row, weights[i])
    yield derived(where, "by hand: last column of the output", "1.801 2.155 2.000", output[:, 3])

    weights, output = demonstrations.one_head(np.eye(3), np.eye(3), np.arange(1, 10).reshape(3, 3), scaled=False)
    yield derived(where, "Q = K = I, not scaled: weights of query 1", "0.5761 0.2119 0.2119", weights[0])
    yield derived(where, "Q = K = I, not scaled: its output's first element", "2.907", output[0, 0])
    yield from footnote_4()


def footnote_4() -> Iterator[Check]:
    where = "Section 3.2.1, footnote 4, for d_k = 4 and 512"
    rng, d_ks = np.random.default_rng(demonstrations.SEED), np.array([4, 512])
    variances, unscaled, scaled = zip(
        *((demonstrations.dot_product_variance(rng, d_k), *demonstrations.saturation(rng, d_k)) for d_k in d_ks),
        strict=True,
    )
    for what, claim, exact in (
        ("variance of q·k over 100,000 pairs", d_ks, "4.02 507.38"),
        ("variance of q·k/√d_k", d_ks / d_ks, "1.006 0.991"),
    ):
        ours = np.array(variances) * claim / d_ks
        near = bool(np.all(np.abs(ours / claim - 1) < 0.02))  # the standard error of 100,000 pairs is 0.5%
        yield Check(where, what, "{:g} {:g} ±2%".format(*claim), "{:.4g} {:.4g}".format(*ours), near)
        yield derived(where, "    the same with the digits of seed 1706", exact, ours)
    for name, both, weight, norm in (
        ("without √d_k", unscaled, "0.551 0.958", "3.79e-01 7.12e-05"),
        ("with √d_k", scaled, "0.360 0.365", "3.67e-01 3.69e-01"),
    ):
        yield derived(where, f"mean largest weight of 8, {name}", weight, [s.largest_weight for s in both])
        yield derived(where, f"median norm of the softmax's Jacobian, {name}", norm, [s.jacobian_norm for s in both])


def heads() -> Iterator[Check]:
    where, config = "Section 3.2.2", ModelConfig()
    yield numbers(where, "d_k = d_v = d_model/h", "64", config.d_model / config.h)
    for h in (1, 2, 4, 8, 16, 32):
        split = ModelConfig(h=h, d_k=512 // h, d_v=512 // h)
        parameters = counts.module_parameters(MultiHeadAttention, split)
        yield derived(where, f"4·d_model² parameters, h = {h}", "1,048,576", parameters)
    ratio = counts.multi_head_flops(50, 8) / counts.multi_head_flops(50, 1)
    what = "FLOPs of 8 heads / of one head as wide as all 8, n = 50"
    yield Check(where, what, "similar", f"{ratio:.4f}", ratio < 1.01)
    difference = demonstrations.heads_summed_difference()
    yield below(where, "Concat(heads)·W_O minus the sum of head_i·W_Oⁱ", difference, 1e-5)


def masks() -> Iterator[Check]:
    where = "Section 3.2.3"
    x = [[1, 0], [0, 1], [1, 1]]
    weights, output = demonstrations.one_head(x, x, [[1, 0], [0, 2], [3, 1]], causal=True)
    by_hand = (
        ("1.000 0.000 0.000", "1.000 0.000"),
        ("0.330 0.670 0.000", "0.330 1.340"),
        ("0.248 0.248 0.503", "1.759 1.000"),
    )
    for i, (row, out) in enumerate(by_hand):
        yield derived(where, f"by hand, causal, d_k = 2: weights of query {i + 1}", row, weights[i])
        yield derived(where, f"by hand, causal, d_k = 2: output of query {i + 1}", out, output[i])
    change, gradient = demonstrations.leak_from_the_future()
    yield Check(where, "change of earlier outputs if later target tokens change", "0", f"{change:g}", change == 0)
    yield Check(where, "gradient of earlier outputs with respect to later tokens", "0", f"{gradient:g}", gradient == 0)
    parameters = counts.block_parameters(32, 4, 64)
    yield derived("Section 3.3", "parameters of a block: d_model 32, h 4, d_ff 64", "8,416", parameters)


def order() -> Iterator[Check]:
    where, table = "Section 3.5", np.asarray(sinusoids(4, 512))
    yield derived(where, "PE(3, 0) and PE(3, 1), d_model = 512", "0.141120 -0.989992", table[3, :2])
    yield derived(where, "PE(3, 510) and PE(3, 511)", "0.000311 1.000000", table[3, -2:])
    waves = demonstrations.wavelengths(512) / (2 * np.pi)
    yield numbers(where, "shortest wavelength / 2π", "1.000", waves[0])
    yield numbers(
        where, "longest wavelength / 2π", "10,000", waves[-1],
        why="The exponent of the last pair of dimensions is 510/512. An exponent of 1 would give 10,000.",
    )  # fmt: skip
    ratios = waves[1:] / waves[:-1]
    yield derived(
        where, "ratio of neighbouring wavelengths, smallest and largest", "1.0366 1.0366", [min(ratios), max(ratios)]
    )
    error = max(demonstrations.shift_error(k) for k in (1, 10, 100))
    yield below(where, "PE(pos + k) minus a matrix times PE(pos); k = 1, 10, 100", error, 1e-6)
    without, with_positions = (demonstrations.permutation_error(positions) for positions in (False, True))
    yield below(where, "two tokens swapped, outputs swapped back, no positions: difference", without, 1e-5)
    what = "the same with positions: difference"
    yield Check(where, what, "> 0.1", f"{with_positions:.2f}", with_positions > 0.1, printed=False)


# --- section 4: why self-attention ---


def table_1() -> Iterator[Check]:
    where, k, r = "Table 1, for d = 512, k = 3, r = 16", 3, 16
    short, long = (costs.layer_operations(n, 512, k, r) for n in (50, 8192))
    worked = ("1,280,000 34,359,738,368", "13,107,200 2,147,483,648", "39,321,600 6,442,450,944", "409,600 67,108,864")
    for row, expected in zip(TABLE_1, worked, strict=True):
        ours = short[row.name], long[row.name]
        yield derived(where, f"{row.name}, {row.complexity}: n = 50, n = 8192", expected, ours)
    paths = costs.maximum_path_length(8192, k, r)
    for row, expected in zip(TABLE_1, ("1", "8,192", "9", "512"), strict=True):
        yield derived(where, f"{row.name}, path {row.maximum_path_length}: n = 8192", expected, paths[row.name])
    attention, recurrent = (row.name for row in TABLE_1[:2])
    yield derived(where, "recurrent / self-attention, n = 50", "10.24", short[recurrent] / short[attention])
    yield derived(where, "self-attention / recurrent, n = 8192", "16.00", long[attention] / long[recurrent])
    equal = next(n for n in range(1, 8192) if (c := costs.layer_operations(n, 512, k, r))[attention] >= c[recurrent])
    yield numbers(where, "self-attention is cheaper for n < d; both cost the same at n =", "512", equal)
    for name, doubled, expected in (("n", (4096, 512), "2.0"), ("d", (2048, 1024), "1.0")):
        growth = np.log2(counts.attention_flops(*doubled) / counts.attention_flops(2048, 512))
        yield derived(where, f"our attention as XLA counts it: exponent of {name}", expected, growth)


def memory() -> Iterator[Check]:
    where, GiB = "Section 4, memory", 2**30
    score = counts.score_matrix_bytes
    yield derived(where, "attention weights of one head in 16 bits, n = 8192; MiB", "128", score(8192, 1, 2) / 2**20)
    yield derived(where, "attention weights of 8 heads in 16 bits, n = 8192; GiB", "1.00", score(8192, 8, 2) / GiB)
    yield derived(
        where, "attention weights of one head in 16 bits, n = 128,000; GiB", "30.5", score(128_000, 1, 2) / GiB
    )
    for h, expected in ((8, "128"), (32, "512")):
        KiB = counts.cache_bytes_per_token(32, h, 128) / 1024
        yield derived(where, f"keys and values of a token, 32 layers, {h} heads of 128; KiB", expected, KiB)


# --- section 5: training ---


def training() -> Iterator[Check]:
    where = "Section 5.2"
    yield numbers(
        where, "hours of base: 100,000 steps of 0.4 s", "12", costs.training_seconds(BASE) / 3600,
        why="0.4 is rounded: 12 hours are 0.432 s per step.", cause=ROUNDED_TIME,
    )  # fmt: skip
    yield numbers(where, "days of big: 300,000 steps of 1.0 s", "3.5", costs.training_seconds(BIG) / 86400)
    where = "Section 5.3, equation 3"
    for step, expected in ((1, "1.746928e-07"), (4000, "6.987712e-04"), (16000, "3.493856e-04")):
        yield derived(where, f"learning rate of base at step {step:,}", expected, learning_rate(step, 512, 4000))
    yield derived(where, "learning rate of big at step 4,000", "4.941059e-04", learning_rate(4000, 1024, 4000))
    peak = int(np.argmax(learning_rate(np.arange(1, 20_001), 512, 4000))) + 1
    yield numbers(where, "step of the peak: warmup_steps", "4,000", peak)


def smoothing() -> Iterator[Check]:
    where = "Section 5.4, (1-ε)·onehot + ε/V with ε = 0.1, V = 5"
    target = demonstrations.smoothed_target(5, 0.1)
    yield derived(
        where, "target distribution by our gradient: a wrong token, the right one", "0.02 0.92", target[[0, -1]]
    )
    loss, nll = demonstrations.smoothed_loss([[0.2] * 5, target], 0.1)
    yield derived(where, "loss of a uniform model: ln 5", "1.60944", loss[0])
    yield derived(where, "smallest loss, for the target distribution: its entropy", "0.38967", loss[1])
    yield derived(where, "-log P of that distribution, as in perplexity: -ln 0.92", "0.08338", nll[1])


# --- section 6: results ---


def table_2() -> Iterator[Check]:
    where = "Section 6.1"
    yield derived(where, "log P = -3, 5 tokens, α = 0.6: score", "-2.20807", -3 / length_penalty(5, 0.6))
    systems = {system.name: system for system in TABLE_2}
    rows = (
        ("base", BASE, ModelConfig(), systems["Transformer (base model)"], "12 h", 12 * 3600, "3.3e+18"),
        (
            "big",
            BIG,
            ModelConfig(d_model=1024, d_ff=4096, h=16),
            systems["Transformer (big)"],
            "3.5 d",
            3.5 * 86400,
            "2.3e+19",
        ),
    )
    for name, recipe, config, system, time, seconds, printed in rows:
        where = "Table 2, training FLOPs on 8 P100 of 9.5 TFLOPS"
        assert float(printed) == system.flops_en_de
        rated = costs.rated_flops(costs.training_seconds(recipe))
        yield numbers(
            where, f"{name}: {recipe.steps:,} steps of {recipe.seconds_per_step} s", printed, rated,
            why=f"The printed number is that of {time} (section 5.2). The steps take less (above).",
            cause=ROUNDED_TIME,
        )  # fmt: skip
        yield numbers(where, f"{name}: {time}", printed, costs.rated_flops(seconds))
        counted = costs.training_flops(config, VOCABULARY, recipe)
        what = f"{name}: operations of its products, V = 37,000"
        yield only(where, what, f"{counted:.1e}, {counted / system.flops_en_de:.0%} of the printed number")
    formula = costs.forward_flops_formula(ModelConfig(), VOCABULARY, 30)
    ratio = formula / counts.forward_flops(ModelConfig(), VOCABULARY, 30)
    yield derived(where, "operations of a forward pass, formula / XLA's count", "1.00", ratio)


WITHOUT_EMBEDDING = {
    "B1": "37,023,744", "B2": "39,383,040", "C1": "14,700,544", "C2": "29,401,088", "C3": "58,802,176",
    "C4": "17,344,512", "C5": "125,927,424", "C6": "31,506,432", "C7": "69,292,032", "E": "45,150,208",
    "big": "176,283,648",
}  # fmt: skip
"""Worked out by hand for each row. The other rows have the base model's 44,101,632, for any number of heads."""


def table_3() -> Iterator[Check]:
    where = "Table 3, parameters without the V·d_model of the embedding"
    rows, models = {v.row: v for v in TABLE_3}, defaultdict(list)
    for row, variation in rows.items():
        models[replace(costs.variation_config(variation), P_drop=0.0)].append(row)  # dropout has no parameters
    sizes = {}
    for config, names in models.items():
        sizes[names[0]] = counts.parameters_without_embedding(config), config.d_model
        expected = WITHOUT_EMBEDDING.get(names[0], "44,101,632")
        yield derived(where, ", ".join(names), expected, sizes[names[0]][0])

    where, fits = "Table 3, millions of parameters, V = 37,000", {}
    for name, (without, d_model) in sizes.items():
        if (printed := rows[name].params_millions) is None:
            yield only(where, name, f"{(without + VOCABULARY * d_model) / 1e6:.0f}")
            continue
        fits[name] = low, high = costs.fitting_vocabulary(printed, without, d_model)
        yield numbers(
            where, name, str(printed), (without + VOCABULARY * d_model) / 1e6,
            why=f"The printed number fits a vocabulary of {low:,} to {high:,}.",
            cause="" if name == "big" else VOCABULARY_LARGER,
        )  # fmt: skip
    big = fits.pop("big")
    low, high = max(low for low, _ in fits.values()), min(high for _, high in fits.values())
    ours = f"{low:,} to {high:,}, and {big[0]:,} to {big[1]:,} for big"
    yield Check(
        where, "vocabulary that all of these fit", "37,000", ours, agrees=False,
        why="Section 5.1 says \"about 37000\". One slightly larger vocabulary explains every printed count except that "
        "of big. So our layers agree with the paper's, and the embedding does not.",
        cause=VOCABULARY_LARGER,
    )  # fmt: skip
    worse = rows["base"].bleu - rows["A1"].bleu
    yield numbers("Section 6.2", "BLEU that a single head loses", "0.9", worse)
