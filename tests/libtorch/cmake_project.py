# SPDX-License-Identifier: Apache-2.0
"""CMake projects of users, configured and built against the build tree."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

BUILD = Path(os.environ.get("PRESIL_BUILD_DIR", Path(__file__).parents[2] / "build" / "check"))


def build(source: Path, target: Path, **definitions) -> subprocess.CompletedProcess:
    """Configures and builds a CMake project; the configuration's result if that fails."""
    launcher = shutil.which("ccache")
    options = [f"-D{k}={v}" for k, v in {"Presil_DIR": BUILD / "cmake", **definitions}.items()]
    if launcher:
        options += [f"-DCMAKE_C_COMPILER_LAUNCHER={launcher}", f"-DCMAKE_CXX_COMPILER_LAUNCHER={launcher}"]
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    for command in (["cmake", "-S", source, "-B", target, "-G", "Ninja", *options], ["cmake", "--build", target]):
        result = subprocess.run(list(map(str, command)), env=environment, capture_output=True, text=True)
        if result.returncode:
            return result
    return result


def built(source: Path, target: Path) -> Path:
    """The build directory; raises with what the compiler said."""
    result = build(source, target)
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
    return target
