# SPDX-License-Identifier: Apache-2.0
"""The HTML report: in Debian's chromium where that is installed (no network, filters, sorting, links), and without."""

import html
import html.parser
import json
import re
from pathlib import Path
from urllib.parse import unquote

import pytest
from browser import in_a_browser, opened
from torch_presil.regress import html as report


@pytest.fixture
def page(place, monkeypatch) -> Path:
    """Of a second run, after one that was better and had fewer cycles."""
    place.suite("mixed", {"good": ("passes", "reseed = 2"), "cycles": "cycles", "bad": "passes"})
    place.go("mixed", run="first")
    monkeypatch.setenv("FAKE_CYCLES", "130")
    place.suite("mixed", {"good": ("passes", "reseed = 2"), "cycles": "cycles", "bad": "unit", "bundle": "bundle"})
    body = 'stage = "V2"\ngoal = "g"\nstimulus = "<b>s</b>"\ncheck = "c"\ntests = ["bad"]\n'
    (place.folder / "testplan.toml").write_text(f"[testpoint.point]\n{body}")
    place.go("mixed", against="first", chips=["mine"], builds=["fast"])
    place.go("mixed", against="first")
    return place.last.path / "report.html"


class Elements(html.parser.HTMLParser):
    def __init__(self, text: str):
        super().__init__()
        self.found, self.open, self.text = [], [], {}
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))
        self.open.append(tag)

    def handle_endtag(self, tag):
        while self.open and self.open.pop() != tag:
            pass

    def handle_data(self, data):
        if self.open:
            self.text[self.open[-1]] = self.text.get(self.open[-1], "") + data


def test_it_is_one_file_that_asks_for_nothing(page):
    text = page.read_text()
    assert [u for u in re.findall(r"https?://[^\"'\s)]+", text) if u != "http://www.w3.org/2000/svg"] == []
    elements = Elements(text)
    assert not [a for _, a in elements.found for name in ("src", "href") if a.get(name)]
    assert not re.search(r"@import|url\(|fetch\(|XMLHttpRequest|import\(", text)
    assert len([tag for tag, _ in elements.found if tag == "script"]) == 2


def test_its_data_are_the_run_s(page, place):
    script = re.search(r'<script type="application/json" id="data">(.*?)</script>', page.read_text(), re.S)
    data = json.loads(script.group(1))
    assert [h["run"] for h in data["history"]][0] == "first" and len(data["history"]) == 3
    assert data["history"][-1]["bad"] and not data["history"][0]["bad"]
    assert data["passed"] == 2 and data["total"] == 5 and data["testpoints"][0]["status"] == "failing"


def test_no_text_ends_the_script():
    plain, evil = report.render({"a": "b"}), report.render({"a": "</script><script>alert(1)</script><!--"})
    assert [evil.count(w) for w in ("<script", "</script", "<!--")] == [
        plain.count(w) for w in ("<script", "</script", "<!--")
    ]
    assert "alert(1)" in evil


def table(document: str, name: str) -> list[list[str]]:
    part = re.search(rf'<div id="{name}">(.*?)</div>\s*(<h2|<script)', document, re.S).group(1)
    rows = re.findall(r"<tr>(.*?)</tr>", part, re.S)
    return [[re.sub(r"<[^>]*>", "", cell) for cell in re.findall(r"<td[^>]*>(.*?)</td>", row, re.S)] for row in rows][
        1:
    ]


@in_a_browser
def test_it_shows_the_run(page):
    document = opened(page)
    assert [row[:2] for row in table(document, "signatures")][0][0] == "1" and len(table(document, "signatures")) == 3
    change = table(document, "cycles")
    assert len(change) == 1 and change[0][1:] == ["conv1", "100", "130", "30", "30.00", "reader data +30"]
    cases = {row[0]: row for row in table(document, "cases")}
    assert cases["mixed/good"][1:3] == ["100 %", "2"] and cases["mixed/bad"][1] == "0 %"
    assert len(table(document, "runs")) == 5 and "<b>s</b>" not in document.split("testpoints")[-1]
    assert document.count("<rect") == 6 and "2 of 5 passed" in document
    hrefs = {h for h in re.findall(r'href="([^"]+)"', document)}
    for href in hrefs:
        assert (page.parent / unquote(href)).exists() and "#" not in href, href  # the rest would be a place in it
    assert any(h.endswith("first.presil") for h in hrefs)


