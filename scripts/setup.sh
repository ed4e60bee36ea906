#!/usr/bin/env bash
# Makes .venv with the exact versions of constraints.txt, unless it exists and is up to date. The other scripts call
# this one first. Extras are arguments: scripts/setup.sh cuda tensorboard
set -euo pipefail
cd "$(dirname "$0")/.."

# Written last, so that an interrupted installation is done again; the path, because an environment cannot be moved.
stamp=.venv/installed-from
wanted="$PWD $(cat constraints.txt pyproject.toml | cksum)"
if (( $# == 0 )) && [[ -f $stamp && "$(< $stamp)" == "$wanted" ]]; then
    exit 0
fi

for python in python3 python3.13 python3.12 python3.11 none; do
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2> /dev/null && break
done
if [[ $python == none ]]; then
    echo "vaswani needs Python 3.11 or newer; python3 is $(python3 --version 2>&1 || true)" >&2
    exit 2
fi

echo "Installing into .venv the versions of constraints.txt (once; about two minutes) ..." >&2
"$python" -m venv .venv
rm -f "$stamp"
extras=$(IFS=,; echo "dev${*:+,$*}")
.venv/bin/pip install -qq --disable-pip-version-check --constraint constraints.txt --editable ".[$extras]"
echo "$wanted" > "$stamp"
echo "Installed." >&2
