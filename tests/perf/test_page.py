# SPDX-License-Identifier: Apache-2.0
"""The page: one file that asks for nothing, and what Debian's chromium makes of it."""

import json
import re

import pytest
from browser import in_a_browser, opened
from perf import paper
from torch_presil.perf import page


@pytest.fixture
def written(tmp_path):
    def write(**change):
        path = tmp_path / "perf.html"
        path.write_text(page.render({**paper.made(), **change}))
        return path

    return write


def part(document: str, name: str) -> str:
    """What is inside of the element with this id, to the next heading."""
    return re.search(rf'id="{name}"[^>]*>(.*?)(?=<h2|<script|$)', document, re.S).group(1)


def rows(document: str, name: str) -> list:
    found = re.findall(r"<tr[^>]*>(.*?)</tr>", part(document, name), re.S)
    return [[re.sub(r"<[^>]*>", "", c) for c in re.findall(r"<td[^>]*>(.*?)</td>", row, re.S)] for row in found][1:]


def test_it_is_one_file_that_asks_for_nothing(written):
    text = written().read_text()
    assert [u for u in re.findall(r"https?://[^\"'\s)]+", text) if u != "http://www.w3.org/2000/svg"] == []
    assert not re.search(r"@import|url\(|fetch\(|XMLHttpRequest|import\(|<link|src=", text)
    assert len(text) < 100_000
    told = json.loads(re.search(r'id="data">(.*?)</script>', text, re.S).group(1))
    assert told == paper.made()


def test_no_text_ends_the_script():
    evil = paper.made(model="</script><script>alert(1)</script><!--")
    plain, text = page.render(paper.made()), page.render(evil)
    assert [text.count(w) for w in ("<script", "</script", "<!--")] == [
        plain.count(w) for w in ("<script", "</script", "<!--")
    ]


@in_a_browser
def test_it_shows_the_forward(written):
    document = opened(written())
    assert "paper:net · int8 · paper" in document and "clock 500 MHz: --clock" in document
    tiles = re.findall(r'<div class="tile"><b>(.*?)</b>', document)
    assert tiles[0] == "2,301" and tiles[1] == "434,594" and tiles[2] == "≤ 426,803"
    layers = rows(document, "layers")
    assert [row[0] for row in layers] == [*paper.LAYERS, "all"] and layers[0][4] == "1,000" and layers[-1][4] == "2,301"
    assert [row[0].strip("▾") for row in rows(document, "tree")] == ["model", "stem", "body", "0", "a", "b", "head"]
    assert [row[0] for row in rows(document, "host")] == ["max_pool2d"]
    assert rows(document, "host")[0][5] == "42"
    assert "Never worked: unused." in document and 'id="problems" hidden' in document
    assert part(document, "roofline").count("<circle") == 4 and "32 B a cycle" in part(document, "roofline")


@in_a_browser
def test_stall_stacks_are_100_percent(written):
    document = opened(written())
    pictures = {"engines": 2, "stack": 4}
    script = 'const w = document.getElementById("width"); w.value = "share"; w.dispatchEvent(new Event("change"));'
    document = opened(written(), script=script)
    for name, count in pictures.items():
        stacks = {}
        for y, width in re.findall(r'y="([\d.]+)" width="([\d.]+)" height="[\d.]+" fill="[^"]*" class="part"',
                                   re.sub(r'<rect x="[\d.]+" ', "", part(document, name))):  # fmt: skip
            stacks[y] = stacks.get(y, 0) + float(width)
        assert len(stacks) == count and max(stacks.values()) - min(stacks.values()) < 0.01, (name, stacks)
    drawn = part(document, "stack")
    assert len(re.findall('fill="var\\(--works\\)" class="part"', drawn)) == 4


@in_a_browser
def test_what_does_not_add_up_stands_at_the_top(written):
    document = opened(written(problems=["launch 1 <b>is wrong</b>"]))
    assert 'id="problems" hidden' not in document and "launch 1 &lt;b&gt;is wrong" in document


