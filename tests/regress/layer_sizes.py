#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Of each launch of bundles: how large a bundle of it alone is, and how long presil-replay takes for it, from start to
end.

usage: layer_sizes.py BUNDLE... [--json FILE] [--most-mb MB] [--most-seconds S]
       PRESIL_BUILD_DIR: the build. Exit status 1 if one is larger or takes longer than it may.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def launches(tools: Path, bundle: Path) -> int:
    done = subprocess.run([tools / "presil-bundle", "info", bundle, "--json"], capture_output=True, check=True)
    return len(json.loads(done.stdout)["launches"])


def measure(tools: Path, bundle: Path, number: int, folder: Path) -> dict:
    one, told = folder / "one.presil", folder / "told.json"
    command = [tools / "presil-bundle", "extract", bundle, "--launches", str(number), "--out", one, "--overwrite"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    began = time.monotonic()
    subprocess.run([tools / "presil-replay", one, "--build", "fast", "--json", told], check=True, capture_output=True)
    seconds = time.monotonic() - began
    launch = json.loads(told.read_text())["launches"][0]
    return {
        "layer": launch["label"],
        "mb": one.stat().st_size / 1e6,
        "cycles": launch["cycles"],
        "seconds": seconds,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("bundles", nargs="+", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--most-mb", type=float, default=20)
    parser.add_argument("--most-seconds", type=float, default=2)
    args = parser.parse_args()
    tools = Path(os.environ["PRESIL_BUILD_DIR"]) / "bin"
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for bundle in args.bundles:
            for number in range(launches(tools, bundle)):
                rows.append(measure(tools, bundle, number, Path(folder)))
                print("{layer:28} {mb:7.2f} MB {cycles:>10,} cycles {seconds:6.2f} s".format_map(rows[-1]), flush=True)
    mb, seconds = (max(row[name] for row in rows) for name in ("mb", "seconds"))
    print(f"{len(rows)} layers: at most {mb:.1f} MB, at most {seconds:.2f} s")
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 0 if mb <= args.most_mb and seconds <= args.most_seconds else 1


if __name__ == "__main__":
    sys.exit(main())
