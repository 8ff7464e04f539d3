# SPDX-License-Identifier: Apache-2.0
"""Bundles of layers that are made once and kept: their names, and when they have to be made again. No torch here."""

import contextlib
import fcntl
import functools
import hashlib
import importlib.metadata
import json
import os
from pathlib import Path

from .run_list import Job
from .versions import PACKAGE

PLACE = "PRESIL_REGRESS_BUNDLES"
KEPT = 3  # of one model, with its parameters, chip and seed: those of the last few states of the driver
FIELDS = ("model", "dtype", "input", "layers", "config", "weights")
# No part of what a bundle holds: simulators run it, and these only carry it.
OTHERS = ("libpresil_sim_", "libpresil_dpi", "libpresil_systemc", "libpresil_serve", "libpresil_bundle")


def _of_file(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""


@functools.cache
def _tools() -> list:
    """(name, hash) of what turns a model into commands and expected bits: driver, twin, extension, Python around it."""
    build = os.environ.get("PRESIL_BUILD_DIR")
    libraries = (Path(build) if build else PACKAGE) / "lib"
    extension = Path(build) / "python" / "torch_presil" if build else PACKAGE
    files = {p.resolve() for p in libraries.glob("libpresil*.so") if not p.name.startswith(OTHERS)}
    files |= {*extension.glob("*.so"), *PACKAGE.glob("*.py"), *PACKAGE.glob("device/*.py")}
    files |= {PACKAGE / "regress" / "layers_case.py", PACKAGE / "regress" / "unet.py"}
    return sorted((path.name, _of_file(path)) for path in files)


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _hash(facts: dict) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def _asked(job: Job) -> dict:
    """What the suite says of it."""
    return {name: job.parameters[name] for name in FIELDS} | {"chip": job.chip, "seed": job.seed}


def key(job: Job) -> str:
    """Of everything that the contents depend on; not of the RTL, nor of the memory."""
    p, source = job.parameters, job.parameters["model"].rpartition(":")[0]
    files = [Path(job.folder) / name for name in (source, p["weights"] or "") if name.endswith((".py", ".pt", ".pth"))]
    facts = _asked(job) | {"tools": _tools(), "files": [_of_file(path) for path in files]}
    package = [] if source.endswith(".py") else [source.partition(".")[0]]
    facts |= {name: _version(name) for name in ("torch", "numpy", *package)}
    return _hash(facts)[:16]


def path_of(job: Job, runs: Path) -> Path:
    """Where the case's bundle is, or will be; runs: the folder of all runs."""
    folder = Path(os.environ.get(PLACE) or runs / "bundles")
    name = job.parameters["model"].rpartition(":")[2]
    return folder / f"{name}-{job.parameters['dtype']}-{job.chip}-{_hash(_asked(job))[:8]}-{key(job)}.presil"


@contextlib.contextmanager
def making(path: Path):
    """One process at a time makes a bundle; yields a place for it, or None if another has made it meanwhile. It gets
    its name when it is whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if path.exists():
            yield None
            return
        temporary = path.with_suffix(".making")
        try:
            yield temporary
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
        _forget(path)


def _forget(path: Path) -> None:
    """Ends the oldest of those that the case had before."""
    stem = path.stem.rpartition("-")[0]
    older = sorted(path.parent.glob(f"{stem}-*.presil"), key=lambda p: p.stat().st_mtime_ns, reverse=True)
    for old in older[KEPT:]:
        old.unlink(missing_ok=True)
        old.with_suffix(".lock").unlink(missing_ok=True)
