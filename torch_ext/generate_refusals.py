# SPDX-License-Identifier: Apache-2.0
"""Writes the C++ table of refused operators from torch_presil/operators.toml: generate_refusals.py IN.toml OUT.inc
(called by the build)."""

import json
import sys
import tomllib

with open(sys.argv[1], "rb") as file:
    groups = tomllib.load(file)
lines = [
    f"  {{{json.dumps(name)}, {json.dumps(group['text'])}}},"
    for group in groups.values()
    if group["kind"] == "refused"
    for name in group["operators"]
]
with open(sys.argv[2], "w") as file:
    print("// Made from operators.toml by generate_refusals.py.", *lines, sep="\n", file=file)
