# SPDX-License-Identifier: Apache-2.0
"""Checks of kinds that neither our chip nor the template has: a chip that takes them all (tests/chip_stub/any_chip.c)
is right, and with one wrong bit in a result of the kind, its check fails."""

import contextlib
import os
import subprocess
from types import SimpleNamespace

import pytest
from conform_runs import BUILD, ROOT, check, library

from conform import chip_checks
from conform import driver_api as d
from conform.sweep import KINDS, in_place

SWEPT = {name: name.replace("-", "_") for name in KINDS}
SWEPT["pool-index"] = "pool_max"
SWEPT |= {"matmul": "matmul", "conv": "conv", "layouts": "conv", "pool": "pool_average", "verify": "matmul"}


IN_PLACE = len(in_place())


@pytest.fixture(scope="module")
def chip(tmp_path_factory):
    """The simulator library, with the chip's beside it."""
    folder = tmp_path_factory.mktemp("any")
    command = ["cc", "-std=c11", "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror"]
    command += [f"-I{ROOT}/driver/include", f"-I{ROOT}/tests/c", str(ROOT / "tests/chip_stub/any_chip.c")]
    command += [f"-L{BUILD}/lib", "-lpresil", f"-Wl,-rpath,{BUILD}/lib", "-o", str(folder / "libpresil_chip_stub.so")]
    subprocess.run(command, check=True)
    (folder / "libpresil_sim_stub_fast.so").symlink_to(library("stub_fast"))
    return folder / "libpresil_sim_stub_fast.so"


def asked(name, chip, faults=""):
    return check(name, chip, "-", PRESIL_ANY=faults, PRESIL_BUILD_DIR=os.environ.get("PRESIL_BUILD_DIR", str(BUILD)))


@pytest.mark.parametrize("name", SWEPT)
def test_a_chip_that_is_right_passes_and_a_wrong_bit_is_found(name, chip):
    found = asked(name, chip)
    assert found["status"] == "passed" and found["comparisons"] >= (1 if name == "verify" else 20), found
    found = asked(name, chip, f"wrong={SWEPT[name]}")
    assert found["status"] == "failed", found
    assert "expected (" in found["text"] or "chip and reference differ" in found["text"], found


@pytest.mark.parametrize("name, output", [("pool-index", "index"), ("norm", "mean"), ("norm", "rstd")])
def test_every_output_is_compared(name, output, chip):
    found = asked(name, chip, f"spoilt={output}")
    assert found["status"] == "failed" and f", {output}: element" in found["text"], found


def test_results_over_an_operand_are_asked_of_a_chip_that_says_so(chip):
    found = asked("elementwise", chip, "twice")
    assert found["status"] == "failed" and " over " in found["text"], found
    apart = asked("elementwise", chip, "twice apart")
    assert apart["status"] == "passed" and apart["comparisons"] == asked("elementwise", chip)["comparisons"] - IN_PLACE


STEPS = "residual", "scale", "packed-bias", "packed-scale"


def test_steps_that_are_right_pass(chip):
    found = asked("steps", chip)
    assert found["status"] == "passed" and "refused" not in found["text"], found


@pytest.mark.parametrize("fault", [*(f"shifted={name}" for name in STEPS), "loose", "swapped"])
def test_a_step_that_is_wrong_is_found(fault, chip):
    found = asked("steps", chip, fault)
    assert found["status"] == "failed" and "expected (" in found["text"], found


def test_a_kind_is_swept_around_its_limit(chip):
    """65536 elements are the most that the chip takes; more are refused."""
    assert "sizes up to 2730" in asked("norm", chip)["text"]


@pytest.mark.parametrize("name", ["conv", "layouts", "pool"])
def test_channels_are_asked_up_to_the_limit(name, chip):
    found = asked(name, chip, "few=300")
    assert found["status"] == "passed" and "sizes up to 300" in found["text"], found
    found = asked(name, chip, "wide=1000")
    assert found["status"] == "failed" and "expected (" in found["text"], found


def test_a_chip_that_takes_multiples_is_run_with_multiples(monkeypatch):
    ran = []

    class Case:
        def __init__(self, size):
            self.size = size

        def asked(self):
            return None if self.size % 16 == 0 and self.size <= 1000 else "no"

        def run(self, _):
            if self.asked():
                raise d.DeviceError(d.EUNSUPPORTED, "no")
            ran.append(self.size)

    monkeypatch.setattr(chip_checks, "_bench", lambda *_: contextlib.nullcontext())
    device = SimpleNamespace(supported=lambda answer: answer)
    assert chip_checks._at_limit(SimpleNamespace(notes=[]), device, Case) == 2 and ran == [992]
