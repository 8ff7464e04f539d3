# SPDX-License-Identifier: Apache-2.0
"""GTKWave itself opens a save file: every group, name and value, and both markers."""

import re
import shutil
import subprocess

import pytest

from waves.trace import Trace
from waves.view import find, text_of

ASK = """
for {set i 0} {$i < [gtkwave::getTotalNumTraces]} {incr i} {
    puts "row\t[gtkwave::getTraceNameFromIndex $i]\t[gtkwave::getTraceValueAtMarkerFromIndex $i]"
}
puts "markers\t[gtkwave::getMarker]\t[gtkwave::getNamedMarker A]\t[gtkwave::getNamedMarker B]"
exit 0
"""


def shown(row, value, view) -> str:
    """As GTKWave writes it."""
    if row.enumeration and value in view.enumerations[row.enumeration]:
        return text_of(row, value, view.enumerations)
    if row.width == 1 or row.format == "binary":
        return f"{value:0{row.width}b}"
    if row.format == "hex" or row.enumeration:
        return f"{value:0{-(-row.width // 4)}X}"
    return text_of(row, value, view.enumerations)


def test_gtkwave_opens_the_save_file(captured, waves, tmp_path):
    missing = [name for name in ("gtkwave", "xvfb-run") if not shutil.which(name)]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)} (Debian: gtkwave, xvfb, xauth)")
    shutil.copy(captured / "good.presil", tmp_path)
    waves("good.presil", "--launch", 1, "--mark", "here=700")
    (tmp_path / "ask.tcl").write_text(ASK)
    command = ["xvfb-run", "-a", "gtkwave", "--nomenus", "-S", "ask.tcl", "good-1.gtkw"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100)
    said = [line.split("\t")[1:] for line in done.stdout.splitlines() if line.startswith("row\t")]
    markers = [line.split("\t")[1:] for line in done.stdout.splitlines() if line.startswith("markers\t")]
    assert done.returncode == 0 and said and markers, done.stdout + done.stderr
    # What it says besides is the file's size; a name that it can't find, or a table, would be a line more.
    for line in done.stderr.splitlines():
        assert not line.strip() or re.match(r"GTKWave Analyzer|FSTLOAD \| |GTKWAVE \| Executing Tcl", line), line
    trace = Trace(tmp_path / "good-1.fst")
    view = find(trace)
    time = view.cycles(trace, 0).time(0)
    assert markers == [[str(time), str(time), str(time + 700_000)]]
    wanted = []
    for group, rows in view.rows(trace):
        values = [shown(r, trace.signal(r.name).at(time), view) for r in rows]
        wanted += [[group, ""], *([r.label, v] for r, v in zip(rows, values, strict=True)), [group, ""]]
    # It leaves out the name's path.
    assert [[name, value] for name, value in said] == [[n.split(".")[-1], v] for n, v in wanted]
    assert len({value for _, value in said}) > 12
