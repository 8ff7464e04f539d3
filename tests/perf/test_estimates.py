# SPDX-License-Identifier: Apache-2.0
"""A document with estimates says so in each of its forms, and is compared with nothing (docs/hybrid.md)."""

import csv
import io
import json

import pytest
from browser import in_a_browser, opened
from perf.paper import made, reports
from perf.test_page import part
from perf.test_page import rows as rows_of
from rich.console import Console
from torch_presil.perf import compare, document, page, perfetto_trace, table

ERROR, STALLS = 0.04, 0.03


def with_one(**more):
    """The first launch is one, the others are not."""
    first, *others = reports()
    return made([{**first, "estimated": True, "cycles_error": ERROR, **more}, *others])


@pytest.fixture
def estimated():
    return with_one(read_beats=0, write_beats=0, bytes_known=True, stalls_error=STALLS)


@pytest.fixture
def cycles_alone():
    """Of a chip that doesn't tell what its commands move, and counts no stalls."""
    nothing = {engine: dict.fromkeys(causes, 0) for engine, causes in reports()[0]["stalls"].items()}
    return with_one(stalls=nothing, read_bytes=0, write_bytes=0, read_beats=0, write_beats=0, bytes_known=False,
                    stalls_error=None)  # fmt: skip


def test_its_rows(estimated):
    total, cycles = estimated["total"], estimated["launches"][0]["cycles"]
    assert total["estimated"] == 1
    assert total["cycles_error"] == pytest.approx(ERROR * cycles / total["cycles"])
    assert [launch.get("estimated") for launch in estimated["launches"]][:2] == [1, None]
    assert sum(row.get("estimated", 0) for row in estimated["layers"]) == 1
    assert estimated["tree"][0]["cycles_error"] == pytest.approx(total["cycles_error"])
    assert total["stalls_error"] == pytest.approx(STALLS * cycles / total["cycles"]) and total["bytes_known"]
    assert total["read_bytes"] == made()["total"]["read_bytes"] and total["stalls"] == made()["total"]["stalls"]
    assert total["bus_share"] is None and made()["total"]["bus_share"], "beats of an estimate are not known"
    assert not estimated["problems"]
    assert "estimated" not in made()["total"]


def test_beats_that_the_chip_tells_are_those_of_the_bus():
    first = reports()[0]
    known = with_one(bytes_known=True, beats_known=True, stalls_error=STALLS)
    assert known["total"]["bus_share"] == made()["total"]["bus_share"] and known["total"]["beats_known"]
    out = io.StringIO()
    table.print_document(known, Console(file=out, width=250))
    assert "energy" in out.getvalue() and "no proxies of energy" not in out.getvalue()
    short = with_one(bytes_known=True, beats_known=True, stalls_error=STALLS, cycles=first["cycles"] // 50)
    assert not [text for text in short["problems"] if "what the bus allows" in text], short["problems"]


@in_a_browser
def test_the_page_has_no_energy_where_beats_are_not_known(estimated, tmp_path):
    (tmp_path / "p.html").write_text(page.render(estimated))
    shown = opened(tmp_path / "p.html")
    assert part(shown, "energy-note").startswith("No energy: it follows from beats")
    assert part(shown, "energy").startswith("</div>")  # nothing in it
    assert not [row for row in rows_of(shown, "area") if row[0].startswith("energy")]
    known = with_one(bytes_known=True, beats_known=True, stalls_error=STALLS)
    (tmp_path / "k.html").write_text(page.render(known))
    shown = opened(tmp_path / "k.html")
    assert "J a forward" in part(shown, "energy-note") and "<rect" in part(shown, "energy")


def test_its_forms(estimated, tmp_path):
    out = io.StringIO()
    table.print_document(estimated, Console(file=out, width=250))
    said = f"estimate {estimated['total']['cycles']:,} ± {100 * estimated['total']['cycles_error']:.1f} %"
    assert said in out.getvalue() and "1 of 5 launches are estimates" in out.getvalue()
    assert "energy" not in out.getvalue().replace("proxies of energy", "")
    table.write_csv(estimated, tmp_path / "a.csv")
    rows = list(csv.DictReader(open(tmp_path / "a.csv")))
    assert sum(int(row["estimated"] or 0) for row in rows) == 1
    assert rows[0]["bytes_known"] == "True" and float(rows[0]["stalls_error"]) == STALLS
    perfetto_trace.write(estimated, tmp_path / "a.pftrace")
    trace = (tmp_path / "a.pftrace").read_bytes()
    assert f"estimate {estimated['launches'][0]['cycles']:,} ± 4.0 %".encode() in trace and b"cycles_error" in trace
    assert '"cycles_error"' in page.render(estimated)
    assert rows[0]["macs"] != "0" and not [column for column in rows[0] if column.startswith("energy")]
    assert estimated["total"]["energy"] is None and estimated["launches"][0]["energy"] is None
    assert estimated["launches"][1]["energy"] and not estimated["problems"]
    text = " ".join(out.getvalue().split())
    assert "estimate grid" in text and "bytes are exact" in text and "not estimated" not in text
    assert f"at most {100 * estimated['total']['stalls_error']:.1f} % of the cycles" in text
    assert b"stalls_error" in trace and b"grid works (with estimates)" in trace


def test_what_the_chip_does_not_tell_is_not_estimated(cycles_alone, tmp_path):
    total, out = cycles_alone["total"], io.StringIO()
    assert total["stalls_error"] is None and not total["bytes_known"] and total["bus_share"] is None
    table.print_document(cycles_alone, Console(file=out, width=250))
    stem = next(line for line in out.getvalue().splitlines() if "stem" in line)
    assert stem.count("not estimated") == 3  # read, written, bound
    text = " ".join(out.getvalue().split())
    assert "stalls and bounds are not estimated" in text and "bytes are not estimated" in text
    table.write_csv(cycles_alone, tmp_path / "a.csv")
    first, second = list(csv.DictReader(open(tmp_path / "a.csv")))[:2]
    assert (first["read_bytes"], first["stalls_error"], first["bytes_known"]) == ("", "", "False")
    assert int(second["read_bytes"]) > 0


def test_it_is_compared_with_nothing(estimated, tmp_path):
    (tmp_path / "a.json").write_text(json.dumps(estimated))
    (tmp_path / "b.json").write_text(json.dumps(made()))
    compare.load(str(tmp_path / "b.json"))
    with pytest.raises(ValueError, match="estimates"):
        compare.load(str(tmp_path / "a.json"))
    assert document.bound_of({}, estimated["names"]) is None
