# SPDX-License-Identifier: Apache-2.0
"""From a trace to something that a person looks at (docs/waves.md). Nothing here knows a chip: its names are in views
(waveforms/*.toml). Needs neither torch nor a build, so that it starts at once."""

import importlib


def sibling(name: str):
    """A module of the folder above, such as `bundle`: as a file the command has no torch_presil around it."""
    return importlib.import_module(f"torch_presil.{name}" if __name__.startswith("torch_presil.") else name)
