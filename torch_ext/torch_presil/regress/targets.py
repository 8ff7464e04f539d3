# SPDX-License-Identifier: Apache-2.0
"""targets.py PLAN: what a build tree has to build for the runs of a plan (presil regress --list --json PLAN), a name a
line: each run's simulator, and the programs that cases call or need."""

import json
import sys
from pathlib import Path


def simulator(chip: str, build: str) -> str:
    """CMake's name of libpresil_sim_CHIP_BUILD.so; `systemc` is the platform around the build `fast`."""
    platform, _, around = build.partition("_")
    return f"presil_sc_{chip}_{around or 'fast'}" if platform == "systemc" else f"presil_sim_{chip}_{build}"


def targets(jobs: list[dict]) -> list[str]:
    found = {simulator(job["chip"], job["build"]): None for job in jobs if not job["library"]}
    return list(found | {name: None for job in jobs for name in [*job["template"][:1], *job["needs"]]})


if __name__ == "__main__":
    print(*targets(json.loads(Path(sys.argv[1]).read_text())["jobs"]), sep="\n")
