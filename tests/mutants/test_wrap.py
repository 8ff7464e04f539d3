# SPDX-License-Identifier: Apache-2.0
"""RING_HEAD and RING_TAIL wrap at 2^32: on a chip that counts from shortly before it, since none gets there in a
test's time."""

from .planted import START, library

from bench.compare import Pair


def test_counts_wrap():
    pair = Pair("tiny", path=library(), start=START)
    pair.batch(range(320))
    assert pair.statistics["descriptors"] > 3_000
