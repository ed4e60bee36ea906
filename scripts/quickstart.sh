#!/usr/bin/env bash
# From text to BLEU on the embedded corpus: trains, averages, translates, scores, and writes a report, in 4 minutes.
# Takes the options of `vaswani reproduce`, for instance --train.steps 200.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh
exec .venv/bin/vaswani reproduce configs/toy.toml "$@"
