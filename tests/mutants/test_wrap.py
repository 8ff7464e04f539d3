# SPDX-License-Identifier: Apache-2.0
"""RING_HEAD and RING_TAIL wrap at 2^32: on a chip that counts from shortly before it, since none gets there in a
test's time."""

from .sheets import ROOT, Fault, build

from bench import built
from bench.compare import Pair

START = 0xFFFF_FF00
COUNTS = "ring_head <= 32'd0;  asked <= 32'd0;  got <= 32'd0;"
RUNG = "rung <= 32'd0;"


def test_counts_wrap():
    edits = [
        Fault(
            0, "presil_command.sv", "counts begin near their end", text, text.replace("32'd0", f"32'h{START:x}"), True
        )
        for text in (COUNTS, RUNG)
    ]
    texts = {"presil_command.sv": (ROOT / "rtl" / "presil_command.sv").read_text()}
    library = build(edits, texts, "tiny", built.build_directory() / "wrap")
    pair = Pair("tiny", path=library, start=START)
    pair.batch(range(320))
    assert pair.statistics["descriptors"] > 3_000
