# SPDX-License-Identifier: Apache-2.0
"""Energy and area by hand, from the constants."""

import csv
import json
import re

import pytest
from browser import in_a_browser, opened
from perf import paper
from perf.test_page import part, rows
from torch_presil.perf import grid, page, proxies, table

E, A = proxies.constants()["energy"], proxies.constants()["area"]


def test_every_constant_has_a_source():
    assert set(proxies.constants()) == {"energy", "area"} and all(c["source"] for c in (E, A))
    assert all(value > 0 for c in (E, A) for name, value in c.items() if name != "source")


def test_energy_of_a_launch():
    """8 products in each of 500 cycles; 500 beats read and 10 written, of 32 bytes."""
    made = paper.made()
    stem = made["launches"][0]["energy"]
    assert stem == {"products": 4000 * E["int8"], "memory": 2 * 510 * 32 * E["memory"], "dram": 510 * 32 * E["dram"]}
    total = made["total"]["energy"]
    for kind in stem:
        assert total[kind] == pytest.approx(sum(row["energy"][kind] for row in made["layers"]))
        assert total[kind] == pytest.approx(sum(row["energy"][kind] for row in made["launches"]))


@pytest.mark.parametrize(
    ("dtype", "passes", "each"),
    [("int8", 1, E["int8"]), ("bf16", 1, E["bf16"]), ("fp32", 6, 6 * E["bf16"]), ("int8", 4, 4 * E["bf16"])],
)
def test_a_product_costs_by_its_kind(dtype, passes, each):
    taken = [{**r, "passes": passes} for r in paper.reports()]
    made = paper.made(taken, dtype=dtype)
    assert made["total"]["energy"]["products"] == pytest.approx(made["total"]["macs"] * each)


def test_area_of_cells():
    found = proxies.gates({"$mul_16": 3, "$add_32": 2, "$sub_8": 1, "$dff_16": 4, "$dff_1": 1, "$mux_1024": 9}, 1000)
    parts = {"multipliers": 3 * A["mul"], "adders": 72 * A["add"], "registers": 65 * A["dff"]}
    parts["memory"] = 1000 * A["memory"]
    assert found == {**{k: round(v) for k, v in parts.items()}, "total": round(sum(parts.values()))}


def test_area_of_chips():
    """A chip of another name is not ours, whatever its configuration is called."""
    sizes = [proxies.area_of({"chip": "presil", "config": name})["total"] for name in ("tiny", "odd", "base")]
    assert sizes == sorted(sizes) and sizes[0] > 1e5
    assert proxies.area_of({"chip": "other", "config": "tiny"}) is proxies.area_of({}) is None


def test_they_are_in_the_csv(tmp_path):
    table.write_csv(paper.made(), tmp_path / "p.csv")
    told = list(csv.DictReader((tmp_path / "p.csv").open()))
    assert float(told[0]["energy_dram_pj"]) == pytest.approx(510 * 32 * E["dram"]) and told[0]["grid.at_work"] == "500"
    assert told[-1]["where"] == "host" and told[-1]["energy_dram_pj"] == "" and told[-1]["host_bytes"] == "1320"


def test_a_sweep_takes_the_proxy_unless_it_is_told_what_a_chip_costs(tmp_path):
    file = tmp_path / "p.json"
    file.write_text(json.dumps(paper.made(properties={"chip": "presil", "config": "tiny"})))
    known = proxies.area_of({"chip": "presil", "config": "tiny"})["total"]
    row = grid._row({}, file, {})
    assert row["area"] == known and row["energy"] == pytest.approx(sum(paper.made()["total"]["energy"].values()))
    assert grid._row({}, file, {"paper": 7.0})["area"] == 7 and grid._row({}, file, {"x": 7.0})["area"] is None


@in_a_browser
def test_the_page_shows_them(tmp_path):
    made = paper.made(properties={"chip": "presil", "config": "tiny"})
    (tmp_path / "p.html").write_text(page.render({**made, "batches": [{"batch": 2, **made["total"]}]}))
    document = opened(tmp_path / "p.html")
    whole = sum(made["total"]["energy"].values())
    assert f"{whole / 1e6:#.3g} µJ a forward" in document
    widths = re.findall(r'<rect x="[\d.]+" y="0" width="([\d.]+)"', part(document, "energy"))
    stem = made["layers"][0]["energy"].values()
    drawn = sum(map(float, widths))
    assert [float(w) / drawn for w in widths] == pytest.approx([e / sum(stem) for e in stem], abs=1e-3)
    told = {row[0]: row[1] for row in rows(document, "area")}
    assert told["energy: dram"] == "162.5 pJ" and told["this chip: total"] == f"{made['area']['total']:,} NAND2"
