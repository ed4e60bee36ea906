#!/usr/bin/env bash
# Measures a GPU in under 8 minutes: loss and gradients against the CPU's, training of base and big in bfloat16 (tokens a
# second, share of the device's matrix rate, memory), attention plain and fused, decoding.
#   scripts/setup.sh cuda && scripts/benchmark_gpu.sh [DIRECTORY]      writes results there; default benchmarks/gpu
#   JAX_PLATFORMS=cpu scripts/benchmark_gpu.sh --toy [DIRECTORY]       the same at toy size, to see that it works
set -euo pipefail
cd "$(dirname "$0")/.."
toy=()
base=configs/base.toml big=configs/big.toml seconds=20 sentences=512 longest=4096 V=37000 batch=8 each=1
tokens=(--train.max-tokens-per-device 25600)  # one micro-batch: 25,000 tokens are 98 rows of 256
if [[ "${1:-}" == --toy ]]; then
    shift
    toy=(--model.N 1 --model.d-model 32 --model.d-ff 64 --model.h 2 --model.d-k 16
         --model.d-v 16 --train.tokens-per-update 512 --train.row-length 64 --data.max-tokens 64)
    seconds=0.1 sentences=4 longest=128 V=300 batch=1 each=0.05 tokens=()
fi
if [[ "${1:-}" == --help ]]; then
    sed -n '2,5s/^# \{0,1\}//p' "$0"
    exit
elif (( $# > 1 )) || [[ "${1:-}" == -* ]]; then
    echo "benchmark_gpu.sh: $*: one directory is expected, after --toy or alone; see --help" >&2
    exit 2
fi
out=${1:-benchmarks/gpu}
python=${PYTHON:-.venv/bin/python}
mkdir -p "$out"

failed=0
part() {  # NAME ARGUMENTS...: a part that fails must not stop the others
    local begin=$SECONDS left=$(( SECONDS < 470 ? 470 - SECONDS : 1 ))
    echo "== $1" >&2
    timeout $(( left < 150 ? left : 150 )) "$python" "${@:2}" || { echo "benchmark_gpu.sh: $1 failed (exit code $?)" >&2; failed=1; }
    echo "== $1: $(( SECONDS - begin )) s" >&2
}
gpu=scripts/benchmark_gpu.py bf16=(--model.dtype bfloat16)
part "check" $gpu check $base "${toy[@]}" --vocabulary $V --out "$out/check.json"
for config in $base $big; do
    name=$(basename "$config" .toml)
    part "train $name" $gpu train "$config" "${bf16[@]}" "${tokens[@]}" "${toy[@]}" --vocabulary $V --seconds $seconds \
        --out "$out/train_$name.json"
done
part "attention" scripts/benchmark_attention.py --dtype bfloat16 --batch $batch --longest $longest --seconds $each \
    --out "$out/attention"
part "decode base" $gpu decode $base "${bf16[@]}" --decode.batch-tokens 16384 "${toy[@]}" --vocabulary $V \
    --sentences $sentences --out "$out/decode_base.json"
exit $failed
