# SPDX-License-Identifier: Apache-2.0
"""presil-bundle: what it shows, cuts and refuses."""

import json
import subprocess
from pathlib import Path

import pytest
from torch_presil.bundle import Bundle

from . import library as lib

GOLDEN = Path(__file__).parent / "version1.presil"


def run(*arguments) -> subprocess.CompletedProcess:
    return subprocess.run([lib.TOOL, *map(str, arguments)], capture_output=True, text=True, timeout=60)


def test_info_without_a_chip():
    done = run("info", GOLDEN)
    assert done.returncode == 0, done.stderr
    for part in (
        "state         whole",
        "2 launches, 2 results",
        "layer1.0.conv1",
        "rtl differs 4100 cycles",
        "run.log",
    ):
        assert part in done.stdout
    found = json.loads(run("info", GOLDEN, "--json").stdout)
    assert found["torn"] is False and found["records"] == 15 and found["labels"] == {"model": "résnet", "host": "b"}
    assert [launch["launch"] for launch in found["launches"]] == [40, 41]
    first = found["launches"][0]
    assert first["read_bytes"] == 64 and first["results"][0]["difference"]["cycle"] == 3000
    assert found["chips"][0]["seed"] == 2**64 - 1
    assert found["attachments"] == [{"name": "run.log", "media_type": "text/plain", "bytes": 6}]


def test_info_shows_what_a_launch_writes(tmp_path):
    """What it should write, or (mode rtl) what came out."""
    path, device = tmp_path / "x.presil", bytes(range(256))
    with lib.Writer(path) as writer:
        writer.chip(chip=b"other", config=b"tiny")
        for launch, expected, writes in ((0, 40, 24), (1, 0, 24), (2, 0, 0)):
            group = writer.group()
            memory = [group.memory(device, 4096, [lib.Range(4096, n)]) if n else None for n in (expected, writes)]
            group.put("launch", lib.Launch, launch=launch, label=b"mm", expected=memory[0])
            for executor, its in ((b"none", None), (b"rtl", memory[1])):
                group.put("result", lib.Result, launch=launch, executor=executor, writes=its)
            group.commit()
    rows = [line.split() for line in run("info", path).stdout.splitlines() if " mm " in line]
    assert [(row[0], row[3]) for row in rows] == [("0", "40"), ("1", "24"), ("2", "0")], rows
    found = json.loads(run("info", path, "--json").stdout)["launches"]
    assert [[r["written_bytes"] for r in one["results"]] for one in found] == [[0, 24], [0, 24], [0, 0]]
    assert [one["expected_bytes"] for one in found] == [40, 0, 0]


def test_a_torn_file_is_shown_and_says_so(tmp_path):
    path = tmp_path / "torn.presil"
    path.write_bytes(GOLDEN.read_bytes()[:-30])
    done = run("info", path)
    assert done.returncode == 0 and "torn after 14 records" in done.stdout and "the next record is cut" in done.stdout
    assert json.loads(run("info", path, "--json").stdout)["torn"] is True
    done = run("info", path, "--verify")
    assert done.returncode == 2 and "torn after 14 records" in done.stderr
    assert run("convert", path).returncode == 2


def test_verify_finds_damage(tmp_path):
    path = tmp_path / "bent.presil"
    bent = bytearray(GOLDEN.read_bytes())
    bent[40 + 64 + 9] ^= 1  # in the contents of record 0
    path.write_bytes(bent)
    assert json.loads(run("convert", path).stdout.split("\n")[1])["error"]
    done = run("info", path, "--verify")
    assert done.returncode == 2 and "at byte 40: the next record's contents are damaged" in done.stderr


