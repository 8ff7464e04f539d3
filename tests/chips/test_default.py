# SPDX-License-Identifier: Apache-2.0
"""Nobody names a configuration: PyTorch takes the default of the one chip that has one, and names none of its own."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("PRESIL_BUILD_DIR", ROOT / "build" / "check"))
PAPER = BUILD / "tests/c/libraries/libpresil_chip_paper.so"
OURS = BUILD / "lib/libpresil_chip_presil.so"

CODE = """
import torch, torch_presil
before = torch.backends.presil.chip
try:
    said = torch.presil.get_device_properties().config
except (RuntimeError, ValueError) as e:
    said = str(e).splitlines()[0]
print(repr(before), repr(torch.backends.presil.chip), said)
"""


def start(folder: Path, chips: dict, *words, **more) -> subprocess.CompletedProcess:
    for name, library in chips.items():
        (folder / f"libpresil_chip_{name}.so").symlink_to(library)
    own = {"PRESIL_CHIP": "", "PRESIL_MODE": "model", "PRESIL_MEMORY": str(1 << 28), "PRESIL_LIBRARY_PATH": str(folder)}
    environment = {**os.environ, **own, **more}
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=100, env=environment)


def run(folder: Path, chips: dict, code: str = CODE, **more) -> str:
    done = start(folder, chips, "-c", code, **more)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize(
    "how, more, expected",
    (
        ("twin", {}, "'base' 'base' base"),
        ("default,twin", {"PRESIL_CHIP_LIBRARY": str(PAPER)}, "'paper' 'paper' paper"),
        ("default,twin", {"PRESIL_CHIP": "tiny"}, "'tiny' 'tiny' tiny"),
    ),
)
def test_the_one_that_has_one(how, more, expected, tmp_path):
    assert run(tmp_path, {"paper": PAPER, "presil": OURS}, PRESIL_PAPER=how, **more) == expected


@pytest.mark.parametrize("how, chip", (("unsaid", ["paper"]), ("unsaid,default", [])))
def test_a_server_that_does_not_say(how, chip, tmp_path):
    """It has what was asked for, or the chip's default: both to open and to start."""
    library, socket = PAPER.with_name("libpresil_sim_paper_fast.so"), tmp_path / "socket"
    environment = {**os.environ, "PRESIL_PAPER": how, "PRESIL_CHIP_LIBRARY": str(PAPER), "PRESIL_MEMORY": str(1 << 26)}
    command = [BUILD / "bin/presil-serve", socket, "--library", library]
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            end = time.monotonic() + 60
            while not socket.exists():
                assert server.poll() is None and time.monotonic() < end
                time.sleep(0.01)
            asked = [BUILD / "bin/presil-info", *chip, "--rtl", "--transport", f"socket:{socket}"]
            done = subprocess.run(asked, env=environment, capture_output=True, text=True, timeout=60)
        finally:
            server.terminate()
    assert done.returncode == 0 and "chip           paper, configuration paper" in done.stdout, (
        done.stdout + done.stderr
    )


ASK = """
import os, torch, torch_presil
first = torch.backends.presil.chip
os.environ["PRESIL_PAPER"] = "twin"  # from here on it has no default
again = torch.backends.presil.chip
os.environ["PRESIL_CHIP_LIBRARY"] = os.environ["OTHER"]
print(first, again, repr(torch.backends.presil.chip))
"""


@pytest.mark.parametrize("other, found", ((OURS, "base"), (PAPER.parent / "none.so", "")))
def test_it_is_asked_once_and_again_where_the_environment_changes(other, found, tmp_path):
    more = {"PRESIL_CHIP_LIBRARY": str(PAPER), "PRESIL_PAPER": "default,twin", "OTHER": str(other)}
    assert run(tmp_path, {}, ASK, **more) == f"paper paper {found!r}"


SWEEP = """
from torch_presil.perf import grid
given = dict.fromkeys(("area", "batch", "clock", "memory", "transport", "jobs", "resume"))
given |= {"model": "m:f", "input": [], "seed": 0, "config": (), "sweep_dir": "."}
print(grid.Sweep.of("latency=1,2", given).chip)
"""


def test_commands_take_it(tmp_path):
    """Where no configuration is named: the platform, a sweep, the simulators of an installed package."""
    paper = {"PRESIL_PAPER": "default,twin", "PRESIL_CHIP_LIBRARY": str(PAPER), "PRESIL_BUILD_DIR": str(tmp_path)}
    program = tmp_path / "bin" / "presil-vp"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\ncat "$1" >&2\nexit 1\n')
    program.chmod(0o755)
    done = start(tmp_path, {}, "-m", "torch_presil.cli", "vp", **paper)
    assert done.returncode != 0 and "config = paper" in done.stdout, done.stdout + done.stderr
    assert run(tmp_path, {}, SWEEP, **paper) == "paper"
    done = start(tmp_path, {}, "-m", "torch_presil.simulators", **paper)
    assert done.returncode == 1 and "this is a build tree" in done.stderr, done.stderr


def test_commands_that_find_two_ask_for_one(tmp_path):
    done = start(tmp_path, {"paper": PAPER, "presil": OURS}, "-m", "torch_presil.simulators", PRESIL_PAPER="default")
    assert done.returncode == 2 and "more than one" in done.stderr, done.stderr
    place = {"PRESIL_PAPER": "default", "PRESIL_BUILD_DIR": str(tmp_path)}
    done = start(tmp_path, {}, "-m", "torch_presil.cli", "vp", **place)
    assert done.returncode == 2 and "name one with --chip" in done.stdout, done.stdout + done.stderr


def test_two_that_have_one(tmp_path):
    said = run(tmp_path, {"paper": PAPER, "presil": OURS}, PRESIL_PAPER="default,twin")
    assert said.startswith("'' '' ") and 'the chips "paper" and "presil" both have a default configuration' in said


@pytest.mark.parametrize("build", [str(BUILD), ""])  # with presil-info, and without, as an installed package
@pytest.mark.parametrize(
    "how, more, expected",
    (
        ("twin", {}, "base"),
        ("default,twin", {"PRESIL_CHIP_LIBRARY": str(PAPER)}, "paper"),
        ("twin", {"PRESIL_CHIP_LIBRARY": str(PAPER)}, ""),
    ),
)
def test_a_regression_that_names_none(how, more, expected, build, tmp_path):
    code = "from torch_presil.regress.command import Session; from torch_presil.regress.options import Options\n"
    code += "from rich.console import Console; print(Session(Options(), Console()).choice().default_chip)"
    more = {**more, "PRESIL_PAPER": how, "PRESIL_BUILD_DIR": build}
    assert run(tmp_path, {"paper": PAPER, "presil": OURS}, code, **more) == expected
