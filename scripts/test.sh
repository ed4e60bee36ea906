#!/usr/bin/env bash
# All checks: format, lint, types, who imports whom, tests. With arguments, only pytest, with them:
# scripts/test.sh tests/decoding -k wide
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh
export JAX_PLATFORMS="${JAX_PLATFORMS:-cpu}"  # the tolerances are those of float32 products; a GPU rounds to TF32
if (( $# > 0 )); then
    exec .venv/bin/pytest "$@"
fi
.venv/bin/ruff format --check
.venv/bin/ruff check
PYRIGHT_PYTHON_IGNORE_WARNINGS=1 .venv/bin/pyright
.venv/bin/lint-imports
.venv/bin/pytest --numprocesses 2
