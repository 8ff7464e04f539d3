#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What comes of faults: each hits every launch of a bundle, with several seeds, on the RTL (build check); a table for
docs/regress.md.

usage: fault_table.py BUNDLE [--seeds K] [--seed S] [--json FILE] [--only PART]
       PRESIL_BUILD_DIR: the build. Exit status 1 if a launch behind a fault is not exactly as before.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

# What it is -> how it is injected, whether it depends on the seed.
FAULTS = {
    "error answered to the n-th beat read (SLVERR)": ("read-slverr@?", True),
    "the same (DECERR)": ("read-decerr@?", True),
    "to the first beat: a command": ("read-slverr@0", False),
    "error answered to the n-th beat written (SLVERR)": ("write-slverr@?", True),
    "the same (DECERR) ": ("write-decerr@?", True),
    "interrupt 5000 cycles late": ("late=5000", False),
    "interrupt lost": ("late=0", False),
    "reset in mid-launch (cancelled)": ("cancel", False),
    "simulator stops in mid-launch": ("stop@?", True),
    "slow peer: 2 µs a cycle": ("slow=2000", False),
    "bit flipped in DRAM, of what is read": ("flip@?", True),
    "bit flipped in the scratchpad": ("upset:u_bank@?", True),
    "bit flipped in the accumulators": ("upset:u_half@?", True),
    "bit flipped in any other state": ("upset:presil_top.u_@?", True),
}


def replay(bundle: Path, fault: str, seed: int, told: Path) -> list[dict]:
    program = Path(os.environ["PRESIL_BUILD_DIR"]) / "bin" / "presil-replay"
    words = [program, bundle, "--build", "check", "--inject", fault, "--seed", str(seed), "--json", told]
    told.unlink(missing_ok=True)
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=600, check=False)
    if not told.exists():
        sys.exit(f"{fault}: {done.stderr.strip()}")
    return [row["fault"] for row in json.loads(told.read_text())["launches"]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--seeds", type=int, default=25)
    parser.add_argument("--seed", type=int, default=1, help="the first")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    print(f"seed {args.seed}, {args.seeds} of them")
    print("| fault | injected as | launches | came to | next launch exact |\n|---|---|---|---|---|")
    table, bad = {}, 0
    with tempfile.TemporaryDirectory() as folder:
        for name, (fault, drawn) in FAULTS.items():
            if args.only not in fault:
                continue
            rows = []
            for seed in range(args.seed, args.seed + (args.seeds if drawn else 1)):
                rows += replay(args.bundle, fault, seed, Path(folder) / "told.json")
            found, exact = Counter(row["found"] for row in rows), sum(row["exact"] for row in rows)
            healed = sum(row["healed"] for row in rows)
            bad += len(rows) - exact - healed
            table[fault] = {"launches": len(rows), "found": dict(found), "exact": exact, "healed": healed}
            came = ", ".join(f"{count} {what}" for what, count in found.most_common())
            behind = f"{exact} of {len(rows)}" + (f"; {healed} after a reset" if healed else "")
            print(f"| {name.strip()} | `{fault}` | {len(rows)} | {came} | {behind} |", flush=True)
    if args.json:
        args.json.write_text(json.dumps(table, indent=1) + "\n")
    return 1 if bad or not table else 0


if __name__ == "__main__":
    sys.exit(main())
