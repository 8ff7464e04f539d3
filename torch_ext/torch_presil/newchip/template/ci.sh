#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the chip toy, asks it to keep Presil's promises, and runs a PyTorch layer on it. Ends with the first failure.
set -euo pipefail
cd "$(dirname "$0")"
python=@PYTHON@
sources=@SOURCES@
export PATH="$(dirname "$python"):$PATH" # cmake and ninja come with Presil
cmake -B build -DCMAKE_BUILD_TYPE=Release
cmake --build build -j"$(nproc)"
if [ -x "$sources/presil" ]; then
  # A source tree: what ./presil has built, as it is. ./presil would build again, under the feet of what runs there.
  presil=("$python" "$sources/torch_ext/torch_presil/cli.py")
  export PRESIL_BUILD_DIR=${PRESIL_BUILD_DIR:-$sources/build/fast}
  export PYTHONPATH=$PRESIL_BUILD_DIR/python${PYTHONPATH:+:$PYTHONPATH}
else
  presil=("$(dirname "$python")/presil")
fi
"${presil[@]}" conform build/libpresil_sim_toy_check.so --junit build/conform.xml --html build/conform.html
PRESIL_LIBRARY_PATH=build PRESIL_CHIP=toy "$python" tests/layer.py
