# SPDX-License-Identifier: Apache-2.0
"""presil-replay --bisect and --minimize on a chip with planted faults: the right command, the right memory."""

import json
import math
import os
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
import torch_presil
import xmlschema
from torch_presil.bundle import Bundle
from torch_presil.waves import trace

from .planted import library, number
from .reseal import LAUNCH_RECORD, resealed

from bench import built

CAPTURE = """
import torch
import torch_presil

torch.manual_seed(0)
x = torch.randn(1, 20, 12, 12).to(torch.bfloat16).contiguous(memory_format=torch.channels_last).to("presil")
w = torch.randn(24, 20, 3, 3).to(torch.bfloat16).to("presil")
a, b = torch.randn(40, 24).to("presil"), torch.randn(24, 16).to("presil")
with torch.presil.capture("x.presil"):
    torch.nn.functional.conv2d(x, w, padding=1).cpu(), (a @ b).cpu()
"""
CONV, MATMUL = 0, 1


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """x.presil: a convolution and a product of matrices, as the right chip runs them."""
    out = tmp_path_factory.mktemp("planted")
    environment = {
        "PYTHONPATH": str(built.build_directory() / "python"),
        "PRESIL_CHIP": "tiny",
        "PATH": "/usr/bin:/bin",
    }
    subprocess.run([sys.executable, "-c", CAPTURE], cwd=out, env=environment, check=True, timeout=120)
    return out


def replay(folder, bundle, launch, *options, fault=None):
    """(exit status, standard output, standard error); fault None: of the right chip."""
    tool = built.build_directory() / "bin" / "presil-replay"
    environment = {**os.environ, "PRESIL_LIBRARY_PATH": str(built.build_directory() / "lib")}
    command = [tool, bundle, "--launches", str(launch), *options]
    if fault:
        environment["PRESIL_MUTANT"] = str(number(fault))
        command += ["--library", library()]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=200, check=False
    )
    return done.returncode, done.stdout, done.stderr


def bisect(folder, bundle, launch, fault=None, *options):
    status, out, text = replay(folder, bundle, launch, "--bisect", "--json", "-", *options, fault=fault)
    assert out.startswith("{"), out + text
    found = json.loads(out)
    assert found["exit"] == status, out
    return found


@pytest.mark.parametrize("launch", [CONV, MATMUL])
@pytest.mark.parametrize("build", ["fast", "check"])
def test_on_a_right_chip_no_command_differs(folder, launch, build):
    found = bisect(folder, "x.presil", launch, None, "--build", build)
    assert found["exit"] == 0 and found["command"] is None
    assert found["runs"] == 3 and found["commands"] > 50, "whole, watched; and nothing, watched"


# The memory in which it shows first, the engine that does it, and whether the chip's inside could be watched.
@pytest.mark.parametrize(
    "fault, launch, where, engine, observed, status",
    [
        ("load", CONV, "scratchpad word", "LOAD", True, 1),
        ("matrix", MATMUL, "accumulators half", "MATRIX", True, 1),
        ("epilogue", CONV, "scratchpad word", "EPILOGUE", True, 1),
        ("store", CONV, "output [", "STORE", True, 1),
        ("bus", CONV, None, "LOAD", True, 1),
        ("hang", CONV, None, "LOAD", True, 3),
        ("fetch", CONV, None, "LOAD", False, 1),
    ],
)
def test_the_command_that_goes_wrong_is_found(folder, fault, launch, where, engine, observed, status):
    found = bisect(folder, "x.presil", launch, fault)
    assert found["exit"] == status and found["observed"] == observed
    assert found["name"].startswith(f"{engine}, tile "), found
    assert found["right"] == found["command"], "the one before is right"
    assert found["runs"] <= 4 + found["commands"].bit_length() * (1 + len(found["way"]))
    if where is None:
        assert "where" not in found and found["error"]
    else:
        assert found["where"].startswith(where) and found["found"] != found["expected"] and found["bytes"] > 0


