"""Which events are read, which curves are drawn, and their SVG."""

import json
import math

from vaswani.report.plots import Metrics, curves, read_metrics


def train(step, **values):
    return {"kind": "train", "step": step, "loss": 3.0, "nll": 2.0, "lr": 1e-3, "source_tokens_per_s": 900,
            "target_tokens_per_s": 1000, **values}  # fmt: skip


def test_a_half_written_line_is_ignored(tmp_path):
    path = tmp_path / "metrics.jsonl"
    records = [train(10), {"kind": "valid", "step": 10, "perplexity": 7.5, "bleu": None}, train(20)]
    path.write_text("\n".join(map(json.dumps, records)) + '\n{"kind": "train", "st')
    assert read_metrics(path) == Metrics([records[0], records[2]], [records[1]])
    assert read_metrics(tmp_path / "absent.jsonl") == Metrics()


def test_only_plots_with_points_are_drawn():
    assert curves(Metrics()) == []
    titles = [plot.title for plot in curves(Metrics([train(1), train(2)]))]
    assert titles == ["Training loss", "Perplexity", "Learning rate", "Speed"]
    valid = [{"step": 2, "perplexity": 9.0, "bleu": 12.5}]
    assert "Validation BLEU" in [plot.title for plot in curves(Metrics([train(1)], valid))]
    assert [plot.title for plot in curves(Metrics([], [{"step": 2, "perplexity": 9.0, "bleu": None}]))] == [
        "Perplexity"
    ]


def test_bleu_is_drawn_over_minutes_where_the_time_is_known():
    valid = [{"step": step, "bleu": bleu, "elapsed_s": 90.0 * step} for step, bleu in ((2, 12.5), (4, 20.0))]
    over_time = {plot.title: plot for plot in curves(Metrics([], valid))}["Validation BLEU over time"]
    assert ">minutes</text>" in over_time.svg and ">6</text>" in over_time.svg  # 360 s
    valid = [{"step": step, "bleu": 1.0, "elapsed_s": 15.0 * step} for step in (1, 2)]
    short = {plot.title: plot for plot in curves(Metrics([], valid))}["Validation BLEU over time"]
    assert ">0.5</text>" in short.svg and "m</text>" not in short.svg  # half a minute


def test_values_that_are_not_finite_leave_a_gap():
    broken = [train(1), train(2, loss=math.nan, nll=math.inf), train(3, nll=900.0)]
    loss, perplexity, *_ = curves(Metrics(broken))
    assert "nan" not in loss.svg and "inf" not in loss.svg + perplexity.svg


def test_smoothed_loss_and_unsmoothed_perplexity_are_kept_apart():
    plots = {plot.title: plot.svg for plot in curves(Metrics([train(1), train(2)], [{"step": 2, "perplexity": 9.0}]))}
    assert "label-smoothed loss" in plots["Training loss"] and "unsmoothed" in plots["Training loss"]
    assert "label-smoothed" not in plots["Perplexity"] and "validation" in plots["Perplexity"]


def test_svg_takes_the_pages_colours_and_names_no_address():
    for plot in curves(Metrics([train(step) for step in range(1, 50)])):
        assert plot.svg.startswith("<svg viewBox=") and plot.svg.rstrip().endswith("</svg>")
        assert "var(--ink)" in plot.svg and ("var(--first)" in plot.svg or "var(--second)" in plot.svg)
        assert "#0102" not in plot.svg and "http" not in plot.svg
