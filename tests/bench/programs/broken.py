# SPDX-License-Identifier: Apache-2.0
"""Ways to break a program, each with the one error that must come of it."""


def choose(r):
    return None
