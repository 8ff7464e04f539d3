# SPDX-License-Identifier: Apache-2.0
"""The oracle: docs/numerics.md and docs/isa.md once more, in Python integers and fractions.

numerics   one operation at a time, on bit patterns, with fractions.Fraction: slow and obviously right
fast       the same results in plain integers, for the inner loops (tests: equal to numerics)
operators  conv2d and matmul in the order of accumulation of numerics.md section 5
machine    executes descriptors on a DRAM image and a scratchpad, with undefined-value tracking

Shares no code with the RTL, the C twin or torch; only the generated descriptor layout (oracle.layout).
Put tests/ on sys.path and `import oracle.operators`.
"""
