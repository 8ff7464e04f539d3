# SPDX-License-Identifier: Apache-2.0
"""Several launches in flight on RTL (relay_top.sv, which takes four): test_relay.c in builds fast and check."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests/conform"))
from conform_runs import check  # noqa: E402

BUILD = Path(os.environ.get("PRESIL_BUILD_DIR", ROOT / "build" / "check"))


@pytest.mark.parametrize("build", ("fast", "check"))
def test_several_in_flight(build, tmp_path):
    own = {"PRESIL_RELAY_BUILD": build, "PRESIL_RELAY_BUNDLE": str(tmp_path / "relay.presil")}
    environment = {**os.environ, **own, "PRESIL_LIBRARY_PATH": str(BUILD / "lib")}
    run = subprocess.run([BUILD / "bin/test_relay"], env=environment, capture_output=True, text=True, timeout=240)
    assert run.returncode == 0 and "[  PASSED  ] 7 test(s)." in run.stdout + run.stderr, run.stdout + run.stderr
    replayed(tmp_path / "relay.presil", build)


def replayed(bundle: Path, build: str) -> None:
    """Launches with scratch memory: the same bits and cycles, where that was; not where it isn't, or is too small."""
    simulator = BUILD / f"lib/libpresil_sim_relay_{build}.so"
    for fault, status, text in (("", 0, "4 of 4 launches as recorded"), ("spills", 1, "2 of 4 launches as recorded")):
        environment = {**os.environ, "PRESIL_LIBRARY_PATH": str(BUILD / "lib"), "PRESIL_RELAY": fault}
        command = [BUILD / "bin/presil-replay", bundle, "--library", simulator]
        run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
        assert run.returncode == status and text in run.stdout, run.stdout + run.stderr


# Of relay.c -> what stands there instead, and what conform says.
FAULTS = {
    "over too soon": ("over != chip->over;", "over != 0;", "bus transactions are outstanding"),
    "an empty one is forgotten": ("chip->told += done;", "chip->told += 0;", "no progress"),
    "another's registers": (
        "{DST, (uint32_t)to}",
        "{DST, (uint32_t)(to ^ (chip->submitted - chip->told > 1 ? CHUNK : 0))}",
        "in flight with others",
    ),
    "the order": (
        "chip->submitted++;",
        "static uint64_t last; if (chip->submitted - chip->told && last == to) return PRESIL_EINVAL; last = to; "
        "chip->submitted++;",
        "relay: ",
    ),
}


def relay(fault: tuple, folder: Path) -> Path:
    """The chip's library with other text in its C."""
    old, new, _ = fault
    text = (Path(__file__).parent / "relay.c").read_text()
    assert text.count(old) == 1, old
    (folder / "relay.c").write_text(text.replace(old, new))
    made = folder / "libpresil_chip_relay.so"
    options = "-std=gnu11", "-O1", "-shared", "-fPIC", "-w", f"-I{ROOT}/driver/include"
    subprocess.run(["cc", *options, folder / "relay.c", "-o", made], check=True)
    return made


def test_conform_asks_for_several_in_flight():
    for build in ("fast", "check"):
        simulator = BUILD / f"lib/libpresil_sim_relay_{build}.so"
        found = check("queue", simulator, "-", BUILD / "lib/libpresil_chip_relay.so")
        assert found["status"] == "passed" and found["comparisons"] == 45, found
        assert found["text"] == "up to 4 at once"


@pytest.mark.parametrize("fault", FAULTS)
def test_conform_finds_what_is_wrong_in_flight(fault, tmp_path):
    chip = relay(FAULTS[fault], tmp_path)
    found = check("queue", BUILD / "lib/libpresil_sim_relay_fast.so", "-", chip)
    assert found["status"] == "failed" and FAULTS[fault][2] in found["text"], found


@pytest.mark.parametrize(
    "fault, text",
    (
        ("", ""),
        ("spills", "it wrote behind its scratch memory of 4096 bytes"),
        ("stale", "copy of 4096 bytes"),
    ),
)
def test_conform_asks_for_scratch_memory(fault, text):
    simulator = BUILD / "lib/libpresil_sim_relay_fast.so"
    found = check("scratch", simulator, "-", BUILD / "lib/libpresil_chip_relay.so", PRESIL_RELAY=f"all,{fault}")
    assert found["status"] == ("failed" if fault else "passed") and text in found["text"], found
    assert fault or found["comparisons"] == 18, found
