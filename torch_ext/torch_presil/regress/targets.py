# SPDX-License-Identifier: Apache-2.0
"""targets.py PLAN: what a build tree has to build for the runs of a plan (presil regress --list --json PLAN), a name a
line: each run's simulator, and the programs that cases call or need."""

import json
import sys
from pathlib import Path


def targets(jobs: list[dict]) -> list[str]:
    found = {f"presil_sim_{job['chip']}_{job['build']}": None for job in jobs if not job["library"]}
    return list(found | {name: None for job in jobs for name in [*job["template"][:1], *job["needs"]]})


if __name__ == "__main__":
    print(*targets(json.loads(Path(sys.argv[1]).read_text())["jobs"]), sep="\n")