@in_a_browser
@pytest.mark.parametrize(
    ("tail", "count"), [("#status=bad", 3), ("#q=GOOD", 2), ("#status=cycles", 1), ("#q=store", 1), ("#chip=other", 5)]
)
def test_a_link_filters(page, tail, count):
    assert len(table(opened(page, tail), "runs")) == count


@in_a_browser
def test_clicks_and_typing_filter_and_sort(page):
    click = "document.querySelectorAll('#runs th')[3].click();"
    cycles = lambda rows: [row[3] for row in rows]  # noqa: E731
    once, twice = (table(opened(page, script=click * n), "runs") for n in (1, 2))
    assert cycles(once)[-1] == "130" and cycles(twice)[0] == "130"
    typed = "const q = document.getElementById('q'); q.value = 'bundle'; q.dispatchEvent(new Event('input'));"
    assert len(table(opened(page, script=typed), "runs")) == 1
    chosen = "const s = document.getElementById('status'); s.value = 'passed'; s.dispatchEvent(new Event('change'));"
    document = opened(page, script=chosen)
    assert len(table(document, "runs")) == 2 and "2 of 5 runs" in document and table(document, "signatures") == []


# ---- parts that the page's own run has not
COVERAGE = {
    "line_with_holes": {"reached": 95, "total": 100, "percent": 95.0},
    "testpoints_reached": {"reached": 1, "total": 2},
    "holes": 3,
    "problems": ["a problem"],
    "stale_holes": [{"file": "a.sv", "text": "x <= y", "why": "gone"}],
    "suites": {"ops": {"line": {"percent": 90.0}, "cover": {"percent": None}}},
    "total": {"line": {"percent": 95.0}, "toggle": {"percent": 50.0}},
    "files": {name: {"line": {"percent": part}} for name, part in (("a.sv", 9.5), ("b.sv", 100.0), ("c.sv", 80.0))},
    "layers": {"net/conv1": {"line": {"percent": 60.0}, "covers": ["m.one", "m.two"], "only_here": ["m.two"]}},
    "covers_missing": ["m.never"],
    "covers_of_no_model": ["m.never", "m.rare"],
    "lines_missing": [["a.sv", 7]],
}


def changed(page: Path, change) -> Path:
    """The same report, of other data."""
    data = json.loads(re.search(r'id="data">(.*?)</script>', page.read_text(), re.S).group(1))
    change(data)
    page = page.with_name("changed.html")
    page.write_text(report.render(data))
    return page


def clicked(name: str, column: int) -> str:
    return f"document.querySelectorAll('#{name} th')[{column}].click();"


@in_a_browser
def test_coverage_is_shown_where_it_was_measured(page):
    assert re.search(r'<div id="coverage-part" hidden', opened(page))
    page = changed(page, lambda data: data.update(coverage=COVERAGE))
    document = opened(page, script=clicked("coverage-files", 1))
    assert not re.search(r'<div id="coverage-part" hidden', document)
    facts = re.search(r'<p id="coverage-facts"[^>]*>(.*?)</p>', document).group(1)
    assert facts.startswith("lines 95 of 100 (95.0 %), 3 justified holes; testpoints with every cover reached: 1 of 2")
    assert "a problem; hole a.sv: x &lt;= y: gone" in facts
    assert table(document, "coverage") == [
        ["ops", "90.0 %", "", "", "", ""],
        ["all suites", "95.0 %", "", "", "50.0 %", ""],
    ]
    assert [row[0] for row in table(document, "coverage-files")] == ["a.sv", "c.sv", "b.sv"], "sorted as numbers"
    assert table(document, "coverage-layers") == [["net/conv1", "60.0 %", "2", "m.two"]]
    missing = re.findall(r"<tr><td>(.*?)</td><td>(.*?)</td></tr>", document.split('id="coverage-missing"')[1])
    assert missing == [("nothing", "m.never"), ("nothing", "a.sv:7"), ("no model", "m.rare")]


