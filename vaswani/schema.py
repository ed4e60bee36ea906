"""Every setting of a run. The defaults are the paper's base model on WMT14 English-German.

`configs/base.toml` lists every key with its default; a test holds the two equal.
"""

from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import ConfigDict, Field

_SCHEMA = ConfigDict(extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False)

Positive = Annotated[int, Field(gt=0)]
NonNegative = Annotated[int, Field(ge=0)]
Probability = Annotated[float, Field(ge=0.0, lt=1.0)]


@dataclass(frozen=True)
class ToyConfig:
    """The embedded corpus (`data.corpus = "toy"`), made by `vaswani/data/toy/grammar.py`."""

    __pydantic_config__ = _SCHEMA

    train_pairs: Positive = 20_000
    """Training pairs to make."""
    test_pairs: Positive = 500
    """Pairs in each of the validation set and the two test sets."""
    difficulty: Annotated[int, Field(ge=1, le=3)] = 1
    """1 to 3: how many words and clauses a sentence may have. For a sweep, take one whose scores are not saturated."""
    seed: NonNegative = 1706
    """The same seed makes the same corpus."""


@dataclass(frozen=True)
class DataConfig:
    """Which text, how it is cleaned, and the joint byte-pair encoding (section 5.1)."""

    __pydantic_config__ = _SCHEMA

    name: str = "wmt14_en_de"
    """Name of the prepared corpus. It is stored in prepared/NAME; every run on it shares it."""
    corpus: str = "wmt/wmt14"
    """A data set of the Hugging Face hub, or "toy" for the embedded corpus."""
    subset: str = "de-en"
    """The configuration of the hub's data set ("" if it has none)."""
    splits: dict[str, str] = field(default_factory=lambda: {"newstest2013": "validation", "newstest2014": "test"})
    """For each set, the name of the hub's split, where the two names differ."""
    dir: str = ""
    """Read {set}.{language}[.gz], or {set}.parquet|json|jsonl|csv, from this directory instead of the hub."""
    source: str = "en"
    """Source language."""
    target: str = "de"
    """Target language."""
    train: str = "train"
    """The set for training; no other set is cleaned."""
    valid: str = "newstest2013"
    """The validation set: for early stopping, the best checkpoint, and all tuning."""
    tests: tuple[str, ...] = ("newstest2014",)
    """The sets that are translated and scored at the end."""
    limit: NonNegative = 0
    """Train on a seeded random sample of this many pairs (0: all pairs)."""
    max_tokens: Positive = 256
    """Drop training pairs with more tokens than this on either side, end symbol included (as tensor2tensor does)."""
    max_length_ratio: Annotated[float, Field(ge=0.0)] = 4.0
    """Drop training pairs with more than this many times as many characters on one side as on the other (0: all)."""
    deduplicate: bool = True
    """Keep only the first of identical training pairs."""
    vocab_size: Annotated[int, Field(gt=260, le=1_000_000)] = 37_000
    """Size of the joint vocabulary (BPE). It includes the special symbols and 256 byte pieces."""
    tokenizer: str = ""
    """Use this SentencePiece model instead of learning one. To fine-tune a run, give its tokenizer.model."""
    toy: ToyConfig = field(default_factory=ToyConfig)
    """The embedded corpus; only read where corpus is "toy"."""


@dataclass(frozen=True)
class ModelConfig:
    """Figure 1, with the symbols of Table 3."""

    __pydantic_config__ = _SCHEMA

    N: Positive = 6
    """Layers of the encoder, and of the decoder."""
    d_model: Annotated[int, Field(gt=0, multiple_of=2)] = 512
    """Width of every sub-layer's output and of the embedding (even: sines and cosines come in pairs)."""
    d_ff: Positive = 2048
    """Inner width of the feed-forward network."""
    h: Positive = 8
    """Attention heads."""
    d_k: Positive = 64
    """Width of a head's queries and keys. It need not be d_model / h (Table 3, rows A and B)."""
    d_v: Positive = 64
    """Width of a head's values. It need not be d_model / h."""
    P_drop: Probability = 0.1
    """Dropout on each sub-layer's output and on the embeddings plus positions (section 5.4)."""
    positions: Literal["sinusoidal", "learned"] = "sinusoidal"
    """Positional encoding (section 3.5); "learned" is Table 3, row E."""
    max_positions: Positive = 1024
    """Rows of each learned position table; a longer source is truncated with a warning."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Type of the matrix products; parameters, softmax, LayerNorm and loss stay float32."""


