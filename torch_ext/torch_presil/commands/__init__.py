# SPDX-License-Identifier: Apache-2.0
"""Commands of `presil`, and what several of them need."""
