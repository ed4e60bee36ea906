"""The arrays of a checkpoint: their names, types and shapes, compared with those of a model."""

from pathlib import Path
from typing import Any

import jax

from vaswani.errors import UserError


def describe(tree: Any) -> dict[str, list[Any]]:
    """Type and shape of every array: {"params/embedding": ["float32", [37000, 512]], …}."""
    return {
        jax.tree_util.keystr(path, simple=True, separator="/"): [str(leaf.dtype), list(leaf.shape)]
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
    }


def check_same_arrays(path: Path, saved: dict[str, list[Any]], wanted: dict[str, list[Any]]) -> None:
    """Compares the arrays of the checkpoint at `path` with those of the model, each as `describe` has them.

    Raises:
        UserError: they differ; the message names the first array that does.
    """
    for name in [*wanted, *saved]:
        if saved.get(name) != wanted.get(name):
            in_checkpoint, in_model = (_in_words(arrays.get(name)) for arrays in (saved, wanted))
            raise UserError(
                f"{path}: a checkpoint of another model: {name} is {in_checkpoint} in the checkpoint and {in_model} in "
                "this model"
            )


def _in_words(array: list[Any] | None) -> str:
    return f"{array[0]} {array[1]}" if array else "absent"