@in_a_browser
def test_clicks_zoom_filter_sort_and_fold(written):
    press = lambda name: f"document.getElementById('{name}').click();"
    window = lambda document: re.search(r'id="window"[^>]*>(.*?)<', document).group(1)
    assert window(opened(written())) == "0 … 2,343 cycles"
    assert window(opened(written(), script=press("in"))) == "586 … 1,757 cycles"
    assert window(opened(written(), script=press("in") + press("out"))) == "0 … 2,343 cycles"
    assert window(opened(written(), script=press("in") + press("whole"))) == "0 … 2,343 cycles"
    typed = "const q = document.getElementById('q'); q.value = 'body'; q.dispatchEvent(new Event('input'));"
    assert [row[0] for row in rows(opened(written(), script=typed), "layers")] == ["body.0.a", "body.0.b", "all"]
    click = "document.querySelectorAll('#layers th')[4].click();"
    assert [row[4] for row in rows(opened(written(), script=click), "layers")][:-1] == ["1,000", "800", "400", "101"]
    assert [row[4] for row in rows(opened(written(), script=click * 2), "layers")][:-1] == [
        "101",
        "400",
        "800",
        "1,000",
    ]
    fold = "document.querySelectorAll('#tree button')[1].click();"
    assert [row[0] for row in rows(opened(written(), script=fold), "tree")][2:] == ["▸body", "head"]
    spot = "document.querySelector('#roofline circle').dispatchEvent(new Event('click'));"
    assert re.search(r'<tr class="chosen" id="layer0">', opened(written(), script=spot))


@in_a_browser
def test_a_chip_that_tells_little_has_no_empty_columns(written):
    names = {**paper.NAMES, "engines": [{"name": "fetch"}, {"name": "grid"}], "counters": []}
    taken = [{**r, "read_beats": 0, "write_beats": 0, "peak_macs_per_cycle": 0, "stalls": {}} for r in paper.reports()]
    document = opened(written(**paper.made(taken, names=names, clock=None)))
    head = re.findall(r"<th[^>]*>(.*?)</th>", part(document, "layers"))
    assert "bound" not in head and "bus" not in head and "use" not in head and "cycles" in head
    assert "no clock is known" in document and "a second" not in part(document, "tiles")
    assert ">undefined<" not in document and "NaN" not in re.sub(r"<script.*?</script>", "", document, flags=re.S)


@in_a_browser
def test_what_the_host_must_move_stands_between_the_launches(written):
    """The pooling, after the stem's 1,000 of 2,343 cycles, takes 42 of them."""
    drawn = part(opened(written()), "timeline")
    stem, *_ = re.findall(r'<rect x="([\d.]+)" y="0" width="([\d.]+)"', drawn)
    ((x, width),) = re.findall(
        r'<rect x="([\d.]+)" y="[\d.]+" width="([\d.]+)" height="26" fill="var\(--host\)"', drawn
    )
    scale = (float(stem[1]) + 0.6) / 1000
    assert float(x) == pytest.approx(1000 * scale, abs=0.01)
    assert float(width) + 0.6 == pytest.approx(42 * scale, abs=0.01)


LONG = "a_module_of_a_name_that_goes_on.and_on_and_on.without_any_end_at_all.block<0>.conv_of_<b>markup</b>"


@pytest.fixture
def long(written):
    """A page of names without end, with what would be markup."""
    events, reports = paper.events(), paper.reports()
    events[-1] |= {"layer": LONG, "module": LONG}
    reports[-1]["label"] = LONG
    events[1] |= {"module": "pool<i>", "host": {"max_pool2d": {**POOLED, "reason": "no_kernel_" * 30}}}
    return written(**paper.made(reports, events))


POOLED = {"calls": 1, "seconds": 1e-4}


@in_a_browser
def test_names_are_text(long):
    document = opened(long)
    assert rows(document, "layers")[3][0] == LONG.replace("<", "&lt;").replace(">", "&gt;")
    assert "block&lt;0&gt;" in part(document, "tree") and "pool&lt;i&gt;" in part(document, "host")
    assert "<b>markup" not in re.sub(r"<script.*?</script>", "", document, flags=re.S)


@in_a_browser
@pytest.mark.parametrize("kind", ["written", "long"])
def test_it_is_as_wide_as_the_window(kind, request):
    """Also with names without end: then the figures are where they can be seen."""
    made = request.getfixturevalue(kind)
    made = made() if kind == "written" else made
    told = """const ends = [...document.querySelectorAll('#layers th')].map(h => h.getBoundingClientRect().right);
      document.title = document.documentElement.scrollWidth + ' ' + innerWidth + ' ' + Math.max(...ends);"""
    for width in (390, 1200):
        document = opened(made, script=told, options=[f"--window-size={width},900"])
        whole, window, end = map(float, re.search(r"<title>(\S+) (\S+) (\S+)</title>", document).groups())
        assert whole <= window, f"at {width} pixels"
        assert end <= window or width < 1000, f"the last column ends at {end}"


@in_a_browser
def test_of_a_model_that_launched_nothing_it_says_so(written):
    nothing = paper.made([], paper.events()[1:2], missing=[])
    told = "document.getElementById('in').click(); document.getElementById('whole').click();"
    document = opened(written(**nothing), script=told)
    seen = re.sub(r"<script.*?</script>", "", document, flags=re.S)
    assert "no launch on the chip" in seen and "NaN" not in seen and "Infinity" not in seen
    assert [row[0] for row in rows(document, "host")] == ["max_pool2d"]
