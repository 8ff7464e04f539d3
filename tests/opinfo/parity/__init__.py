# SPDX-License-Identifier: Apache-2.0
"""The device beside the CPU: the same call on both, compared bit for bit.

transfer    the same arguments on either device: storages, views, strides and aliases included
compare     bit equality of results, layouts and aliases
products    what the chip computes: error bounds (docs/numerics.md 6), and the CPU run with the device's products
            in place of its own
attention   scaled_dot_product_attention of the CPU, made of the parts that the device makes it of
checks      forward, view, noncontiguous, inplace, out, grad of one sample; errors of an entry
worker      a process that runs entries; pool: several of them under a watchdog
expected    what may fail, and why
databases   what the runners of modules and optimisers share
"""
