#!/bin/sh
# A fresh environment with simdx and the named extras, every file of it by its hash in lock.txt.
#
#   sh requirements/install.sh FOLDER EXTRAS [PIP OPTIONS]         in the project's folder
#   sh requirements/install.sh /opt/simdx service,openai
#   sh requirements/install.sh /opt/simdx service,sentence -c requirements/lock-cuda.txt
#
# Wheels only: building a package would fetch build tools nobody has locked. simdx itself is built here, with
# the locked build tools, and handed to pip by the hash of what was built.
set -eu
folder=$1 extras=$2
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
lock=requirements/lock.txt

# An older pip does not take hashes from a constraints file. The locked one does, so it comes first.
sed -n '/^pip==/,/[^\\]$/p' "$lock" > "$work/pip.txt"
python3 -m venv "$work/tools"
pip="$work/tools/bin/python -m pip --disable-pip-version-check"
$pip install --quiet --require-hashes --only-binary :all: -r "$work/pip.txt"
$pip install --quiet --require-hashes --only-binary :all: -c "$lock" hatchling
$pip wheel --quiet --no-deps --no-build-isolation --no-index --wheel-dir "$work" .

wheel=$(ls "$work"/simdx-*.whl)
{
    cat "$work/pip.txt" # `simdx models pull` runs it
    echo "simdx[$extras] @ file://$wheel --hash=sha256:$(sha256sum "$wheel" | cut -c1-64)"
} > "$work/wanted.txt"
python3 -m venv --without-pip "$folder"
$pip --python "$folder/bin/python" install --no-cache-dir --require-hashes --only-binary :all: \
    -c "$lock" -r "$work/wanted.txt" "$@"
$pip --python "$folder/bin/python" check
