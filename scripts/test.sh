#!/usr/bin/env bash
# All checks: format, lint, types, imports, tests. With arguments it runs only pytest, with these arguments:
# scripts/test.sh tests/decoding -k wide
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh
export JAX_PLATFORMS="${JAX_PLATFORMS:-cpu}"  # the tolerances fit float32 products; a GPU rounds to TF32
if (( $# > 0 )); then
    exec .venv/bin/pytest "$@"
fi
.venv/bin/ruff format --check
.venv/bin/ruff check
PYRIGHT_PYTHON_IGNORE_WARNINGS=1 .venv/bin/pyright
.venv/bin/lint-imports
.venv/bin/pytest --numprocesses 2
