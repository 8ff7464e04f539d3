#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A queue that runs each job at once on this machine, under the names of LSF's and of Grid Engine's programs: bsub (the
script comes by standard input), bkill; qsub SCRIPT, qdel. What they print is what these print. QUEUE_FOLDER: where it
keeps a folder a job."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

PROGRAMS = {"lsf": ("bsub", "bkill", "lsid"), "sge": ("qsub", "qdel")}
SAYS = {
    "bsub": "Job <{number}> is submitted to default queue <normal>.",
    "qsub": 'Your job {number} ("dask-worker") has been submitted',
}


def install(folder: Path) -> Path:
    """The programs as a folder of PATH."""
    programs = folder / "bin"
    programs.mkdir(parents=True)
    for name in {name for names in PROGRAMS.values() for name in names}:
        (programs / name).write_text(f'#!/bin/sh\nexec {sys.executable} {Path(__file__).resolve()} {name} "$@"\n')
        (programs / name).chmod(0o755)
    return programs


def submit(name: str, words: list[str], folder: Path) -> None:
    script = sys.stdin.read() if name == "bsub" else Path(words[-1]).read_text()
    number = 1000 + len(list(folder.glob("job-*")))
    job = folder / f"job-{number}"
    job.mkdir(parents=True)
    (job / "script").write_text(script)
    environment = {**os.environ, ("LSB_JOBID" if name == "bsub" else "JOB_ID"): str(number)}
    with (job / "out").open("wb") as out:
        begun = subprocess.Popen(
            ["/bin/sh", str(job / "script")],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            env=environment,
            start_new_session=True,
        )
    (job / "pid").write_text(str(begun.pid))
    print(SAYS[name].format(number=number))


def end(number: str, folder: Path) -> int:
    place = folder / f"job-{number}"
    if not (place / "pid").exists():
        print(f"Job <{number}>: No matching job found", file=sys.stderr)
        return 1
    with contextlib.suppress(ProcessLookupError):
        os.killpg(int((place / "pid").read_text()), signal.SIGTERM)
    (place / "ended").write_text(str(time.time()))
    return 0


if __name__ == "__main__":
    name, *words = sys.argv[1:]
    where = Path(os.environ["QUEUE_FOLDER"])
    if name in SAYS:
        submit(name, words, where)
    elif name != "lsid":
        sys.exit(max(end(number, where) for number in words))
