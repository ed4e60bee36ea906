"""The Transformer of "Attention Is All You Need", from raw text to BLEU.

    >>> from vaswani import Translator
    >>> translator = Translator("runs/toy")
    >>> [translation] = translator.translate(["A dog runs."])
    >>> print(translation.source, translation.text)  # doctest: +ELLIPSIS
    A dog runs. ...

`help(vaswani.Translator)` and `help(vaswani.load_run)` tell more; docs/python.md has examples. Importing `vaswani` does
not import JAX: a name is loaded when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vaswani.api import TrainedRun, Translator, load_run
    from vaswani.decoding.translation import Hypothesis, Translation
    from vaswani.errors import UserError
    from vaswani.model import Transformer
    from vaswani.schema import ModelConfig

__all__ = [
    "Hypothesis",
    "ModelConfig",
    "TrainedRun",
    "Transformer",
    "Translation",
    "Translator",
    "UserError",
    "load_run",
]

_MODULES = {
    "Hypothesis": "vaswani.decoding.translation",
    "ModelConfig": "vaswani.schema",
    "TrainedRun": "vaswani.api",
    "Transformer": "vaswani.model",
    "Translation": "vaswani.decoding.translation",
    "Translator": "vaswani.api",
    "UserError": "vaswani.errors",
    "load_run": "vaswani.api",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'vaswani' has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
