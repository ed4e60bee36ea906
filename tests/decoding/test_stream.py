"""Lines through `vaswani translate`: files in windows, and an answer to a program that waits for it."""

import io
import os
import subprocess
import threading
from types import SimpleNamespace

import pytest

from vaswani.decoding import stream
from vaswani.decoding.translator import Hypothesis
from vaswani.errors import UserError


class Capitals:
    """Translates by writing capitals, and notes the windows that it was given."""

    decode = SimpleNamespace(beam=1)

    def __init__(self):
        self.windows = []

    def translate(self, lines, n_best, first_line):
        self.windows.append((first_line, len(lines)))
        return ([Hypothesis(line.upper(), -0.5, -1.0, 2)] for line in lines)


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
        stream.translate_stream(translator, file, output, with_scores=True)
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
        thread = threading.Thread(target=stream.translate_stream, args=(translator, source, output))
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
        stream.translate_stream(Capitals(), file, io.BytesIO())
