# SPDX-License-Identifier: Apache-2.0
"""Suites, seeds, filters, testplans: what is read, what is refused and how it is said; the suites of ours."""

import hashlib
import re
from pathlib import Path

import pytest
from torch_presil.regress import baseline, exit_codes, filters, run_list, suite, testplan

ROOT = Path(__file__).resolve().parents[2]
OURS = ("smoke", "ops", "layers", "networks", "torchvision", "stress", "faults", "nightly", "coverage")


def loader(*folders):
    return suite.Loader([*map(Path, folders), *suite.search_path()])


def written(tmp_path, text, name="one"):
    (tmp_path / f"{name}.toml").write_text(text)
    return loader(tmp_path)


def test_seeds_are_the_same_on_every_machine():
    assert run_list.case_seed(1, "smoke/sweep") == 593428334
    assert run_list.case_seed(1, "smoke/sweep", 1) == 2073173931
    assert run_list.case_seed(2, "smoke/sweep") == 1112560929
    seeds = {run_list.case_seed(1, f"s/{k}", r) for k in range(100) for r in range(10)}
    assert len(seeds) == 1000 and all(0 <= s < 1 << 32 for s in seeds) and max(seeds) > 1 << 31


CASE = '[case.a]\nkind = "command"\ncommand = ["true"]\n'


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[case.a", "not TOML"),
        ("", "no case"),
        ("[cases.a]\n", "[cases] is unknown"),
        ('[case.a]\nkind = "comand"\n', "did you mean 'command'"),
        ('[case.a]\nkind = "command"\n', "command is missing"),
        (CASE + "timeout_second = 3\n", "did you mean 'timeout_seconds'"),
        (CASE + 'reseed = "2"\n', "reseed = '2': expected int"),
        (CASE + "reseed = 0\n", "expected 1 or more"),
        (CASE + "reseed = true\n", "expected int"),
        (CASE + "tags = [1]\n", "expected text"),
        ('[case.a]\nkind = "cosim"\nmodel = "m:f"\ndtyp = "int8"\n', "did you mean 'dtype'"),
        ('[suite]\ninclude = ["one"]\n' + CASE, "includes itself: one -> one"),
        ('[suite]\nincludes = ["one"]\n' + CASE, "no 'includes'"),
        ('[suite]\ninclude = ["smok"]\n' + CASE, "did you mean 'smoke'"),
        ('[kind.cosim]\ncommand = ["true"]\n' + CASE, "built in"),
        ("[kind.mine]\nparameter = 1\n" + CASE, "expected command"),
        ('[kind.mine]\ncommand = ["x"]\nparameters = { n = 1 }\n[case.a]\nkind = "mine"\nn = "b"\n', "n = 'b'"),
    ],
)
def test_a_wrong_suite_is_refused_with_file_case_and_key(tmp_path, text, says):
    with pytest.raises(exit_codes.UsageError) as caught:
        written(tmp_path, text).load(["one"])
    assert says in str(caught.value) and "one.toml" in str(caught.value) or "smok" in says


def test_an_unknown_suite_or_case_names_what_there_is(tmp_path):
    some = written(tmp_path, CASE)
    for name, says in (("oen", "did you mean 'one'"), ("one/b", "has no case 'b'"), ("/no/such.toml", "no such file")):
        with pytest.raises(exit_codes.UsageError, match=re.escape(says)):
            some.load([name])
    with pytest.raises(exit_codes.UsageError, match="no such folder"):
        suite.search_path(["/no/such/folder"])


def test_the_first_folder_wins_and_includes_come_once(tmp_path):
    some = written(tmp_path, '[suite]\ninclude = ["ops/programs"]\n' + CASE, "smoke")
    names = [case.full_name for case in some.load(["smoke", "ops"])]
    assert names[:2] == ["ops/programs", "smoke/a"] and len(names) == len(set(names)) and "ops/sweep" in names


