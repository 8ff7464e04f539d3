# SPDX-License-Identifier: Apache-2.0
"""tests/run.py: what runs beside what, time-outs, skips, replay lines, merged reports, and a summary after Ctrl-C."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
STAMPS = """
import glob, os, time
def test_stamps():
    start = time.monotonic()
    open(__file__ + ".began", "w").close()
    while len(glob.glob(os.path.dirname(__file__) + "/*.began")) < TOGETHER and time.monotonic() < start + 45:
        time.sleep(0.02)
    time.sleep(0.2)
    with open(os.environ["STAMPS"], "a") as file:
        file.write(f"{os.path.basename(__file__)} {start} {time.monotonic()}\\n")
"""


class Tree:
    def __init__(self, place: Path):
        self.place, self.rows = place, []

    def stage(self, name: str, code: str, **fields) -> None:
        file = self.place / f"test_{name}.py"
        file.write_text(code)
        fields = {"kind": "pytest", "path": [str(file)], "timeout": 60, **fields}
        self.rows.append(f"[{name}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in fields.items()))

    def stamping(self, name: str, together: int = 1, **fields) -> None:
        """Notes from when to when it ran, and waits at most 45 s until as many such tests have begun."""
        self.stage(name, STAMPS.replace("TOGETHER", str(together)), **fields)

    def command(self, *arguments: str) -> list[str]:
        (self.place / "stages.toml").write_text("\n".join(self.rows))
        return [sys.executable, str(ROOT / "tests/run.py"), "--stages", str(self.place / "stages.toml"), *arguments]

    def run(self, *arguments: str, **environment) -> subprocess.CompletedProcess:
        return subprocess.run(
            self.command(*arguments),
            cwd=self.place,
            capture_output=True,
            text=True,
            timeout=120,
            env={**os.environ, "STAMPS": str(self.place / "stamps"), **environment},
        )

    def stamps(self) -> dict:
        lines = [line.split() for line in (self.place / "stamps").read_text().splitlines()]
        return {name: (float(start), float(end)) for name, start, end in lines}


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path)


def overlap(a, b) -> bool:
    return a[0] < b[1] and b[0] < a[1]


def test_stages_of_one_core_run_side_by_side_and_those_of_all_cores_alone(tree):
    tree.stamping("rt_a", 2)
    tree.stamping("rt_wide", alone=True)
    tree.stamping("rt_b", 2)
    done = tree.run("--jobs", "2")
    assert done.returncode == 0, done.stdout
    at = tree.stamps()
    assert overlap(at["test_rt_a.py"], at["test_rt_b.py"])
    assert not overlap(at["test_rt_wide.py"], at["test_rt_a.py"])
    assert not overlap(at["test_rt_wide.py"], at["test_rt_b.py"])


def test_one_more_runs_than_there_are_cores_and_no_second_more(tree):
    tree.stamping("rt_a", 2)
    for name in "bcd":
        tree.stamping(f"rt_{name}", 5)  # these three wait for each other
    tree.stamping("rt_parallel", 2, parallel=True)
    done = tree.run("--jobs", "2")
    assert done.returncode == 0, done.stdout
    parallel, first, *later = (tree.stamps()[f"test_rt_{name}.py"] for name in ("parallel", *"abcd"))
    assert overlap(parallel, first)  # whose two cores leave room for one
    assert not any(overlap(parallel, other) for other in later)
    assert overlap(*later[:2]) and overlap(*later[1:])


def test_with_one_core_nothing_overlaps(tree):
    tree.stamping("rt_a")
    tree.stamping("rt_b")
    assert tree.run("--jobs", "1").returncode == 0
    assert not overlap(*tree.stamps().values())


def test_a_test_that_hangs_fails_and_the_next_one_runs(tree):
    tree.stage("rt_hang", "import time\ndef test_hangs(): time.sleep(50)\ndef test_after(): pass\n", each=1)
    done = tree.run()
    assert done.returncode == 1 and "\n1 passed, 1 failed, 0 skipped" in done.stdout
    assert "Timeout" in done.stdout


def test_a_stage_that_hangs_fails(tree):
    tree.stage("rt_hang", "import time\ndef test_hangs(): time.sleep(50)\n", timeout=3)
    done = tree.run()
    assert done.returncode == 1 and "rt_hang: not done after 3 s" in done.stdout


@pytest.mark.parametrize("allowed, status", [(0, 1), (1, 0)])
def test_skips_are_counted_with_reason(tree, allowed, status):
    code = "import pytest\ndef test_a(): pass\ndef test_b(): pytest.skip('no such disk')\n"
    tree.stage("rt_skips", code, skips=allowed)
    done = tree.run()
    assert done.returncode == status and "no such disk" in done.stdout
    assert "1 skipped" in done.stdout


def test_a_stage_has_its_variables_and_its_build(tree):
    code = """