# The memories through which wrong data goes until it leaves the chip, each with the engine behind which it shows there.
@pytest.mark.parametrize(
    "fault, launch, steps",
    [
        ("load", CONV, {"scratchpad word": "LOAD", "accumulators half": "MATRIX", "output": "STORE"}),
        ("matrix", MATMUL, {"accumulators half": "MATRIX", "scratchpad word": "EPILOGUE", "output": "STORE"}),
        ("epilogue", CONV, {"scratchpad word": "EPILOGUE", "output": "STORE"}),
        ("store", CONV, {"output": "STORE"}),
    ],
)
def test_the_way_of_wrong_data(folder, fault, launch, steps):
    found = bisect(folder, "x.presil", launch, fault)
    way = found["way"]
    assert {step["memory"]: step["name"].partition(",")[0] for step in way} == steps
    assert [step["memory"] for step in way] == list(steps), "in the order in which it goes"
    assert way[0]["command"] == found["command"] and way[0]["where"] == found["where"]
    assert all(a["command"] < b["command"] for a, b in zip(way, way[1:]))
    assert all(step["right"] <= step["command"] and step["found"] != step["expected"] for step in way)
    assert found["bus"]["where"].startswith("output [") and 0 < found["bus"]["cycle"] < 100_000
    out = replay(folder, "x.presil", launch, "--bisect", fault=fault)[1]
    assert out.count("\n  behind ") == len(steps) and f"on the bus in cycle {found['bus']['cycle']} of" in out


def test_it_says_so_to_people(folder):
    status, out, text = replay(folder, "x.presil", MATMUL, "--bisect", fault="matrix")
    assert status == 1 and "first command that differs: " in out and ", MATRIX, tile " in out and " expected; " in out
    assert "accumulators half " in out and "the first 0 of " in text
    status, out, text = replay(folder, "x.presil", "0:2", "--bisect", fault="matrix")
    assert status == 2 and "--bisect is of one launch, 2 are chosen: --launches A" in text


# "epilogue" keeps something from launch to launch: it shows in the first one behind a reset alone.
@pytest.mark.parametrize(
    "fault, launch, least",
    [("load", CONV, 4), ("hang", CONV, 3), ("store", CONV, 4), ("epilogue", CONV, 4), ("matrix", MATMUL, 4)],
)
def test_what_is_left_fails_in_the_same_way(folder, tmp_path, fault, launch, least):
    before = bisect(folder, "x.presil", launch, fault)
    small = []
    for name in ("one.presil", "two.presil"):
        status, out, text = replay(folder, "x.presil", launch, "--minimize", tmp_path / name, fault=fault)
        assert status == 0 and "fail in the same way: " in out, out + text
        small.append(out.replace(name, ""))
    assert small[0] == small[1], "not twice the same"
    after = bisect(folder, tmp_path / "one.presil", 0, fault)
    assert after["exit"] == before["exit"] and after["status"] == before["status"]
    assert after["name"].split(",")[0] == before["name"].split(",")[0], "the engine"
    assert least <= after["commands"] < before["commands"] * 0.6, "a hang of the fetch needs many"
    kept = out.split(" commands and ")[1].split()
    assert int(kept[0]) < int(kept[2]) / 100, "bytes that are not zero"
    assert bisect(folder, tmp_path / "one.presil", 0)["exit"] == 0, "the right chip does it right"


def commands(path, launch: int) -> int:
    """How many there are is the tiler's choice; a hang of the fetch needs some bursts of them."""
    with Bundle(path) as bundle:
        count = bundle.launch(launch).descriptors
    assert count > 60
    return count


def elements(path, tensor: str) -> int:
    with Bundle(path) as bundle:
        (shape,) = (t.shape for t in bundle.launch(0).tensors if t.name == tensor)
    return math.prod(shape)


@pytest.mark.parametrize(
    "fault, launch, fewer", [("load", CONV, 20), ("store", CONV, 20), ("epilogue", CONV, 500), ("matrix", MATMUL, 100)]
)
def test_a_far_smaller_shape_is_found(folder, tmp_path, fault, launch, fewer):
    """Planned anew by the chip's driver; it fails alone, at the same engine, and the right chip does it right."""
    small = tmp_path / "small.presil"
    status, out, text = replay(folder, "x.presil", launch, "--minimize", small, fault=fault)
    assert status == 0 and out.splitlines()[1].startswith("a smaller shape: "), out + text
    assert "never freed" not in text
    before = 12 * 12 * 24 if launch == CONV else 40 * 16
    assert elements(small, "output") <= before / fewer, out
    status, shown, _ = replay(folder, small, 0, fault=fault)
    assert status == 1 and "first difference: output [" in shown, "its coordinate is known"
    engine = {"load": "LOAD", "store": "STORE", "epilogue": "EPILOGUE", "matrix": "MATRIX"}[fault]
    assert bisect(folder, small, 0, fault)["name"].startswith(engine)
    assert replay(folder, small, 0)[0] == 0


def without_what_was_asked(path, out, old: bytes, new: bytes) -> None:
    """The first launch with other bytes in its group `asked`, under right hashes; torn behind that record."""
    with Bundle(path) as bundle:
        record = next(r for r in bundle.records if r.type == LAUNCH_RECORD)
        contents = bytes(bundle.raw(record.number))
    assert contents.count(old) == 1
    whole = Path(path).read_bytes()
    out.write_bytes(whole[: record.offset] + resealed(whole[record.offset :], contents.replace(old, new)))


