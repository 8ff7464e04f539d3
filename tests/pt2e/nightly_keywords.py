# SPDX-License-Identifier: Apache-2.0
"""The keyword network in its own size."""

import keywords
from test_digits import assert_keywords


def test_keywords():
    assert_keywords(keywords.DSCNN(), train=480, test=100, launches=10)