def test_each_chip_build_memory_stress_and_seed_is_a_run(tmp_path):
    more = 'chips = ["tiny", "odd"]\nstress = ["none", "heavy"]\nseeds = [7, 8]\n'
    cases = written(tmp_path, CASE + more).load(["one"])
    some = run_list.expand(cases, run_list.Choice())
    assert len(some) == 8 and {job.seed for job in some} == {7, 8} and {job.stress for job in some} == {"", "heavy"}
    some = run_list.expand(cases, run_list.Choice(builds=["fast", "check"], chips=["wide"], stress=["none"], reseed=3))
    assert len(some) == 6 and [job.seed for job in some[:3]] == [7, 8, run_list.case_seed(1, "one/a", 2)]
    soak = run_list.expand(cases, run_list.Choice(soak=True, run_seed=99))
    assert {job.seed for job in soak} == {run_list.case_seed(99, "one/a", 0)}
    assert len({job.key for job in run_list.expand(cases, run_list.Choice())}) == 8


def test_fresh_seeds_differ():
    assert len({run_list.fresh_seed() for _ in range(8)}) == 8


def test_a_library_tells_chip_and_build(place, tmp_path):
    library = tmp_path / "libpresil_sim_mine_v2_check.so"
    library.write_bytes(b"not a library")
    place.suite("one", {"case": "environment"})
    assert place.go("one", library=str(library)) == 0
    record = place.found()["case"]
    assert (record["chip"], record["build"]) == ("mine_v2", "check") and f"--library {library}" in record["again"]
    digest = hashlib.sha256(b"not a library").hexdigest()[:16]
    assert record["library"] == digest and record["again"].endswith(f"library {digest}")
    folder = (place.last.path / record["log"]).parent / "lib"
    assert (folder / "libpresil_sim_mine_v2_check.so").resolve() == library
    assert place.go("one", library="/no/such.so") == exit_codes.USAGE
    assert place.go("one", library=str(library), builds=["a", "b"]) == exit_codes.USAGE


def jobs_of(tmp_path):
    more = 'tags = ["slow"]\nchips = ["tiny", "odd"]\ntestpoints = ["p"]\n'
    text = CASE + more + CASE.replace("[case.a]", "[case.resnet-b]") + 'memory = ["ideal", "default"]\n'
    return run_list.expand(written(tmp_path, text).load(["one"]), run_list.Choice())


@pytest.mark.parametrize(
    ("expression", "count"),
    [
        ("a", 2),
        ("one/*", 4),
        ("resnet*", 2),
        ("not a", 2),
        ("tag:slow", 2),
        ("not chip:tiny", 3),
        ("chip:tiny", 1),
        ("chip:tiny or memory:ideal", 2),
        ("a and not (chip:odd or build:check)", 1),
        ("not not a", 2),
        ("memory:default and resnet-b", 1),
        ("stress:none", 4),
        ("testpoint:p and kind:command and suite:one", 2),
    ],
)
def test_filters(tmp_path, expression, count):
    rule = filters.compile_filter(expression)
    assert sum(rule(job) for job in jobs_of(tmp_path)) == count


@pytest.mark.parametrize("expression", ["", "and", "a or", "(a", "a)", "a b", "colour:red", "not"])
def test_wrong_filters_are_refused(expression):
    with pytest.raises(exit_codes.UsageError, match="--filter"):
        filters.compile_filter(expression)


def test_a_filter_that_leaves_nothing_is_a_wrong_call(place, capsys):
    place.suite("one", {"case": "passes"})
    assert place.go("one", filter="other") == exit_codes.USAGE
    assert "leaves none of 1" in capsys.readouterr().err and not place.runs.exists()


@pytest.mark.parametrize(
    "options",
    [
        {"resume": True, "filter": "a"},
        {"resume": True, "rerun_failed": True},
        {"mode": "soak", "seed": 1},
        {"case_seed": 1, "seeds": 2},
        {"jobs": 0},
        {"seeds": 0},
        {"resume": True},
        {"rerun_failed": True},
        {"accept": "why"},
    ],
)
def test_calls_without_meaning_are_refused(place, options, capsys):
    assert place.go(**options) == exit_codes.USAGE and "presil regress: " in capsys.readouterr().err


def test_list_runs_nothing(place, tmp_path):
    place.suite("one", {"case": ("exit1", 'tags = ["slow"]')})
    assert place.go("one", list=True, json=str(tmp_path / "list.json")) == 0
    assert "one/case[base,fast]#0" in place.printed and not place.runs.exists()
    assert '"seed"' in (tmp_path / "list.json").read_text()
    assert place.go(list=True) == 0 and all(name in place.printed for name in (*OURS, "one"))


