# SPDX-License-Identifier: Apache-2.0
"""presil new-chip: a project for a chip of one's own (project.py), or the port map of a top (ports.py)."""
