# SPDX-License-Identifier: Apache-2.0
"""Regressions of a chip: suites of cases, each in a process of its own, with seeds, time-outs, baselines of cycles and
reports (docs/regress.md). Nothing here knows a chip: names of engines, causes and units come from what cases report."""
