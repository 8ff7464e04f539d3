# SPDX-License-Identifier: Apache-2.0
"""`presil perf`: where the cycles of a model go, layer by layer (docs/perf.md)."""
