#!/usr/bin/env bash
# Writes requirements.lock from pyproject.toml: every runtime and dev dependency, pinned, with the hashes of all its files.
#
# torch is left out: which build fits (CPU or CUDA) depends on the machine, so the Makefile installs it first, by pin.
# The CUDA packages a default torch build would bring are left out with it. Run it under the lowest supported Python, so
# that backports needed there are in the lock; the hashes cover all Pythons and platforms.
set -euo pipefail
cd "$(dirname "$0")/.."

python=${1:-python3.11}
torch_pin=${2:?usage: scripts/lock.sh PYTHON TORCH_VERSION (make lock passes both)}
pip_tools_pin=7.6.2

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$python" -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet "pip-tools==$pip_tools_pin"
echo "torch==$torch_pin" >"$work/constraints.txt"

CUSTOM_COMPILE_COMMAND="make lock" "$work/venv/bin/pip-compile" --quiet \
    --extra dev --constraint "$work/constraints.txt" --generate-hashes --strip-extras --annotation-style line \
    --unsafe-package torch --no-header \
    --no-emit-index-url --no-emit-find-links --no-emit-trusted-host --no-emit-options \
    --output-file "$work/requirements.lock" pyproject.toml

# One block per package: a line that starts with its name, then indented hash lines. Torch's binary companions go.
{
    echo "# Written by 'make lock' from pyproject.toml; do not edit. torch is installed first, by the Makefile's pin."
    awk '/^[A-Za-z0-9]/ { keep = ($0 !~ /^(torch|triton|nvidia-[a-z0-9-]*|cuda-[a-z0-9-]*)==/) } /^#/ { next } NF && keep' \
        "$work/requirements.lock"
} >"$work/clean.lock"

# Only an address or a path has a slash; only an option starts with a dash.
if grep --line-number --extended-regexp '/|^-' "$work/clean.lock"; then
    echo "lock.sh: the lock names a host or a path of this machine (lines above); requirements.lock was not changed" >&2
    exit 1
fi
mv "$work/clean.lock" requirements.lock
echo "requirements.lock: $(grep --count '==' requirements.lock) packages"
