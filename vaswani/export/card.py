"""The model card of an exported run: README.md, in the form that the Hugging Face hub reads."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from vaswani import config as config_module
from vaswani.data.prepared_corpus import PreparedCorpus
from vaswani.evaluation.bleu import SetEvaluation
from vaswani.schema import Config

MARIAN_USE = """
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("{folder}")
model = AutoModelForSeq2SeqLM.from_pretrained("{folder}")
batch = tokenizer(["{example}"], return_tensors="pt", padding=True)
print(tokenizer.batch_decode(model.generate(**batch), skip_special_tokens=True))
"""

CTRANSLATE2_USE = """
import ctranslate2, sentencepiece

tokenizer = sentencepiece.SentencePieceProcessor("{folder}/tokenizer.model")
translator = ctranslate2.Translator("{folder}", compute_type="{type}")
batch = tokenizer.encode(["{example}"], out_type=str)
search = {{"beam_size": {beam}, "patience": 2, "length_penalty": {length_penalty:g}, "disable_unk": True}}
results = translator.translate_batch(batch, **search)
print([tokenizer.decode(result.hypotheses[0]) for result in results])
"""


def model_card(
    config: Config, sources: Mapping[str, Any], scores: Mapping[str, SetEvaluation], label: str, use: str
) -> str:
    """README.md of an exported model.

    Args:
        sources: where each set came from, as the prepared corpus has it (`data_sources`).
        scores: what `vaswani evaluate` has found.
        label: which parameters were exported ("averaged", "step 300").
        use: Python that translates a sentence with it.
    """
    data = config.data
    return "\n".join(
        [
            "---",
            f"language: [{data.source}, {data.target}]",
            "pipeline_tag: translation",
            "tags: [translation, transformer, vaswani]",
            "---",
            "",
            f"# {data.name}: {data.source} → {data.target}",
            "",
            'A Transformer as in "Attention Is All You Need" (Vaswani et al. 2017), trained by `vaswani`; parameters: '
            f"{label}.",
            "",
            "## Use",
            "",
            f"```python{use}```",
            "",
            "## Data",
            "",
            *(f"- {name}: {_source_text(source)}" for name, source in sources.items()),
            "",
            "Licence of the data: as given by its source. Read it there before you pass this model on.",
            "",
            "## Scores",
            "",
            *_score_lines(scores),
            "",
            "## Configuration",
            "",
            "```toml",
            # Paths of the machine it was trained on say nothing to others.
            config_module.to_toml(replace(config, data=replace(data, dir="", tokenizer=""))).strip(),
            "```",
            "",
        ]
    )


def data_sources(config: Config, prepared: Path) -> Mapping[str, Any]:
    """Where each set came from: as the prepared corpus says, or the configuration where that is not at hand."""
    if (prepared / "manifest.json").exists():
        return PreparedCorpus.open(prepared).manifest["sources"]
    data = config.data
    source = {"hub": data.corpus, "subset": data.subset}
    return {name: {**source, "split": data.splits.get(name, name)} for name in (data.train, data.valid, *data.tests)}


def _source_text(source: Mapping[str, Any]) -> str:
    if "files" in source:
        return ", ".join(f"`{Path(file['path']).name}` (SHA-256 `{file['sha256']}`)" for file in source["files"])
    if "toy" in source or source["hub"] == "toy":
        return "the embedded toy corpus of `vaswani`"
    subset = f", {source['subset']}" if source["subset"] else ""
    return f"[{source['hub']}](https://huggingface.co/datasets/{source['hub']}){subset}, split {source['split']}"


def _score_lines(scores: Mapping[str, SetEvaluation]) -> list[str]:
    """A Markdown table, all of it by vaswani's own search."""
    if not scores:
        return ["None yet: the run was not evaluated."]
    rows = [
        f"| {name} | {result.checkpoint} | {score.name} | {score.value:.2f} [{score.low:.2f}, {score.high:.2f}] | "
        f"`{score.signature.replace('|', chr(92) + '|')}` |"
        for name, result in scores.items()
        for score in result.scores
    ]
    return [
        "Translated by `vaswani evaluate`; in brackets the 95% bootstrap interval.",
        "",
        "| set | parameters | score | value | signature |",
        "|---|---|---|---|---|",
        *rows,
    ]
