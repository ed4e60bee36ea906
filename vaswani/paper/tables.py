"""The paper's own numbers as data: Tables 1 to 3 and the settings of sections 5 and 6.1.

Source: Vaswani et al., "Attention Is All You Need", arXiv 1706.03762v7. None stands for a blank cell.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class LayerType:
    """A row of Table 1, for sequence length n, width d, kernel width k and neighbourhood r."""

    name: str
    complexity: str
    """Operations per layer."""
    sequential_operations: str
    maximum_path_length: str


TABLE_1 = (
    LayerType("Self-Attention", "O(n²·d)", "O(1)", "O(1)"),
    LayerType("Recurrent", "O(n·d²)", "O(n)", "O(n)"),
    LayerType("Convolutional", "O(k·n·d²)", "O(1)", "O(log_k(n))"),
    LayerType("Self-Attention (restricted)", "O(r·n·d)", "O(1)", "O(n/r)"),
)


@dataclass(frozen=True)
class System:
    """A row of Table 2, on newstest2014: case-sensitive, Moses-tokenised BLEU, German compounds split."""

    name: str
    bleu_en_de: float
    bleu_en_fr: float
    flops_en_de: float
    """Training cost of the English-German model, in floating-point operations."""


# The single models of Table 2. English-French for the big model is 41.0 in the NIPS version of the paper.
TABLE_2 = (
    System("GNMT + RL", 24.6, 39.92, 2.3e19),
    System("ConvS2S", 25.16, 40.46, 9.6e18),
    System("MoE", 26.03, 40.56, 2.0e19),
    System("Transformer (base model)", 27.3, 38.1, 3.3e18),
    System("Transformer (big)", 28.4, 41.8, 2.3e19),
)


@dataclass(frozen=True)
class Variation:
    """A row of Table 3, on newstest2013, without averaging of checkpoints. None: as in the base model."""

    row: str
    perplexity: float
    """Per word-piece, from the unsmoothed likelihood."""
    bleu: float
    params_millions: int | None = None
    N: int | None = None
    d_model: int | None = None
    d_ff: int | None = None
    h: int | None = None
    d_k: int | None = None
    d_v: int | None = None
    P_drop: float | None = None
    epsilon_ls: float | None = None
    steps: int | None = None
    positions: str | None = None
    """ "learned" replaces the sinusoids."""


TABLE_3 = (
    Variation(
        "base", 4.92, 25.8, 65,
        N=6, d_model=512, d_ff=2048, h=8, d_k=64, d_v=64, P_drop=0.1, epsilon_ls=0.1, steps=100_000,
        positions="sinusoidal",
    ),
    Variation("A1", 5.29, 24.9, h=1, d_k=512, d_v=512),
    Variation("A2", 5.00, 25.5, h=4, d_k=128, d_v=128),
    Variation("A3", 4.91, 25.8, h=16, d_k=32, d_v=32),
    Variation("A4", 5.01, 25.4, h=32, d_k=16, d_v=16),
    Variation("B1", 5.16, 25.1, 58, d_k=16),
    Variation("B2", 5.01, 25.4, 60, d_k=32),
    Variation("C1", 6.11, 23.7, 36, N=2),
    Variation("C2", 5.19, 25.3, 50, N=4),
    Variation("C3", 4.88, 25.5, 80, N=8),
    Variation("C4", 5.75, 24.5, 28, d_model=256, d_k=32, d_v=32),
    Variation("C5", 4.66, 26.0, 168, d_model=1024, d_k=128, d_v=128),
    Variation("C6", 5.12, 25.4, 53, d_ff=1024),
    Variation("C7", 4.75, 26.2, 90, d_ff=4096),
    Variation("D1", 5.77, 24.6, P_drop=0.0),
    Variation("D2", 4.95, 25.5, P_drop=0.2),
    Variation("D3", 4.67, 25.3, epsilon_ls=0.0),
    Variation("D4", 5.47, 25.7, epsilon_ls=0.2),
    Variation("E", 4.92, 25.7, positions="learned"),
    Variation("big", 4.33, 26.4, 213, N=6, d_model=1024, d_ff=4096, h=16, P_drop=0.3, steps=300_000),
)  # fmt: skip


@dataclass(frozen=True)
class Recipe:
    """How a model of Table 2 was trained (section 5) and decoded (section 6.1)."""

    steps: int
    seconds_per_step: float
    """On eight P100 GPUs."""
    P_drop: float
    """The big model's was 0.1 for English-French."""
    averaged_checkpoints: int
    tokens_per_update: int = 25_000
    """Source tokens, approximately. There are as many target tokens."""
    beta_1: float = 0.9
    beta_2: float = 0.98
    epsilon: float = 1e-9
    warmup: int = 4000
    epsilon_ls: float = 0.1
    checkpoint_minutes: float = 10.0
    beam: int = 4
    alpha: float = 0.6
    """Exponent of the length penalty."""
    max_extra_tokens: int = 50
    """An output has at most this many tokens more than its input."""


BASE = Recipe(steps=100_000, seconds_per_step=0.4, P_drop=0.1, averaged_checkpoints=5)
BIG = Recipe(steps=300_000, seconds_per_step=1.0, P_drop=0.3, averaged_checkpoints=20)
