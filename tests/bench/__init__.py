# SPDX-License-Identifier: Apache-2.0
"""What tests drive the chip with: `chip` (a simulator library by its registers), `twin`, `driver` (libpresil), and
`programs`, random descriptor programs with `compare`, which runs them on chip, twin and oracle.

Put tests/ on sys.path and `import bench.chip`.
"""
