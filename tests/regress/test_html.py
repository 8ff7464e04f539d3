# SPDX-License-Identifier: Apache-2.0
"""The HTML report: in Debian's chromium where that is installed (no network, filters, sorting, links), and without."""

import html.parser
import json
import re
import shutil
import subprocess
from pathlib import Path
from urllib.parse import unquote

import pytest
from torch_presil.regress import html as report

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
in_a_browser = pytest.mark.skipif(not BROWSER, reason="chromium is not installed (apt-get install chromium)")


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


def opened(page: Path, tail: str = "", script: str = "") -> str:
    """The document as the browser has it, after a script."""
    if script:
        copy = page.with_name("driven.html")
        copy.write_text(page.read_text().replace("</body>", f"<script>{script}</script></body>"))
        page = copy
    done = subprocess.run(
        [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP * ~NOTFOUND",
         f"--user-data-dir={page.parent / 'profile'}", "--dump-dom", f"{page.as_uri()}{tail}"],
        capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


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


def test_links_of_a_report_elsewhere(place, tmp_path):
    place.suite("one", {"case": "bundle"})
    page = tmp_path / "elsewhere" / "r e.html"
    place.go("one", html=str(page))
    data = json.loads(re.search(r'id="data">(.*?)</script>', page.read_text(), re.S).group(1))
    assert (page.parent / unquote(data["prefix"]) / data["records"][0]["bundles"][0]).exists()
