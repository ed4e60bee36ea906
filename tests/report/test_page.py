"""The page of a finished run and of a new one, and what text of a corpus cannot do to it."""

import json
import re
from html.parser import HTMLParser

import pytest

from vaswani import cli
from vaswani.config import from_dict
from vaswani.errors import UserError
from vaswani.evaluation.bleu import SetEvaluation, score, to_json
from vaswani.report.page import samples, translated_lines, write_report
from vaswani.report.plots import Metrics
from vaswani.runs.directory import RunDirectory

CONFIG = from_dict({"data": {"name": "tiny", "tests": ["tiny_test"]}, "model": {"d_model": 64}}, "a test")
SOURCES = ["A dog runs.", "<script>alert('no')</script>", "", "Ends\u2028here."]
REFERENCES = ["Ein Hund läuft.", "<b>fett & gut</b>", "Leer.", "Endet\u2028hier."]
TRANSLATIONS = ["Ein Hund läuft.", "<script>alert('no')</script>", "", "Endet hier."]
SCORES = score(TRANSLATIONS, [REFERENCES], "de", resamples=10)


@pytest.fixture
def run(tmp_path):
    run = RunDirectory(tmp_path / "tiny run")
    run.create(CONFIG)
    return run


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run that was trained and evaluated, and its page."""
    run = RunDirectory(tmp_path_factory.mktemp("runs") / "tiny run")
    run.create(CONFIG)
    finish(run)
    return run, page_of(run)


def finish(run):
    hypotheses = [("Der Hund.", 10), ("Ein Hund läuft.", 20)]
    with open(run.metrics_path, "w") as file:
        for hypothesis, step in hypotheses:
            speed = {"source_tokens_per_s": 900, "target_tokens_per_s": 1000, "elapsed_s": 90, "skipped": 3}
            train = {"kind": "train", "step": step, "loss": 3.25, "nll": 2.5, "lr": 0.001, **speed}
            file.write(json.dumps(train) + "\n")
            sample = {"source": SOURCES[0], "reference": REFERENCES[0], "hypothesis": hypothesis}
            valid = {"step": step, "perplexity": 100 / step, "bleu": 11.0 + step, "samples": [sample], "elapsed_s": 120}
            file.write(json.dumps({"kind": "valid", **valid}) + "\n")
    run.translations.mkdir()
    for suffix, lines in ((".source.txt", SOURCES), (".reference.txt", REFERENCES), (".txt", TRANSLATIONS)):
        (run.translations / f"tiny_test{suffix}").write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")
    evaluation = {"tiny_test": SetEvaluation(SCORES, 4, "averaged", {"beam": 4, "alpha": 0.6}, 1)}
    run.evaluation_path.write_text(json.dumps(to_json(evaluation)))


def page_of(run) -> str:
    assert write_report(run) == run.report_path
    return run.report_path.read_text(encoding="utf-8")


def test_a_finished_run(finished):
    _, page = finished
    for s in SCORES:
        assert f"{s.value:.2f}" in page and s.signature in page
    assert page.count("<svg") == 6
    assert "5.00 at 20" in page and "20 of 100,000" in page and "2 min" in page
    assert "updates skipped" in page
    assert "4 lines, checkpoint averaged, beam 4, alpha 0.6, 1 source lines truncated" in page
    assert re.search(r"model\.d_model</code></td><td><code>64</code></td><td class=\"soft\"><code>512<", page)
    assert "tiny run' --last 5" in page.replace("&#39;", "'")  # commands are quoted for the shell


def test_every_translated_set_is_shown_and_settings_as_in_a_configuration(run):
    finish(run)
    for path in list(run.translations.iterdir()):
        path.with_name(path.name.replace("tiny_test", "another")).write_bytes(path.read_bytes())
    settings = run.config_path.read_text().split("\n", 1)[1]  # without the checksum
    run.config_path.write_text(settings.replace('"tiny_test",', '"tiny_test", "another",'))
    page = page_of(run)
    assert page.count("Translations of tiny_test") == page.count("Translations of another") == 1
    assert "<code>[&#34;tiny_test&#34;, &#34;another&#34;]</code>" in page and "<code>true</code>" in page


def test_the_page_stands_alone_and_is_well_formed(finished):
    _, page = finished
    assert "http" not in page and "<script" not in page
    assert not re.search(r"\b(src|href)=\"(?!#)", page)
    assert "prefers-color-scheme: dark" in page
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(ids) == len(set(ids))

    class Balance(HTMLParser):
        def __init__(self):
            super().__init__()
            self.open_tags: list[str] = []

        def handle_starttag(self, tag, attrs):
            if tag not in ("meta", "br"):
                self.open_tags.append(tag)

        def handle_startendtag(self, tag, attrs):
            pass

        def handle_endtag(self, tag):
            assert self.open_tags.pop() == tag

    parser = Balance()
    parser.feed(page)
    assert parser.open_tags == []


def test_text_is_never_markup(finished):
    _, page = finished
    assert "&lt;script&gt;" in page and "&lt;b&gt;fett &amp; gut&lt;/b&gt;" in page


def test_control_characters_are_visible(run):
    finish(run)
    sample = {"source": "\x1b[2Jred", "reference": "\u202eabc", "hypothesis": "half \ud83d $x$"}
    valid = {"kind": "valid", "step": 30, "perplexity": 3.0, "samples": [sample]}
    with open(run.metrics_path, "a") as file:
        file.write(json.dumps(valid) + "\n")
    (run.path / "attention").mkdir()
    (run.path / "attention" / "maps.json").write_text(json.dumps({"text": "\x9b2J", "target": "\u2066", "kinds": []}))
    page = page_of(run)
    for text in (r"\x1b[2Jred", r"\u202eabc", r"half \ud83d $x$", r"\x9b2J", r"\u2066", r"Ends\u2028here."):
        assert f">{text}<" in page
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u202e\u2066]", page)


def test_out(run, capsys):
    run.report_path.mkdir()  # so that the page cannot be written there
    assert cli.run(["report", str(run.path)]) == 1
    error = capsys.readouterr().err
    assert "report.html: cannot be written: " in error
    assert error.endswith(f"; `vaswani report {run.path} --out DIR` writes elsewhere\n")
    for out, page in (("pages", "pages/report.html"), ("pages/mine.html", "pages/mine.html")):
        assert cli.run(["report", str(run.path), "--out", str(run.path.parent / out)]) == 0
        assert capsys.readouterr().out == f"{run.path.parent / page}\n"
        assert "<h1>tiny run</h1>" in (run.path.parent / page).read_text()


def test_a_new_run(run):
    page = page_of(run)
    assert "No update has been logged yet" in page and "Not evaluated yet" in page
    run.versions_path.unlink()
    assert "not recorded" in page_of(run)


def test_worst_lines_come_first_and_u2028_ends_no_line(finished):
    worst, chosen = translated_lines(finished[0], "tiny_test")
    assert [line.number for line in worst] == [3, 2, 1, 4]
    assert [line.number for line in chosen] == [1, 2, 3, 4]
    assert worst[0].chrf == 0 and worst[-1].chrf == pytest.approx(100)
    assert worst[-1].source == "Ends\u2028here."


def test_files_that_do_not_match_are_refused(run):
    finish(run)
    (run.translations / "tiny_test.txt").write_text("one\n")
    with pytest.raises(UserError, match=r"tiny_test.source.txt 4.*tiny_test.txt 1"):
        write_report(run)
    run.evaluation_path.write_text('{"sets": {"x"')
    with pytest.raises(UserError, match="not valid JSON"):
        write_report(run)


def test_samples_show_how_a_translation_changed():
    valid = [
        {"step": step, "perplexity": 9.0, "samples": [{"source": "a", "reference": "b", "hypothesis": f"at {step}"}]}
        for step in range(10, 110, 10)
    ]
    (sample,) = samples(Metrics([], [*valid, {"step": 110, "perplexity": 9.0, "samples": []}]))
    assert (sample.source, sample.reference) == ("a", "b")
    assert sample.translations[0] == (10, "at 10") and sample.translations[-1] == (100, "at 100")
    assert len(sample.translations) == 5
    assert len(samples(Metrics([], valid[:1]))[0].translations) == 1