@pytest.mark.parametrize(
    "old, new, text",
    [
        (b"\x18\0\x09\0", b"\x63\0\x09\0", "the file does not say what was asked of the chip"),
        (b"\4\0\0\0conv", b"\4\0\0\0curl", 'what was asked ("curl") is of a newer version, or damaged'),
        (b"\4\0\0\0conv\0\0", b"\6\0\0\0gather", 'no smaller shapes of this operator ("gather") are known'),
    ],
)
def test_where_no_shape_can_be_planned_the_rest_is_made_smaller(folder, tmp_path, old, new, text):
    other, small = tmp_path / "other.presil", tmp_path / "small.presil"
    without_what_was_asked(folder / "x.presil", other, old, new)
    status, out, told = replay(folder, other, CONV, "--minimize", small, fault="load")
    assert status == 0 and text in told and "commands and data alone are made smaller" in told, out + told
    assert "is not whole" in told and "a smaller shape" not in out
    assert f" of {commands(folder / "x.presil", CONV)} commands and " in out
    assert bisect(folder, small, 0, "load")["exit"] == 1


def test_a_search_has_a_limit(folder, tmp_path):
    options = ("--minimize", tmp_path / "small.presil")
    status, out, text = replay(folder, "x.presil", CONV, *options, "--tries", "20", fault="load")
    assert status == 0 and "stopped: " in out and "20 runs; written to" in out, out + text
    assert "more by --tries (20) and --seconds (60)" in out
    assert bisect(folder, tmp_path / "small.presil", 0, "load")["exit"] == 1
    for wrong in (("--tries", "0"), ("--seconds", "x"), ("--tries", "-1")):
        status, _, text = replay(folder, "x.presil", CONV, "--minimize", tmp_path / "b", *wrong)
        assert status == 2 and f"{wrong[0]} {wrong[1]}: a number from 1 on expected" in text
    status, _, text = replay(folder, "x.presil", CONV, "--tries", "3")
    assert status == 2 and "--minimize OUT is missing" in text


def test_there_is_nothing_to_minimize(folder, tmp_path):
    status, _, text = replay(folder, "x.presil", CONV, "--minimize", tmp_path / "no.presil")
    assert status == 2 and "there is nothing to minimize" in text and not (tmp_path / "no.presil").exists()
    (tmp_path / "old.presil").write_text("mine")
    status, _, text = replay(folder, "x.presil", CONV, "--minimize", tmp_path / "old.presil", fault="load")
    assert status == 2 and "is there already" in text and (tmp_path / "old.presil").read_text() == "mine"


def test_ctrl_c_keeps_the_best(folder, tmp_path):
    """After the first of its lines that says that commands went."""
    tool = built.build_directory() / "bin" / "presil-replay"
    environment = {**os.environ, "PRESIL_MUTANT": str(number("hang")), "PRESIL_LIBRARY_PATH": ""}
    command = [tool, "x.presil", "--launches", "0", "--library", library(), "--minimize", tmp_path / "best.presil"]
    child = subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    count = commands(folder / "x.presil", CONV)
    for line in child.stderr:
        if f" of {count} commands" in line and f": {count} of" not in line:
            break
    child.send_signal(2)
    out, text = child.communicate(timeout=60)
    assert child.returncode == 0 and out.splitlines()[-2].startswith("stopped: "), out + text
    assert bisect(folder, tmp_path / "best.presil", 0, "hang")["exit"] == 3


def test_a_library_of_another_configuration(folder):
    other = built.build_directory() / "lib" / "libpresil_sim_odd_fast.so"
    status, _, text = replay(folder, "x.presil", CONV, "--library", other)
    assert status == 2 and "is for the chip presil, configuration tiny, hash" in text
    assert "this one is presil, odd, hash" in text


def test_why_the_rtl_that_is_named_hangs(folder):
    program = Path(torch_presil.__file__).with_name("cli.py")
    environment = {**os.environ, "PRESIL_MUTANT": str(number("hang"))}
    for words, status, text in (((), 0, "not hung"), (("--library", library()), 3, "no progress for")):
        command = [sys.executable, program, "why", folder / "x.presil", "--launch", str(CONV), *words]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200, check=False)
        assert done.returncode == status and text in done.stdout, done.stdout + done.stderr


