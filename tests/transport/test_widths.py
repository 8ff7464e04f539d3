# SPDX-License-Identifier: Apache-2.0
"""tests/c/test_bursts.c and test_memory_model.c through port maps (docs/ports.md): every legal burst, narrow,
unaligned, of any type, on buses of 32, 512 and 1024 bits, and of 32 bits on the lanes of a bus of 1024."""

import subprocess
from pathlib import Path

import pytest

from .servers import BUILD


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    folder, source = tmp_path_factory.mktemp("widths"), Path(__file__).parent / "widths"
    for command in (
        ["cmake", "-S", source, "-B", folder, "-G", "Ninja", f"-DPresil_DIR={BUILD / 'cmake'}"],
        ["cmake", "--build", folder],
    ):
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return folder


# Of what is narrow on a wide bus no queue forms at the memory, so that nothing is reordered there: no memory_model.
RUNS = [(name, test) for name in ("burst4", "burst64", "burst128") for test in ("bursts", "memory_model")]


@pytest.mark.parametrize(("name", "test"), [*RUNS, ("burst4in128", "bursts")])
def test_any_burst(built, name, test):
    library = built / f"libpresil_sim_{name}_fast.so"
    done = subprocess.run([BUILD / "bin" / f"test_{test}", library], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0 and "PASSED" in done.stderr, done.stdout[-3000:] + done.stderr[-3000:]
