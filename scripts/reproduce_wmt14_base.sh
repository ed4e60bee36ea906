#!/usr/bin/env bash
# The paper's base model on WMT14 English-German, from text to scores: 100,000 updates of 25,000 + 25,000 tokens. An
# update is divided among all devices (the paper: 8), and accumulated where their memory does not hold it at once.
#   scripts/setup.sh cuda && scripts/reproduce_wmt14_base.sh --model.dtype bfloat16
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh
exec .venv/bin/vaswani reproduce configs/wmt14_en_de.toml "$@"