def test_a_window_behind_the_end(folder):
    options = ("--trace", "w.fst", "--window")
    assert replay(folder, "x.presil", CONV, *options, "100:200")[0] == 0 and (folder / "w.fst").stat().st_size > 0
    status, out, text = replay(folder, "x.presil", CONV, *options, "9999999:")
    assert status == 2 and "w.fst is empty, since the last launch ends in cycle " in text and "equal" in out


def test_a_window_of_the_last_of_several(folder):
    """Those before it have no cycle in the waveform."""

    def cycles(name, launches, *window):
        assert replay(folder, "x.presil", launches, "--trace", f"{name}.fst", *window)[0] == 0
        found = trace.Trace(folder / f"{name}.fst")
        seen = trace.Cycles(found.signal(next(n for n in found.variables if n.endswith(".clk"))), None)
        return (seen.first // seen.period, (seen.last - seen.first) // seen.period)

    (begin, length), (alone, _), (first, whole) = (
        cycles("last", "0:", "--window", "0:300"),
        cycles("alone", MATMUL, "--window", "0:300"),
        cycles("all", "0:"),
    )
    assert first < alone < begin - 1000 and length <= 301 < whole / 4, (begin, length, alone, first, whole)


def test_junit(folder):
    """The schema of regress' reports; what is no ASCII is kept out of it."""
    assert replay(folder, "x.presil", "0:", "--junit", "good.xml")[0] == 0
    name = 'a"<&>\u00e9\x01.presil'
    (folder / name).write_bytes((folder / "x.presil").read_bytes())
    status, _, text = replay(folder, name, "0:", "--junit", "bad.xml", fault="matrix")
    assert status == 1, text
    schema = xmlschema.XMLSchema(Path(__file__).parents[1] / "regress" / "junit.xsd")
    for file in ("good.xml", "bad.xml"):
        schema.validate(str(folder / file))
    good, bad = (ElementTree.parse(folder / file).getroot() for file in ("good.xml", "bad.xml"))
    assert (good.get("tests"), good.get("failures")) == ("2", "0") and good.find(".//failure") is None
    assert (bad.get("tests"), bad.get("failures"), bad.get("errors")) == ("2", "1", "0")
    failure = bad.find("testsuite[2]/testcase/failure")
    assert failure.get("type") == "mismatch" and failure.get("message").startswith("first difference: output [")
    found = {p.get("name"): p.get("value") for p in bad.find("testsuite[2]").iter("property")}
    assert found["replay"] == 'presil-replay a"<&>???.presil --launches 1' and int(found["cycles"]) > 100
    assert found["unit"] == "MATRIX" and not good.findall(".//property[@name='unit']")


@pytest.mark.parametrize(
    "fault, launch, engine", [("load", CONV, "LOAD"), ("store", CONV, "STORE"), ("hang", CONV, "LOAD")]
)
def test_junit_names_the_engine(folder, fault, launch, engine):
    status = replay(folder, "x.presil", launch, "--junit", f"{fault}.xml", fault=fault)[0]
    assert status == (3 if fault == "hang" else 1)
    units = ElementTree.parse(folder / f"{fault}.xml").getroot().findall(".//property[@name='unit']")
    assert [unit.get("value") for unit in units] == [engine]


@pytest.fixture
def served(folder, tmp_path):
    """Starts presil-serve on the planted library; returns what --transport wants."""
    servers = []

    def start(fault=None):
        spec = tmp_path / f"chip{len(servers)}.sock"
        environment = {**os.environ, "PRESIL_MUTANT": str(number(fault) if fault else 9999)}
        command = [built.build_directory() / "bin" / "presil-serve", spec, "--library", library(), "--quiet"]
        servers.append(subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL))
        for _ in range(600):
            if spec.exists():
                return f"socket:{spec}"
            time.sleep(0.05)
        raise AssertionError("presil-serve does not listen")

    yield start
    for server in servers:
        server.terminate()
        server.wait(timeout=100)


def test_over_a_socket(folder, served):
    """The same bits and cycles, the same command found, and an exit status of its own where nobody serves."""
    spec = served()
    status, out, text = replay(folder, "x.presil", "0:", "--transport", spec)
    assert status == 0 and "2 of 2 launches as recorded" in out and out.count(" equal ") == 2, out + text
    wrong = served("matrix")
    assert replay(folder, "x.presil", MATMUL, "--transport", wrong)[0] == 1
    here, there = (
        bisect(folder, "x.presil", MATMUL, fault, *options)
        for fault, options in (("matrix", ()), (None, ("--transport", wrong)))
    )
    assert here == there and there["exit"] == 1
    status, _, text = replay(folder, "x.presil", "0:", "--transport", "socket:/no/such/socket")
    assert status == 2 and "/no/such/socket" in text
