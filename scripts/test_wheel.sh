#!/usr/bin/env bash
# Builds the wheel, installs it into a new environment, and uses it in an empty directory, where only what the wheel
# holds can be used. The packages that vaswani depends on are those of .venv, so that this takes seconds.
set -euo pipefail
cd "$(dirname "$0")/.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch" build' EXIT
unset PYTHONPATH  # pip would take a checkout on it for an installed vaswani

.venv/bin/pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir "$scratch" .
.venv/bin/python -m venv --without-pip "$scratch/env"
site=("$scratch"/env/lib/python*/site-packages)
.venv/bin/pip --python "$scratch/env/bin/python" install --quiet --disable-pip-version-check --no-deps "$scratch"/*.whl
echo "$PWD"/.venv/lib/python*/site-packages > "${site[0]}/locked.pth"  # read after the wheel's own packages

mkdir "$scratch/empty"
cd "$scratch/empty"
export PATH="$scratch/env/bin:$PATH" JAX_PLATFORMS="${JAX_PLATFORMS:-cpu}"
[[ $(python -c 'import vaswani; print(vaswani.__file__)') == "${site[0]}"/* ]]
vaswani config
vaswani config toy > mine.toml
small=(--data.toy.train-pairs 300 --data.toy.test-pairs 20 --data.vocab-size 500)
vaswani prepare toy "${small[@]}"
vaswani train mine.toml "${small[@]}" --train.steps 2 --train.valid-lines 0 --model.N 1 --model.d-model 16
python -c 'from vaswani import Translator; print(Translator("runs/mine").translate(["A dog runs."]))'
