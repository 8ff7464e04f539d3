# SPDX-License-Identifier: Apache-2.0
"""The code of a fast library lies on a huge page (docs/simulation.md): outside its file, at a multiple of 2 MiB, and
does the same; with PRESIL_HUGE_CODE=0 in its file. Loaded, unloaded, loaded again."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from bench import built

SYSTEM_HAS_THEM = Path("/sys/kernel/mm/transparent_hugepage/enabled").exists()
LIBRARY = built.library("libpresil_sim_tiny_fast.so")
SCRIPT = """
import _ctypes, ctypes, json, sys
sys.path.insert(0, sys.argv[2])
from presil_transport import Transport

def lies(function):
    at = ctypes.cast(function, ctypes.c_void_p).value
    for line in open("/proc/self/maps"):
        span, rights, *_, name = (line.rstrip("\\n") + " ").split(" ", 5)
        begin, end = (int(a, 16) for a in span.split("-"))
        if begin <= at < end:
            return {"begin": begin, "rights": rights, "file": name.strip()}

out = []
for _ in range(2):
    library = ctypes.CDLL(sys.argv[1])
    out.append(lies(library.presil_transport_entry))
    chip = Transport(sys.argv[1], "default", 1 << 20)
    out[-1]["identity"] = chip.read32(0)
    del chip
    _ctypes.dlclose(library._handle)
print(json.dumps(out))
"""


def places(**environment):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, LIBRARY, built.ROOT / "sim" / "python"],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("wish", ["", "0"])
def test_code_lies_where_it_was_asked_for(wish):
    found = places(PRESIL_HUGE_CODE=wish)
    assert len(found) == 2
    for place in found:
        assert place["identity"] == 0x5052534C and place["rights"].startswith("r-x")
        if wish == "0" or not SYSTEM_HAS_THEM:
            assert place["file"] == str(LIBRARY)
        else:
            assert (place["file"], place["begin"] % (2 << 20)) == ("", 0)
