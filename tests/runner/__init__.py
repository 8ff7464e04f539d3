# SPDX-License-Identifier: Apache-2.0
"""What tests/run.py is made of: stages (what runs), jobs (how it runs), results (what came of it)."""
