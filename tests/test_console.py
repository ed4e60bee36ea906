"""Text comes out as it is: no markup, no emoji codes, and no character that controls the terminal."""

import os
import pty
import re
import sys

from vaswani.console import console, progress_bar, say, visible, watched

HOSTILE = ":smile: [red]x[/red] [/] \x1b[2J\x1b]0;title\x07 \x9b1A \r\b\x7f a\u202eb\u2066c \u2028 \udc80"
SEEN = ":smile: [red]x[/red] [/] \\x1b[2J\\x1b]0;title\\x07 \\x9b1A \\r\\x08\\x7f a\\u202eb\\u2066c \\u2028 \\udc80"


def written_on_a_terminal(monkeypatch, write) -> str:
    """What `write` sends to stderr while that is a terminal."""
    parent, child = pty.openpty()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    with os.fdopen(child, "w", encoding="utf-8", errors="backslashreplace") as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        write()
        stream.flush()
        text = os.read(parent, 1 << 16).decode()
    os.close(parent)
    return text


def test_control_characters_are_made_visible_and_nothing_else():
    assert visible(HOSTILE) == SEEN
    assert visible(SEEN) == SEEN
    others = "äß 中文 한국어 עברית हिन्दी \u200d👩‍👩‍👧 \u00a0 \u3000 \u200b \ufeff \ufffd \\x1b"
    assert visible(others) == others
    escaped = {chr(i) for i in range(0x110000) if visible(chr(i)) != chr(i)}
    assert len(escaped) == 32 + 33 + 3 + 2 + 5 + 4 + 2048


def test_a_message_keeps_its_own_line_ends_alone(capsys):
    say(f"valid 5\n  source  {HOSTILE}")
    assert capsys.readouterr().err == f"valid 5\n  source  {SEEN}\n"


def test_the_console_takes_nothing_for_markup(capsys):
    console().print(":smile: [red]7[/red] " + "long " * 60)
    assert capsys.readouterr().err == ":smile: [red]7[/red] " + "long " * 60 + "\n"


def test_without_a_terminal_there_is_no_bar(capsys):
    with progress_bar(HOSTILE, total=3) as bar:
        assert bar.hidden
        bar.update(2, "two")
    assert list(watched("abc", HOSTILE)) == list("abc")
    assert capsys.readouterr() == ("", "")


def test_on_a_terminal_messages_stand_above_the_bar(monkeypatch):
    def write():
        with progress_bar("[red]training", total=3) as bar:
            assert not bar.hidden
            bar.update(2, f"{HOSTILE} {{left}}")
            say(f"step 2 {HOSTILE}")
        assert list(watched([1, 2], ":smile:")) == [1, 2]

    written = written_on_a_terminal(monkeypatch, write)
    assert f"step 2 {SEEN}\r\n" in written  # a line of its own, not cut
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", written)  # without the bar's own colours and moves
    assert "2/3" in text and f"{SEEN} {{left}}" in text and ":smile:" in text
    assert not re.search(r"[\x1b\x07\x9b\u202e\u2028]", text)