import os
def test_it():
    assert os.environ["ATEN_CPU_CAPABILITY"] == "default"
    assert os.environ["PRESIL_BUILD_DIR"].endswith("/build/elsewhere")
    assert os.environ["PYTHONPATH"].split(":")[0] == os.environ["PRESIL_BUILD_DIR"] + "/python"
"""
    tree.stage("rt_variables", code, preset="elsewhere")
    tree.rows[-1] += '[rt_variables.env]\nATEN_CPU_CAPABILITY = "default"\n'
    done = tree.run()
    assert done.returncode == 0, done.stdout


def test_no_test_is_a_failure(tree):
    tree.stage("rt_none", "")
    done = tree.run()
    assert done.returncode == 1 and "0 passed, 1 failed" in done.stdout


def test_the_replay_line_runs_the_failed_test_alone(tree):
    code = (
        "class TestX:\n def test_good(self): pass\n def test_bad(self): assert not 'planted'\ndef test_other(): pass\n"
    )
    tree.stage("rt_replay", code)
    done = tree.run(PRESIL_SEED="77", PRESIL_DAY="")
    [line] = set(re.findall(r"replay: (.*)", done.stdout))
    [day] = re.findall(r"seed of the day: PRESIL_DAY=(\d{8})\n", done.stdout)
    variables, _ = line.split("./presil test --stage rt_replay -- ")
    assert {f"PRESIL_DAY={day}", "PRESIL_SEED=77"} <= set(variables.split())
    again = tree.run(*shlex.split(line.split("test ", 1)[1]))
    assert again.returncode == 1 and "\n0 passed, 1 failed, 0 skipped" in again.stdout


def test_junit_holds_all_stages_and_their_variables(tree, tmp_path):
    tree.stage("rt_a", "def test_a(): pass\n")
    tree.stage("rt_b", "def test_b(): assert False\n")
    tree.run("--junit", str(tmp_path / "all.xml"), "--json", str(tmp_path / "all.json"), PRESIL_SEED="78")
    suites = {suite.get("name"): suite for suite in ElementTree.parse(tmp_path / "all.xml").iter("testsuite")}
    assert set(suites) == {"rt_a", "rt_b"}
    for suite in suites.values():
        assert {p.get("name"): p.get("value") for p in suite.iter("property")}["PRESIL_SEED"] == "78"
    assert suites["rt_b"].find(".//failure") is not None and suites["rt_a"].find(".//failure") is None
    assert json.loads((tmp_path / "all.json").read_text())["failed"] == 1


def test_ctrl_c_leaves_a_summary_and_no_process(tree, tmp_path):
    tree.stage("rt_done", "def test_a(): pass\n", alone=True)
    code = (
        f"import os, time\ndef test_long():\n open({str(tmp_path / 'pid')!r}, "
        f"'w').write(str(os.getpid()))\n time.sleep(60)\n"
    )
    tree.stage("rt_long", code)
    tree.stage("rt_never", "def test_a(): pass\n", alone=True)
    process = subprocess.Popen(tree.command("--json", "out.json"), cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=100)
    assert process.returncode == 130
    assert "1 passed, 0 failed, 0 skipped" in said and "rt_long" in said
    assert json.loads((tmp_path / "out.json").read_text())["passed"] == 1
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)
