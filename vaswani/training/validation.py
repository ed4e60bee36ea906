"""The quality of a model while it trains."""

import math
from functools import partial
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from vaswani.data.packing import one_pass
from vaswani.data.prepared_corpus import PreparedCorpus
from vaswani.decoding.translator import Translator
from vaswani.devices import shard_rows
from vaswani.errors import UserError
from vaswani.evaluation.bleu import corpus_bleu
from vaswani.evaluation.metrics import bleu_metric
from vaswani.schema import Config
from vaswani.training.signals import StopSignals, run_unless_stopped
from vaswani.training.train_step import Params, make_eval_step

SAMPLES = 3
"""Translations shown at each validation."""


class Validation:
    """Perplexity of the whole validation set (unsmoothed, teacher-forced) and BLEU of its first lines."""

    def __init__(self, config: Config, corpus: PreparedCorpus, graphdef: Any, params: Params, mesh: Mesh):
        self.mesh = mesh
        self.eval_step = make_eval_step(graphdef, mesh)
        pairs = corpus.pairs(config.data.valid)
        self.batches = partial(one_pass, pairs, config.train, mesh.size)
        longest = int(max(pairs.source_lengths.max(), pairs.target_lengths.max()))
        if config.model.positions == "learned" and longest > config.model.max_positions:
            raise UserError(
                f"model.max_positions = {config.model.max_positions}: {config.data.valid} has a sentence of {longest} "
                "tokens, which has no learned position; set it at least as high"
            )
        sources, references = corpus.raw(config.data.valid)
        n = config.train.valid_lines
        self.sources, self.references = sources[:n], references[:n]
        self.target = config.data.target
        if self.sources:
            bleu_metric(self.target)  # fails here, not hours later, if its tokeniser is not installed
        self.translator = Translator(graphdef, params, corpus.tokenizer, config.decode)

    def __call__(self, params: Params, stop: StopSignals) -> dict[str, Any] | None:
        """Perplexity, BLEU (None if `train.valid_lines` is 0) and translations. The result is None after a stop."""
        sums = []
        for batch in self.batches():
            sums.append(jax.device_get(self.eval_step(params, shard_rows(batch, self.mesh))))
            if stop.received:
                return None
        nll, tokens = (float(np.sum([getattr(s, name) for s in sums])) for name in ("nll", "target_tokens"))
        result: dict[str, Any] = {"perplexity": round(math.exp(min(nll / tokens, 700)), 4), "bleu": None, "samples": []}
        if self.sources:
            self.translator.params = params
            hypotheses = run_unless_stopped(
                lambda: [best.text for best, *_ in self.translator.translate(self.sources)], stop
            )
            if hypotheses is None:
                return None
            bleu = corpus_bleu(hypotheses, self.references, self.target)
            result |= {"bleu": round(bleu.value, 2), "signature": bleu.signature}
            if bleu.note:
                result["bleu_note"] = bleu.note
            triples = list(zip(self.sources, self.references, hypotheses, strict=True))
            result["samples"] = [{"source": s, "reference": r, "hypothesis": h} for s, r, h in triples[:SAMPLES]]
        return result
