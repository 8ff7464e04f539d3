# SPDX-License-Identifier: Apache-2.0
"""The fuzzers of tests/c, long, under AddressSanitizer and UBSan, with a seed of the day.

Each prints its seed; a failure prints the line that replays it: PRESIL_FUZZ_SEED=... PRESIL_FUZZ_CASES=... PROGRAM.
"""

import datetime
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ASAN = ROOT / "build" / "asan"
SEED = os.environ.get("PRESIL_FUZZ_SEED") or os.environ.get("PRESIL_DAY") or f"{datetime.date.today():%Y%m%d}"
# program, its arguments, cases: two to five minutes of one core each
PROGRAMS = [
    ("test_fuzz_program", [], 400_000),
    ("test_socket_fuzz", [], 2_000_000),
    ("test_fuzz_config", ["tests/systemc/vp_tiny.ini"], 200_000),
    # Twice so many runs: of files, and of contents with right hashes. PRESIL_FUZZ_CASES=5000000 is ten times that.
    ("test_fuzz_bundle", [], 500_000),
    # Replayed on the model, and a share of them in other ways; ten times that: PRESIL_FUZZ_CASES=10000000.
    ("test_fuzz_replay", [], 1_000_000),
]


@pytest.mark.parametrize(("program", "arguments", "cases"), PROGRAMS)
def test_fuzz(program, arguments, cases):
    libraries = ASAN / "tests" / "c" / "libraries"
    environment = {
        **os.environ,
        "PRESIL_FUZZ_SEED": SEED,
        "PRESIL_FUZZ_CASES": os.environ.get("PRESIL_FUZZ_CASES", str(cases)),
        "PRESIL_LIBRARY_PATH": str(libraries),
        "PRESIL_MEMORY": "",
    }
    line = (
        f"PRESIL_FUZZ_SEED={SEED} PRESIL_FUZZ_CASES={environment['PRESIL_FUZZ_CASES']} "
        f"PRESIL_LIBRARY_PATH={libraries} {ASAN / 'bin' / program} {' '.join(arguments)}"
    )
    print(line)
    done = subprocess.run(
        [str(ASAN / "bin" / program), *arguments], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    print(done.stdout[-4000:])
    assert done.returncode == 0, f"replay: {line}\n{done.stderr[-8000:]}"
