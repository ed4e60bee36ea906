"""A small corpus of text files, and the configuration that prepares it."""

from pathlib import Path

from vaswani.schema import Config, DataConfig

WORDS = "one two three four five six seven eight nine ten".split()
VALID = [("A\u2028line", "mit \u0085 innen"), ("", ""), ("one two", "  eins  "), ("x " * 300, "y")]


def write_lines(directory: Path, name: str, pairs: list[tuple[str, str]]) -> None:
    for side, language in enumerate(("en", "de")):
        text = "".join(pair[side] + "\n" for pair in pairs)
        (directory / f"{name}.{language}").write_bytes(text.encode())


def configuration(text: Path | str, **data) -> Config:
    defaults = dict(
        name="small", dir=str(text), train="train", valid="valid", tests=("test",), splits={},
        vocab_size=340, max_tokens=64,
    )  # fmt: skip
    return Config(data=DataConfig(**(defaults | data)))
