"""A small corpus of text files, and the configuration that prepares it."""

from pathlib import Path

from vaswani.schema import Config, DataConfig

WORDS = "one two three four five six seven eight nine ten".split()
VALID = [("A\u2028line", "mit \u0085 innen"), ("", ""), ("one two", "  eins  "), ("x " * 300, "y")]


def write_lines(directory: Path, name: str, pairs: list[tuple[str, str]]) -> None:
    for side, language in enumerate(("en", "de")):
        text = "".join(pair[side] + "\n" for pair in pairs)
        (directory / f"{name}.{language}").write_bytes(text.encode())


def write_text(directory: Path) -> Path:
    """A directory of small files: 100 good training pairs, and one of every sort that is dropped."""
    directory.mkdir()
    good = [(f"{a} {b} apples.", f"{a[::-1]} {b[::-1]} Äpfel.") for a in WORDS for b in WORDS]
    bad = [("", "leer"), ("x", "viel zu lang"), good[0], good[3], ("ß " * 80, "ü " * 80)]
    write_lines(directory, "train", good[:50] + bad + good[50:])
    write_lines(directory, "valid", VALID)
    write_lines(directory, "test", [("Last.", "\r Letzte.")])
    return directory


def configuration(text: Path | str, **data) -> Config:
    defaults = dict(
        name="small", dir=str(text), train="train", valid="valid", tests=("test",), splits={},
        vocab_size=340, max_tokens=64,
    )  # fmt: skip
    return Config(data=DataConfig(**(defaults | data)))
