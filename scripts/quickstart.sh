#!/usr/bin/env bash
# The whole way on the embedded corpus: trains, averages, translates, scores, and writes a report. Arguments are
# `vaswani reproduce`'s own, for instance --train.steps 200.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh
exec .venv/bin/vaswani reproduce configs/toy.toml "$@"
