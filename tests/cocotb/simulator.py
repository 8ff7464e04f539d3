# SPDX-License-Identifier: Apache-2.0
"""Builds a module of rtl/ with Verilator for cocotb and runs benches on it; cocotb's own report is what counts."""

import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("PRESIL_BUILD_DIR", ROOT / "build" / "fast")) / "cocotb"
BUILD_ARGS = ["--assert", "--x-assign", "unique", "--x-initial", "unique"]
BUILD_ARGS += ["-Wno-fatal", "-Werror-USERFATAL", "-O3", "--unroll-count", "1"]


@contextmanager
def environment(**values):
    """cocotb's runner takes the variables of the build from os.environ."""
    before = dict(os.environ)
    os.environ.update({name: str(value) for name, value in values.items()})
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def generate(config: str) -> Path:
    out = BUILD / config / "generated"
    command = [sys.executable, str(ROOT / "rtl" / "generate.py"), "--out", str(out), "--config", config]
    subprocess.run(command, check=True)
    return out


def sources(generated: Path, rtl: Path) -> list[Path]:
    """Packages first."""
    packages = [p for folder in (generated, rtl) for p in sorted(folder.glob("*_pkg.sv"))]
    # A sheet of faults has a package that the others use.
    packages.sort(key=lambda p: p.name != "presil_a_mutant_pkg.sv")
    leaf = Path(__file__).parent / "leaf"  # a bench's own top, of functions
    modules = [p for folder in (generated, rtl, leaf) for p in sorted(folder.glob("*.sv")) if p not in packages]
    return [*sorted(generated.glob("*.vlt")), *packages, *modules]


@dataclass
class Simulator:
    """A built simulator. runtime: objects of Verilator's runtime, which another build of the same options may take."""

    top: str
    config: str
    generated: Path
    folder: Path

    @classmethod
    def build(cls, top: str, config: str, folder: Path, rtl: Path = ROOT / "rtl", flags: str = "", runtime=None):
        """flags: for make, as of Verilator's makefile. runtime: a Simulator with the same flags, or None."""
        from cocotb_tools.runner import get_runner

        generated = generate(config)
        root = os.environ.get("VERILATOR_ROOT") or str(
            Path(sys.prefix)
            / "lib"
            / f"python{sys.version_info[0]}.{sys.version_info[1]}"
            / "site-packages"
            / "verilator"
        )
        folder.mkdir(parents=True, exist_ok=True)
        for made in sorted(runtime.folder.glob("verilated*.o")) if runtime else []:
            shutil.copy(made, folder)
        with environment(
            VERILATOR_ROOT=root,
            PATH=f"{root}/bin:{os.environ['PATH']}",
            MAKEFLAGS=f"CFG_CXXFLAGS_PCH_I=-include {flags}",
        ):
            get_runner("verilator").build(
                sources=sources(generated, rtl),
                hdl_toplevel=top,
                build_dir=str(folder),
                always=True,
                build_args=BUILD_ARGS,
                log_file=folder / "build.log",
            )
        return cls(top, config, generated, folder)

    def run(self, module: str, **variables) -> tuple[list[str], list[str]]:
        """Names of the tests of a module that ran, and of those that failed."""
        from cocotb_tools.runner import get_runner

        here = Path(__file__).resolve().parent
        sys.path[:0] = [p for p in map(str, (here, here / "leaf", here.parent)) if p not in sys.path]
        extra = {"PRESIL_CONFIG": self.config, "PRESIL_GENERATED": str(self.generated), **variables}
        with environment(**extra):
            results = get_runner("verilator").test(
                hdl_toplevel=self.top,
                hdl_toplevel_lang="verilog",
                test_module=module,
                build_dir=str(self.folder),
                extra_env=extra,
            )
        cases = list(ElementTree.parse(results).iter("testcase"))
        failed = [c.get("name") for c in cases if c.find("failure") is not None or c.find("error") is not None]
        return [c.get("name") for c in cases], failed
