"""Recognises a training that has learnt nothing but which words are frequent.

A post-norm Transformer can end up there: the layers pass nothing on after updates that were too large (no warm-up, or
too high a rate), and the loss stays at the entropy of the words, whatever the source says.
"""

import numpy as np

from vaswani.data.encoded import EncodedPairs
from vaswani.schema import TrainConfig

SAMPLED_TOKENS = 1_000_000
LEAST_UPDATES = 500
"""Every training guesses by frequency at first."""
MARGIN = 0.1
"""Nats. A model that uses any context is soon further below the entropy."""


def entropy(ids: np.ndarray) -> float:
    """The entropy of the distribution of token ids, in nats: the least loss per token without any context.

    >>> round(entropy(np.array([5, 5, 7, 7])), 6)
    0.693147
    """
    p = np.bincount(ids) / len(ids)
    p = p[p > 0]
    return float(-(p * np.log(p)).sum())


class StagnationWatch:
    """Says once that the loss is no better than guessing by word frequency."""

    def __init__(self, pairs: EncodedPairs, train: TrainConfig):
        """Counts the target tokens of the training set, at most the first million."""
        self.guessing = entropy(np.asarray(pairs.target_ids[:SAMPLED_TOKENS]))
        self._first_step = max(train.warmup, LEAST_UPDATES)
        self._said = False

    def advice(self, step: int, nll: float) -> str:
        """What to print after a logged window; empty where there is nothing to say.

        Args:
            step: updates made.
            nll: of the window, unsmoothed, nats per target token.
        """
        if self._said or step < self._first_step or nll < self.guessing - MARGIN:
            return ""
        self._said = True
        return (
            f"step {step:,}: {nll:.2f} nats a token is no better than guessing by word frequency ({self.guessing:.2f}): "
            "the model has learnt nothing else; try another run with a longer train.warmup or a smaller train.lr_scale"
        )
