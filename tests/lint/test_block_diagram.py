# SPDX-License-Identifier: Apache-2.0
"""docs/chip.svg shows the instances that rtl/ has."""

import runpy

from files import ROOT


def test_block_diagram_is_of_this_rtl():
    diagram = runpy.run_path(str(ROOT / "docs" / "block_diagram.py"))
    found = diagram["instances"]("presil_top")
    assert set(found) == set(diagram["PLACES"]), "an instance of presil_top has no place in docs/block_diagram.py"
    assert len(diagram["instances"]("presil_load")) > 5  # the expression still finds them
    assert diagram["PICTURE"].read_text() == diagram["drawing"](), "run .venv/bin/python docs/block_diagram.py"
