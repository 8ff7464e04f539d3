# SPDX-License-Identifier: Apache-2.0
"""presil conform: does a chip behind presil_transport.h and presil_chip.h do what the headers promise? docs/conform.md.

checks.py has the list; transport_checks.py, register_checks.py, job_checks.py are the level `transport`. Each check
runs in a process of its own (one_check.py): one that crashes or hangs is a failed check, not the end.
"""
