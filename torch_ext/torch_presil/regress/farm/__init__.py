# SPDX-License-Identifier: Apache-2.0
"""`presil regress --farm`: the same cases on other machines, by dask.distributed (docs/farm.md). address.py finds the
farm, artifacts.py and task.py say what a case needs there, node.py and hub.py are what runs there, machine.py is what
a Runner sees of it."""
