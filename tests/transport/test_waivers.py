# SPDX-License-Identifier: Apache-2.0
"""A team's Verilator waivers (docs/ports.md): tests/ports_example has a file that Verilator refuses without them. Its
build with them, and what they leave alone: test_installed.py, test_dpi_outside.py."""

import subprocess
from pathlib import Path

from .servers import BUILD

SOURCE = Path(__file__).resolve().parents[1] / "ports_example"


def verilate(folder: Path, *options: str) -> subprocess.CompletedProcess:
    configure = ["cmake", "-S", SOURCE, "-B", folder, "-G", "Ninja", f"-DPresil_DIR={BUILD / 'cmake'}", *options]
    done = subprocess.run(configure, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    build = ["cmake", "--build", folder, "--target", "presil_sim_mine_fast_verilate"]
    return subprocess.run(build, capture_output=True, text=True, timeout=200)


def test_a_waiver_takes_an_error_out_of_a_build(tmp_path):
    refused = verilate(tmp_path, "-Dwaivers=")
    said = refused.stdout + refused.stderr
    assert refused.returncode and "Error-ENUMVALUE" in said and "mine_state.sv" in said, said
    # The same rule, of another file: not waived by it.
    other = tmp_path / "other.vlt"
    other.write_text((SOURCE / "waivers.vlt").read_text().replace("mine_state", "another"))
    assert verilate(tmp_path, f"-Dwaivers={other}").returncode
    waived = verilate(tmp_path, f"-Dwaivers={SOURCE / 'waivers.vlt'}")
    assert waived.returncode == 0, waived.stdout + waived.stderr
    assert (tmp_path / "presil_sim_mine_fast.dir/model/Vchip.h").exists()