@pytest.mark.parametrize(
    ("launches", "numbers"), [("0", [40]), ("1:", [41]), (":2", [40, 41]), ("0:1", [40]), ("1:99", [41])]
)
def test_extract(launches, numbers, tmp_path):
    out = tmp_path / "part.presil"
    done = run("extract", GOLDEN, "--launches", launches, "--out", out)
    assert done.returncode == 0, done.stderr
    with Bundle(GOLDEN) as whole, Bundle(out) as part:
        assert not part.summary.torn and part.labels() == whole.labels()
        assert [vars(c) for c in part.chips()] == [vars(c) for c in whole.chips()]
        wanted = {vars(launch)["launch"]: launch for launch in whole.launches()}
        found = list(part.launches())
        assert [launch.launch for launch in found] == numbers
        for launch in found:
            same = wanted[launch.launch]
            for name in ("reads", "expected"):
                assert list(part.memory(getattr(launch, name))) == list(whole.memory(getattr(same, name)))
            assert part.block(launch.commands) == whole.block(same.commands)
            names = set(vars(launch)) - {"number", "record"}
            assert {n: getattr(launch, n) for n in names} == {n: getattr(same, n) for n in names}
            assert [r.cycles for r in part.results_of(launch)] == [r.cycles for r in whole.results_of(same)]
        assert len(list(part.attachments())) == (40 in numbers)
        blocks = {r.hash for r in part.records if r.type == 2}
        needed = {p.hash for launch in found for m in (launch.reads, launch.expected) for p in m.pieces}
        assert blocks == needed | {launch.commands.hash for launch in found}


def test_attachment_goes_where_the_user_says(tmp_path):
    out = tmp_path / "log.txt"
    assert run("attachment", GOLDEN, "run.log", "--out", out).returncode == 0
    assert out.read_bytes() == b"a log\n"
    assert run("attachment", GOLDEN, "run.log", "--out", out).returncode == 2, "a file that is there is not replaced"
    assert run("attachment", GOLDEN, "run.log", "--out", out, "--overwrite").returncode == 0
    done = run("attachment", GOLDEN, "other.log", "--out", tmp_path / "x")
    assert done.returncode == 2 and "none of this name" in done.stderr and not (tmp_path / "x").exists()


def test_escape_codes_do_not_reach_the_terminal(tmp_path):
    path = tmp_path / "escape.presil"
    with lib.Writer(path) as writer:
        writer.labels({"a": "\x1b[2Jx"})
    assert "\x1b" not in run("info", path).stdout and "?[2Jx" in run("info", path).stdout
    assert json.loads(run("info", path, "--json").stdout)["labels"] == {"a": "\x1b[2Jx"}


REFUSED = [
    ((), "a command and a file expected"),
    (("info",), "a command and a file expected"),
    (("show", GOLDEN), "unknown command show"),
    (("info", GOLDEN, "--all"), "unknown option --all"),
    (("info", "/nowhere"), "No such file"),
    (("info", "/tmp"), "is no file"),
    (("extract", GOLDEN, "--launches", "3:1", "--out", "x"), "A:B, A:, :B or A expected, found 3:1"),
    (("extract", GOLDEN, "--launches", "-1", "--out", "x"), "A:B, A:, :B or A expected"),
    (("extract", GOLDEN, "--out", "x"), "--launches and --out expected"),
    (("extract", GOLDEN, "--launches", "9", "--out", "x"), "no such launch"),
    (("extract", GOLDEN, "--launches", "0", "--out"), "a value is missing behind --out"),
    (("extract", GOLDEN, "--launches", "0", "--out", "/dev/full", "--overwrite"), "No space left on device"),
]


@pytest.mark.parametrize(("arguments", "text"), REFUSED)
def test_refused(arguments, text):
    done = run(*arguments)
    assert done.returncode == 2 and text in done.stderr, done.stderr


def test_a_program_is_another_thing(tmp_path):
    program = tmp_path / "model.paot"
    program.write_bytes(b"PRESILPR" + bytes(300))
    done = run("info", program)
    assert done.returncode == 2 and "presil-run runs it" in done.stderr
    done = subprocess.run(
        [lib.BUILD / "bin" / "presil-run", "--info", GOLDEN], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2 and "bundle" in done.stderr, done.stderr
