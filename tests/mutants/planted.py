# SPDX-License-Identifier: Apache-2.0
"""One library of `tiny` for the tests that need a chip which is not right: by PRESIL_MUTANT, 0 counts the ring from
shortly before 2^32 (test_wrap.py), others have a fault of faults.toml (test_replay.py)."""

from pathlib import Path

from .sheets import ROOT, Fault, build, load

from bench import built

START = 0xFFFF_FF00
COUNTS = ("ring_head <= 32'd0;", "asked <= 32'd0;  got <= 32'd0;", "rung <= 32'd0;")
FAULTS = {
    "fetch": "ring base without its top bits",
    "hang": "fetch buffer overfilled by a burst",
    "load": "beat after slot 15 is not slot 0",
    "matrix": "channel block's address from the row's",
    "epilogue": "output pitch of the other slot",
    "store": "STORE granted beside weights",
    "bus": "burst crosses 4 KiB",
}
# Of this library alone: no random program is to be found wrong by it, they would all hang.
LIVELOCK = Fault(9001, "presil_command.sv", "fetches for ever", "fetch_valid && fetch_ready", "1'b0")


def number(fault: str) -> int:
    """Of one of FAULTS, or "livelock": the value of PRESIL_MUTANT."""
    if fault == "livelock":
        return LIVELOCK.number
    (found,) = (f.number for f in load() if f.name == FAULTS[fault])
    return found


def library() -> Path:
    edits = [
        Fault(
            0, "presil_command.sv", "counts begin near their end", text, text.replace("32'd0", f"32'h{START:x}"), True
        )
        for text in COUNTS
    ]
    edits += [LIVELOCK, *(fault for fault in load() if fault.name in FAULTS.values())]
    texts = {name: (ROOT / "rtl" / name).read_text() for name in {fault.file for fault in edits}}
    return build(edits, texts, "tiny", built.build_directory() / "planted")
