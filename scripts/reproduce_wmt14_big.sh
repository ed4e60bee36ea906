#!/usr/bin/env bash
# The paper's big model on WMT14 English-German, the whole way to its scores: 300,000 updates of 25,000 + 25,000 tokens,
# divided among all devices at hand (the paper: 8), by accumulation where they hold less at once.
#   scripts/setup.sh cuda && scripts/reproduce_wmt14_big.sh --model.dtype bfloat16
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh
exec .venv/bin/vaswani reproduce configs/big.toml "$@"