@in_a_browser
def test_history_has_a_box_a_run(page):
    part = opened(page).split('<div id="history">')[1].split('<div id="coverage-part"')[0]
    rows = dict(re.findall(r"<tr><td>([^<]*)</td><td>(.*?)</td></tr>", part))
    boxes = {name: re.findall(r'title="([^"]*)" class="box ?(\w*)', row) for name, row in rows.items()}
    runs = [name for name, _ in boxes["mixed/bad[base,fast]#0"]]
    statuses = {name: [status for _, status in found] for name, found in boxes.items()}
    assert runs[0] == "first" and len(runs) == 3
    assert statuses["mixed/bad[base,fast]#0"] == ["passed", "", "failed"]  # the second one was on `mine`
    assert statuses["mixed/bad[mine,fast]#0"] == ["", "failed", ""]
    assert statuses["mixed/cycles[base,fast]#0"] == ["passed", "", "cycles"]
    assert re.search(r"<title>first \w*: 4 of 4</title>", part) and part.count("<title>") == 3


@in_a_browser
def test_pictures_and_bundles_of_any_name_are_linked(page):
    odd = "cases/a b#c?d%41é.svg"
    (page.parent / "of all runs" / "cases").mkdir(parents=True)
    (page.parent / "of all runs" / odd).write_text("<svg/>")

    def change(data):
        data["records"][0].update(pictures=[odd], bundles=[odd])
        data["prefix"] = report._prefix(page.parent / "of all runs", page)

    hrefs = re.findall(r'href="([^"]+)"[^>]*>a b#c\?d%41é\.svg<', opened(changed(page, change)))
    assert len(hrefs) >= 2
    for href in hrefs:
        place = html.unescape(href)
        assert not set("#?") & set(place) and (page.parent / unquote(place)).exists(), href


@in_a_browser
def test_testpoints_are_sorted_by_a_click(page):
    def change(data):
        one = data["testpoints"][0]
        data["testpoints"] = [{**one, "name": name, "total": n} for name, n in (("b", 10), ("a", 9), ("c", 100))]

    page = changed(page, change)
    assert [row[1] for row in table(opened(page), "testpoints")] == ["b", "a", "c"]
    by_runs = table(opened(page, script=clicked("testpoints", 4)), "testpoints")
    assert [row[4] for row in by_runs] == ["9", "10", "100"]


@in_a_browser
def test_a_link_sorts_and_a_list_chooses_chip_and_build(page):
    def change(data):
        for n, record in enumerate(data["records"]):
            record.update(chip=f"chip{n % 2}", build="check" if n == 4 else "fast", seed=[30, 4, 200, 1, 9][n])

    page = changed(page, change)
    assert [row[2] for row in table(opened(page, "#sort=runs:2"), "runs")] == ["1", "4", "9", "30", "200"]
    assert [row[2] for row in table(opened(page, "#sort=runs:2:-1"), "runs")] == ["200", "30", "9", "4", "1"]
    assert len(table(opened(page, "#chip=chip1"), "runs")) == 2
    choose = "".join(
        f"{name}.value = '{value}'; {name}.dispatchEvent(new Event('change'));"
        for name, value in (("chip", "chip0"), ("build", "check"))
    )
    script = "const chip = document.getElementById('chip'), build = document.getElementById('build');" + choose
    assert len(table(opened(page, script=script), "runs")) == 1


def test_links_of_a_report_elsewhere(place, tmp_path):
    place.suite("one", {"case": "bundle"})
    page = tmp_path / "elsewhere" / "r e.html"
    place.go("one", html=str(page))
    data = json.loads(re.search(r'id="data">(.*?)</script>', page.read_text(), re.S).group(1))
    assert (page.parent / unquote(data["prefix"]) / data["records"][0]["bundles"][0]).exists()