# ---- ours ----


def ours():
    return {name: loader().load([name]) for name in OURS}


def test_our_suites_hold_what_docs_say():
    found = ours()
    assert all(found.values()) and len(found["layers"]) == 6
    nightly = {case.full_name for case in found["nightly"]}
    for name in ("ops", "layers", "networks", "torchvision", "stress"):
        assert {case.full_name for case in found[name]} <= nightly
    models = {case.parameters["model"].split(":")[1] for case in found["layers"]}
    assert models == {"resnet18", "resnet50", "mobilenet_v2", "BertModel", "vit_b_16", "unet"}
    night = [case.parameters for case in found["torchvision"]]
    assert len({case["model"] for case in night}) == 20 and all(c["model"].startswith("torchvision.") for c in night)
    assert {(case["mode"], case["layers"], case["distinct"]) for case in night} == {("verify", None, False)}
    for cases in found.values():
        for case in cases:
            assert case.common["timeout_seconds"] <= 3600
            assert case.common["timeout_cycles"] or case.kind == "command" or case.suite == "nightly", case.full_name


def test_our_testplan_and_suites_name_each_other():
    points = testplan.load(suite.search_path())
    cases = [case for some in ours().values() for case in some]
    assert len(points) >= 9 and testplan.unmapped(points, cases) == []
    mapped = {"name": "", "case_name": ""}
    for case in cases:
        fact = {
            **mapped,
            "name": case.full_name,
            "case_name": case.name,
            "testpoints": case.common.get("testpoints", []),
        }
        assert any(testplan.covers(p, fact) for p in points), case.full_name


def test_layers_networks_and_smoke_have_a_baseline_of_cycles():
    cases = [case for name in ("smoke", "layers", "networks") for case in ours()[name]]
    jobs = [job for job in run_list.expand(cases, run_list.Choice(default_chip="base")) if job.kind != "command"]
    known = baseline.Baselines(None, Path())
    assert len(jobs) >= 25 and not [job.key for job in jobs if not known.of(job)]


def test_a_testplan_that_names_what_is_not_there_is_told(tmp_path):
    body = 'stage = "V1"\ngoal = "g"\nstimulus = "s"\ncheck = "c"\ntests = ["no/such"]\n'
    (tmp_path / "testplan.toml").write_text(f"[testpoint.p]\n{body}")
    cases = written(tmp_path, CASE + 'testpoints = ["q"]\n').load(["one"])
    lost = testplan.unmapped(testplan.load([tmp_path]), cases)
    assert lost == ["testpoint p: no case no/such", "case one/a: no testpoint q"]
    (tmp_path / "testplan.toml").write_text("[testpoint.p]\nstage = 'V1'\n")
    with pytest.raises(exit_codes.UsageError, match="testplan.toml"):
        testplan.load([tmp_path])


def test_the_package_knows_no_chip():
    """Names of engines, descriptors and registers of the chip in rtl/ belong to tables, not into these modules."""
    words = re.compile(
        r"\b(epilogue|scratchpad|descriptor|doorbell|matrix|wait_load|spad|bf16 x|RING_\w+|tiny|odd)\b", re.I
    )
    package = ROOT / "torch_ext" / "torch_presil" / "regress"
    files = [*package.glob("*.py"), *package.glob("*.html")]
    assert len(files) >= 20
    found = [f"{p.name}: {m.group()}" for p in files for m in words.finditer(p.read_text())]
    assert not found
    long = {p.name: p.read_text().count("\n") for p in files if p.suffix == ".py"}
    assert max(long.values()) < 300, long


def test_the_page_says_every_key_and_option():
    page = (ROOT / "docs" / "regress.md").read_text()
    keys = {*suite.COMMON, *(key for kind in suite.KINDS.values() for key in kind), *testplan.TEXTS}
    missing = [key for key in keys if f"`{key}`" not in page]
    assert not missing
    from torch_presil.cli import regress

    options = [option for p in regress.params for option in p.opts if option.startswith("--")]
    assert len(options) > 20 and not [option for option in options if f"`{option}" not in page]
    assert not [status for status in exit_codes.STATUSES if f"`{status}`" not in page]
    assert not [key for key in filters.KEYS if f"`{key}:`" not in page and f"`{key}`" not in page]