@dataclass(frozen=True)
class TrainConfig:
    """Section 5: batches, optimiser, regularisation, and what is watched and kept on the way."""

    __pydantic_config__ = _SCHEMA

    steps: Positive = 100_000
    """Updates of the parameters."""
    max_minutes: Annotated[float, Field(ge=0.0)] = 0.0
    """Stop after this many minutes of training, summed over all starts, without compiling (0: no bound)."""
    tokens_per_update: Positive = 25_000
    """Source tokens of one update, and as many target tokens, over all devices together (section 5.1)."""
    row_length: Positive = 256
    """Length of a packed row in tokens. Several pairs share a row. A longer pair does not fit."""
    max_tokens_per_device: Positive = 8192
    """Tokens per side that one device computes at once. A larger update is accumulated from micro-batches."""
    warmup: Positive = 4000
    """Updates until the learning rate's peak (equation 3)."""
    lr_scale: Annotated[float, Field(gt=0.0)] = 1.0
    """Factor of the learning rate (equation 3)."""
    beta_1: Probability = 0.9
    """Adam's decay of the mean gradient."""
    beta_2: Probability = 0.98
    """Adam's decay of the mean squared gradient."""
    epsilon: Annotated[float, Field(gt=0.0)] = 1e-9
    """Adam's epsilon."""
    label_smoothing: Probability = 0.1
    """epsilon_ls: the share of probability spread over the whole vocabulary (section 5.4)."""
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 1706
    """Seed of the initial parameters, the order of the data, and dropout."""
    log_every: Positive = 100
    """Updates between log lines."""
    valid_every: Positive = 2000
    """Updates between validations: unsmoothed perplexity, BLEU by beam search, sample translations."""
    valid_lines: NonNegative = 500
    """Lines of the validation set, from the first, that are translated for BLEU (0: none). Perplexity takes all."""
    checkpoint_every: NonNegative = 0
    """Updates between checkpoints (0: by time only)."""
    checkpoint_minutes: Annotated[float, Field(ge=0.0)] = 10.0
    """Minutes between checkpoints (0: by updates only). The paper's interval is 10."""
    keep_last: Positive = 5
    """How many of the last checkpoints are kept. The best one is kept too."""
    average_last: Positive = 5
    """How many of the last checkpoints are averaged (section 6.1: 5 for base, 20 for big)."""
    patience: NonNegative = 0
    """Stop after this many validations in a row without a better perplexity (0: never)."""


@dataclass(frozen=True)
class DecodeConfig:
    """Beam search (section 6.1)."""

    __pydantic_config__ = _SCHEMA

    beam: Annotated[int, Field(gt=0, le=10_000)] = 4
    """Beam size: hypotheses that are kept at each step. 1 is greedy search."""
    alpha: Annotated[float, Field(ge=0.0)] = 0.6
    """Exponent of the length penalty ((5 + length) / 6)^alpha."""
    max_extra_tokens: Annotated[int, Field(ge=0, le=100_000)] = 50
    """An output, with its end symbol, has at most this many tokens more than its source."""
    max_source_length: Annotated[int, Field(gt=1, le=100_000)] = 1024
    """Limit of source tokens. A longer line is truncated with a warning."""
    batch_tokens: Annotated[int, Field(gt=0, le=10_000_000)] = 2048
    """Size of a batch in source tokens, padding included."""


@dataclass(frozen=True)
class Config:
    """Everything a run depends on."""

    __pydantic_config__ = _SCHEMA

    data: DataConfig = field(default_factory=DataConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    decode: DecodeConfig = field(default_factory=DecodeConfig)


# Settings that hold a path. In a file it is relative to that file, on the command line to the working directory.
PATHS = ("data.dir", "data.tokenizer")

# What may differ from what an existing directory was made with: where text is read, budgets, intervals, what is kept
# and how it is decoded. A resumed run keeps every other setting, since its result depends on it. A sweep compares the
# results of its runs, so that less may differ between two of its starts.
MAY_DIFFER = {
    "run": {
        "data.dir", "data.tests", "train.steps", "train.max_minutes", "train.log_every", "train.valid_every",
        "train.valid_lines", "train.checkpoint_every", "train.checkpoint_minutes", "train.keep_last",
        "train.average_last", "train.patience", "decode.beam", "decode.alpha", "decode.max_extra_tokens",
        "decode.max_source_length", "decode.batch_tokens",
    },
    "sweep": {
        "data.dir", "data.tests", "train.log_every", "train.valid_lines", "train.checkpoint_every",
        "train.checkpoint_minutes", "train.keep_last", "train.average_last", "decode.batch_tokens",
    },
}  # fmt: skip
