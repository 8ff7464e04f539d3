# SPDX-License-Identifier: Apache-2.0
"""docs/waveforms.md and the view of our chip: what the page shows is what the command draws today."""

import re

import pytest

from stub_waves import ROOT
from waves import page
from waves.trace import Trace, WavesError
from waves.view import find

VIEW, PAGE = ROOT / "waveforms" / "presil.toml", ROOT / "docs" / "waveforms.md"


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """The page made anew, and the traces that it was drawn from."""
    folder = tmp_path_factory.mktemp("page")
    (folder / "traces").mkdir()
    page.write(VIEW, folder / "docs" / "waveforms.md", folder / "traces", PAGE)
    return folder


def test_the_page_and_its_pictures_are_fresh(drawn):
    made = sorted(p.relative_to(drawn / "docs") for p in (drawn / "docs").rglob("*") if p.is_file())
    kept = sorted(p.relative_to(PAGE.parent) for p in [PAGE, *PAGE.with_suffix("").iterdir()])
    assert made == kept and len(made) >= 7
    how = f"python -m torch_presil.waves.page {VIEW} {PAGE}"
    for name in made:
        assert (drawn / "docs" / name).read_text() == (PAGE.parent / name).read_text(), f"{name} is old: {how}"


def test_every_row_of_the_view_is_in_the_trace(drawn):
    trace = Trace(drawn / "traces" / "convolution.fst")
    view = find(trace)
    assert view.path == VIEW
    rows = [row for _, group in view.rows(trace) for row in group]
    assert len(rows) > 60 and len({r.name for r in rows}) == len(rows)
    cycles = view.cycles(trace)
    assert view.end(trace, cycles) == trace.signal(view.full("u_counters.cycles")).values[-1] + 1


def test_pictures_show_what_their_text_speaks_of(drawn):
    """The stretch that a picture looks for is in it, by the name of its cause."""
    for picture in page._pictures(VIEW):
        svg = (drawn / "docs" / "waveforms" / f"{picture['name']}.svg").read_text()
        for group in picture["groups"]:
            assert f">{group}</text>" in svg
        if "at" in picture:
            first, last = picture["window"]
            found = re.findall(rf"= {picture['at']['value']}, cycles (-?\d+) to (-?\d+) ", svg)
            least = min(picture["at"].get("least", 1), last)  # the window may cut it
            assert any(int(b) - int(a) + 1 >= least for a, b in found), picture["name"]
            assert ">here</text>" in svg and last - first <= 200


def test_a_moment_that_never_comes_is_an_error(drawn):
    trace = Trace(drawn / "traces" / "convolution.fst")
    view = find(trace)
    with pytest.raises(WavesError, match="never ERROR for 5 cycles"):
        page.moment(trace, view, view.cycles(trace), {"signal": "cause[1]", "value": "ERROR", "least": 5})
