#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs Presil from this folder alone, without network or root, into a new Python environment:
# ./install [DIRECTORY, default ./presil-venv]
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
target=${1:-presil-venv}
python=${PRESIL_PYTHON:-python@PYTHON@}
command -v "$python" >/dev/null || python=python3
found=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])') || {
  echo "install: no Python; @PYTHON@ is needed (PRESIL_PYTHON=PATH)" >&2
  exit 2
}
[ "$found" = @PYTHON@ ] || {
  echo "install: these wheels are for Python @PYTHON@, $python is $found: name another one with PRESIL_PYTHON=PATH" >&2
  exit 2
}
"$python" -c "import venv, ensurepip" 2>/dev/null || {
  echo "install: $python can't make environments: install its venv module (on Debian, as root:" \
    "apt-get install python@PYTHON@-venv), or name another Python with PRESIL_PYTHON=PATH" >&2
  exit 2
}
[ ! -e "$target" ] || { echo "install: $target is already there: name a new directory" >&2; exit 2; }
"$python" -m venv "$target"
"$target/bin/python" -m pip install --disable-pip-version-check --no-index --no-deps --progress-bar off "$here"/*.whl
"$target/bin/python" -m torch_presil.diagnose
echo "Ready: $target/bin/presil --help"
