# SPDX-License-Identifier: Apache-2.0
"""Level pytorch: a list of networks on the chip, compared with the CPU; what the chip doesn't take is counted."""

import json
import os
import subprocess
import sys
from pathlib import Path

from .checks import Failed, Skipped, check, expect, expect_equal

OWN_CHIP, RUNTIME = "docs/own-chip.md", "docs/runtime.md"
REPEATED = ("int8", "mlp", "quantized-mlp")


def _told(context, *networks: str) -> list:
    """What networks.py says of each network, run in a process that has the chip."""
    with context.open() as device:
        info = device.info()
    chip, build = info.config.decode(), info.build.decode()
    if context.library.name != f"libpresil_sim_{chip}_{build}.so":
        raise Skipped(f"PyTorch finds libpresil_sim_{chip}_{build}.so, not a file of another name")
    command = [sys.executable, str(Path(__file__).with_name("networks.py")), *networks]
    places = f"{context.library.parent}:{os.environ.get('PRESIL_LIBRARY_PATH', '')}"
    environment = {**os.environ, "PRESIL_CHIP": chip, "PRESIL_BUILD": build, "PRESIL_LIBRARY_PATH": places}
    environment |= {"PRESIL_MODE": "rtl", "PYTHONPATH": _python_path()}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise Failed((done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1])
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def _python_path() -> str:
    """Where torch_presil is: the package that this file is of, or the build's."""
    package = Path(__file__).resolve().parents[1]
    built = Path(os.environ.get("PRESIL_BUILD_DIR", package.parents[1] / "build/fast")) / "python"
    own = package.parent if (package / "_C.so").exists() else built
    return f"{own}:{os.environ.get('PYTHONPATH', '')}"


@check(
    "networks",
    "small networks, forward and backward: the CPU's numbers; what the host did is counted, with a reason",
    OWN_CHIP,
    "the CPU computes the operator, it is counted",
    "pytorch",
)
def networks(context) -> int:
    told = _told(context)
    expect(len(told) >= 10, f"10 networks expected, {len(told)} ran")
    for row in told:
        expect(row["error"] <= row["allowed"], f"{row['name']}: error {row['error']:.3g}, {row['allowed']:.3g} allowed")
        expect(row["chip"] + row["host"] > 0, f"{row['name']}: neither the chip nor the host is counted")
        expect(all(row["reasons"]), f"{row['name']}: an operator of the host without a reason")
    launches, host = sum(row["chip"] for row in told), sum(row["host"] for row in told)
    if not launches:
        raise Skipped("the chip takes none of the networks' operators")
    context.notes.append(f"{launches} launches on the chip, {host} operators on the host")
    if off := sum(row.get("off_by_one", 0) for row in told):
        context.notes.append(f"{off} int8 codes one step from docs/numerics.md 7")
    return sum(row["elements"] for row in told)


@check(
    "same-again",
    "the same network again: the same cycles",
    RUNTIME,
    "A model that runs again takes the same cycles",
    "pytorch",
)
def same_again(context) -> int:
    told = _told(context, *REPEATED, *REPEATED)
    pairs = [pair for pair in zip(told, told[len(REPEATED) :]) if pair[0]["chip"]]
    for before, after in pairs:
        expect_equal(after["cycles"], before["cycles"], f"cycles of {before['name']} the second time")
    if not pairs:
        raise Skipped("the chip takes none of the networks' operators")
    return len(pairs)
