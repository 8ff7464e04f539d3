# SPDX-License-Identifier: Apache-2.0
"""Engines and registers whose clock is gated (docs/synthesis.md), as in the build `fast`: random programs come to the
same bytes, errors and counters, in the same cycles, as with the clock that runs in `check`."""

from bench.compare import Pair

PROGRAMS = range(480)


def test_a_gated_clock_changes_nothing():
    gated = Pair("tiny", "fast")
    plain = Pair("tiny", "check")
    gated.batch(PROGRAMS)
    plain.batch(PROGRAMS)
    assert gated.statistics == plain.statistics
    assert gated.statistics["descriptors"] > 5_000
