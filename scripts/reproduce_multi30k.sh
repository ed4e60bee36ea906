#!/usr/bin/env bash
# Multi30k English-German, from text to scores, in about an hour on two CPU cores. Takes the options of
# `vaswani reproduce`:
#   scripts/reproduce_multi30k.sh --data.dir DIR       # files {train,val,test_2016_flickr}.{en,de}[.gz] instead of the hub
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh
exec .venv/bin/vaswani reproduce configs/multi30k.toml "$@"
