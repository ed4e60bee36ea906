"""Several models that translate together."""

from collections.abc import Sequence
from typing import Any

from flax import nnx

from vaswani.model import Transformer


class Ensemble(nnx.Module):
    """Models of one vocabulary. Their shapes may differ. The search takes the mean of their log-probabilities."""

    def __init__(self, models: Sequence[Transformer]):
        self.models = nnx.List(models)


def join(models: Sequence[tuple[nnx.GraphDef, dict[str, Any]]]) -> tuple[nnx.GraphDef, dict[str, Any]]:
    """The structure and the parameters of an ensemble, from those of its models (as `model.build` returns them)."""
    graphdef, state = nnx.split(Ensemble([nnx.merge(*model) for model in models]))
    return graphdef, nnx.to_pure_dict(state)


def members(model: Transformer | Ensemble) -> list[Transformer]:
    """The models of an ensemble; a model alone is an ensemble of one."""
    return list(model.models) if isinstance(model, Ensemble) else [model]
