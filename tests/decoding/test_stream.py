"""Lines through `vaswani translate`: files in windows, and an answer to a program that waits for it."""

import gzip
import io
import json
import os
import pty
import select
import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest

from vaswani.decoding import stream
from vaswani.decoding.stream import Layout
from vaswani.decoding.translation import Hypothesis
from vaswani.errors import UserError


class Capitals:
    """Translates by writing capitals, and notes the windows that it was given."""

    decode = SimpleNamespace(beam=1)

    def __init__(self):
        self.windows = []

    class tokenizer:
        encode, pieces = staticmethod(str.split), staticmethod(list)

    def translate(self, lines, n_best, first_line, aligned):
        self.windows.append((first_line, len(lines)))
        for line in lines:
            tokens = tuple(line.upper().split())
            alignment = tuple((i, i) for i in range(len(tokens))) if aligned else None
            yield [Hypothesis(line.upper(), -0.5, -1.0, 2, tokens=tokens, alignment=alignment)]


def test_a_program_that_waits_gets_each_answer(trained):
    process = trained.start("translate", "runs/tiny", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    watchdog = threading.Timer(120, process.kill)
    watchdog.start()
    lines = ["The dog sees a cat.", "", "A child sleeps."]
    answers = []
    for line in lines:
        process.stdin.write(line + "\n")
        process.stdin.flush()
        answers.append(process.stdout.readline())
    rest, _ = process.communicate()
    watchdog.cancel()
    assert (process.returncode, rest) == (0, "") and all(answer.endswith("\n") for answer in answers)
    together = trained.vaswani("translate", "runs/tiny", input="".join(line + "\n" for line in lines)).stdout
    assert "".join(answers) == together and answers[1] == "\n"


def test_a_file_is_translated_in_whole_windows(tmp_path, monkeypatch):
    monkeypatch.setattr(stream, "WINDOW", 10)
    monkeypatch.setattr(stream, "BLOCK_BYTES", 7)
    lines = [f"line {i}" for i in range(20)] + ["a\u2028b\x0bc\r", "", "the end"]
    (tmp_path / "in.txt").write_bytes("\n".join(lines).encode())
    translator, output = Capitals(), io.BytesIO()
    with open(tmp_path / "in.txt", "rb") as file:
        stream.translate_stream(translator, file, output, Layout(scores=True))
    assert translator.windows == [(1, 10), (11, 10), (21, 3)]
    expected = [f"{i}\t-0.500000\t-1.000000\t{line.rstrip(chr(13)).upper()}" for i, line in enumerate(lines, start=1)]
    assert output.getvalue().decode() == "".join(line + "\n" for line in expected)


def test_a_pipe_is_answered_when_no_more_is_waiting():
    translator, output = Capitals(), io.BytesIO()
    reading, writing = os.pipe()
    answered = threading.Event()

    class Output(io.BytesIO):
        def flush(self):
            answered.set()

    output = Output()
    with open(reading, "rb") as source:
        thread = threading.Thread(target=stream.translate_stream, args=(translator, source, output, Layout()))
        thread.start()
        os.write(writing, b"one\ntwo\nthr")  # the third line is not complete
        assert answered.wait(10) and output.getvalue() == b"ONE\nTWO\n"
        os.write(writing, b"ee")
        os.close(writing)
        thread.join(10)
    assert output.getvalue() == b"ONE\nTWO\nTHREE\n"


def test_a_line_that_is_not_utf8_is_named(tmp_path):
    (tmp_path / "in.txt").write_bytes(b"one\ntwo\n\xff\n")
    with open(tmp_path / "in.txt", "rb") as file, pytest.raises(UserError, match="standard input, line 3: not UTF-8"):
        stream.translate_stream(Capitals(), file, io.BytesIO(), Layout())


def test_files_are_translated_one_after_another(tmp_path, monkeypatch):
    monkeypatch.setattr(stream, "WINDOW", 3)
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfone\ntwo\r\n\nfour")
    with gzip.open(tmp_path / "b.gz", "wb") as file:
        file.write("fünf fuß\n".encode())
    translator, output = Capitals(), io.BytesIO()
    paths = [tmp_path / "a.txt", tmp_path / "b.gz"]
    stream.translate_files(translator, paths, output, Layout(scores=True, alignments=True))
    assert translator.windows == [(1, 3), (4, 2)]
    scores = "-0.500000\t-1.000000"
    assert output.getvalue().decode().split("\n") == [
        f"1\t{scores}\t0-0\tONE",
        f"2\t{scores}\t0-0\tTWO",
        f"3\t{scores}\t\t",
        f"4\t{scores}\t0-0\tFOUR",
        f"5\t{scores}\t0-0 1-1\tFÜNF FUSS",
        "",
    ]
    (tmp_path / "bad.txt").write_bytes(b"one\n\xff\n")
    with pytest.raises(UserError, match=r"bad\.txt, line 2: not UTF-8"):
        stream.translate_files(translator, [tmp_path / "bad.txt"], output, Layout())


def test_json_lines(tmp_path):
    (tmp_path / "in.txt").write_text("a b\n")
    output = io.BytesIO()
    stream.translate_files(Capitals(), [tmp_path / "in.txt"], output, Layout(as_json=True, alignments=True))
    hypothesis = {"text": "A B", "score": -0.5, "log_prob": -1.0, "tokens": ["A", "B"], "alignment": [[0, 0], [1, 1]]}
    (line,) = output.getvalue().splitlines()
    assert json.loads(line) == {"line": 1, "source": "a b", "source_tokens": ["a", "b"], "hypotheses": [hypothesis]}


def test_a_terminal_gets_a_prompt_with_a_history():
    """The arrow key brings the line before back."""
    program = (
        "import sys; sys.path.insert(0, 'tests/decoding'); from test_stream import Capitals, Layout, stream\n"
        "stream.translate_stream(Capitals(), sys.stdin.buffer, sys.stdout.buffer, Layout())"
    )
    terminal, ours = pty.openpty()
    environment = os.environ | {"TERM": "xterm"}
    child = subprocess.Popen([sys.executable, "-c", program], stdin=ours, stdout=ours, stderr=ours, env=environment)
    os.close(ours)
    seen = b""

    def until(expected: bytes) -> None:
        nonlocal seen
        while expected not in seen:
            assert select.select([terminal], [], [], 60)[0], seen
            seen += os.read(terminal, 1000)
        seen = seen.partition(expected)[2]

    until(b"> ")
    os.write(terminal, "grüße\n".encode())
    until("GRÜSSE".encode())
    until(b"> ")
    os.write(terminal, b"\x1b[A du\n")  # up
    until("GRÜSSE DU".encode())
    until(b"> ")
    os.write(terminal, b"\x04")  # Ctrl-D
    assert child.wait(60) == 0
    os.close(terminal)
