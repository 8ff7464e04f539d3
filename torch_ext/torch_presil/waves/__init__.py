# SPDX-License-Identifier: Apache-2.0
"""From a trace to something that a person looks at (docs/waves.md). Nothing here knows a chip: its names are in views
(waveforms/*.toml). Needs neither torch nor a build, so that it starts at once."""
