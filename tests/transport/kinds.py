# SPDX-License-Identifier: Apache-2.0
"""Builds a chip behind a port map outside of the tree (tests/transport/kinds), for one way to simulate it."""

import subprocess
from pathlib import Path

from .servers import BUILD

RTL = Path(__file__).resolve().parents[1] / "rtl"
WAYS = ("plain", "systemc", "dpi")
PORTS = "PORTS", "MAP", "PARAMETERS"
CHIPS = {
    "apb": ("presil_ports_apb_top", ["presil_ports_core.sv", "presil_ports_apb_top.sv"]),
    "lite": ("presil_ports_lite_top", ["presil_ports_core.sv", "presil_ports_lite_top.sv"]),
    "many": ("presil_ports_many_top", ["presil_ports_core.sv", "presil_ports_many_top.sv"]),
    "burst": ("presil_burst_top", ["presil_burst_top.sv"]),
}


def configure(folder: Path, chip: str, way: str, **given) -> None:
    """given: PORTS (a file), MAP, PARAMETERS (lists)."""
    top, sources = CHIPS[chip]
    options = {"NAME": chip, "TOP": top, "WAYS": way, "SOURCES": ";".join(str(RTL / source) for source in sources)}
    options |= {key: value if isinstance(value, str) else ";".join(value) for key, value in given.items()}
    command = ["cmake", "-S", Path(__file__).parent / "kinds", "-B", folder, "-G", "Ninja"]
    command += [f"-DPresil_DIR={BUILD / 'cmake'}", *(f"-D{key}={value}" for key, value in options.items())]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


def build(folder: Path, *targets: str) -> subprocess.CompletedProcess:
    command = ["cmake", "--build", folder, *(option for target in targets for option in ("--target", target))]
    return subprocess.run(command, capture_output=True, text=True)


def made(folder: Path, chip: str, way: str, **given) -> Path:
    """The library, or the program of the DPI testbench."""
    given.setdefault("PORTS", str(RTL / f"presil_ports_{chip}.toml"))
    configure(folder, chip, way, **{key: value for key, value in given.items() if value})
    done = build(folder)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    return folder / {"plain": f"libpresil_sim_{chip}_fast.so", "systemc": f"libpresil_sim_{chip}_systemc.so",
                     "dpi": f"presil-dpi-{chip}"}[way]  # fmt: skip
