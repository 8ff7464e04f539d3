# SPDX-License-Identifier: Apache-2.0
"""A document with estimates says so in each of its forms, and is compared with nothing (docs/hybrid.md)."""

import csv
import io
import json

import pytest
from perf.paper import made, reports
from rich.console import Console
from torch_presil.perf import compare, document, page, perfetto_trace, table

ERROR = 0.04


@pytest.fixture
def estimated():
    """The first launch is one, the others are not."""
    first, *others = reports()
    nothing = {engine: dict.fromkeys(causes, 0) for engine, causes in first["stalls"].items()}
    return made([{**first, "stalls": nothing, "estimated": True, "cycles_error": ERROR}, *others])


def test_its_rows(estimated):
    total, cycles = estimated["total"], estimated["launches"][0]["cycles"]
    assert total["estimated"] == 1
    assert total["cycles_error"] == pytest.approx(ERROR * cycles / total["cycles"])
    assert [launch.get("estimated") for launch in estimated["launches"]][:2] == [1, None]
    assert sum(row.get("estimated", 0) for row in estimated["layers"]) == 1
    assert estimated["tree"][0]["cycles_error"] == pytest.approx(total["cycles_error"])
    assert not estimated["problems"]
    assert "estimated" not in made()["total"]


def test_its_forms(estimated, tmp_path):
    out = io.StringIO()
    table.print_document(estimated, Console(file=out, width=250))
    said = f"estimate {estimated['total']['cycles']:,} ± {100 * estimated['total']['cycles_error']:.1f} %"
    assert said in out.getvalue() and "1 of 5 launches are estimates" in out.getvalue()
    assert "energy" not in out.getvalue().replace("proxies of energy", "")
    table.write_csv(estimated, tmp_path / "a.csv")
    rows = list(csv.DictReader(open(tmp_path / "a.csv")))
    assert sum(int(row["estimated"] or 0) for row in rows) == 1
    perfetto_trace.write(estimated, tmp_path / "a.pftrace")
    trace = (tmp_path / "a.pftrace").read_bytes()
    assert f"estimate {estimated['launches'][0]['cycles']:,} ± 4.0 %".encode() in trace and b"cycles_error" in trace
    assert '"cycles_error"' in page.render(estimated)


def test_it_is_compared_with_nothing(estimated, tmp_path):
    (tmp_path / "a.json").write_text(json.dumps(estimated))
    (tmp_path / "b.json").write_text(json.dumps(made()))
    compare.load(str(tmp_path / "b.json"))
    with pytest.raises(ValueError, match="estimates"):
        compare.load(str(tmp_path / "a.json"))
    assert document.bound_of({}, estimated["names"]) is None
