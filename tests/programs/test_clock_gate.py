# SPDX-License-Identifier: Apache-2.0
"""Engines whose clock is gated (docs/synthesis.md): random programs come to the same bytes, errors and counters, in the
same cycles, as with a clock that runs."""

from bench import built
from bench.compare import Pair
from mutants.sheets import ROOT, Fault, build

PROGRAMS = range(480)
# As a vendor's cell does it: a latch that is open while the clock is low.
CELL = "logic open; always_latch if (!clk) open = en; assign gclk = clk & open;"


class Cell(Fault):
    """Stands there whatever PRESIL_MUTANT says."""

    def text(self, old: str) -> str:
        return self.new


def test_a_gated_clock_changes_nothing():
    cell = Cell(1, "presil_clock_gate.sv", "gated", "assign gclk = clk;", CELL)
    texts = {cell.file: (ROOT / "rtl" / cell.file).read_text()}
    gated = Pair("tiny", path=build([cell], texts, "tiny", built.build_directory() / "gated"))
    plain = Pair("tiny")
    gated.batch(PROGRAMS)
    plain.batch(PROGRAMS)
    assert gated.statistics == plain.statistics
    assert gated.statistics["descriptors"] > 5_000
