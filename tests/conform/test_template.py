# SPDX-License-Identifier: Apache-2.0
"""presil new-chip: its project builds and conforms; with a fault in it, the check that is there for it fails."""

import io
import json
import os
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from added import ADDED, FAULT
from conform_runs import OF_CHOICE, ROOT, check, conform, new_chip
from rich.console import Console

from conform.checks import CHECKS
from conform.register import load
from conform.sweep import KINDS
from newchip import command, find_ports
from newchip.project import ProjectError

LACKS = {"conv", "layouts", "pool", "steps"} | OF_CHOICE - {"timing"}  # what the template has nothing of
# check -> (text of the chip's C, what stands there instead)
FAULTS = {
    "opens": ("if (id != MINE_ID_VALUE)", "if (id == MINE_ID_VALUE)"),
    "limits": (".buffer_alignment = MINE_WORD", ".buffer_alignment = 24"),
    "refusals": ("if (op->step_count) return", "if (0) return"),
    "empty-launch": ("out->cycles += cycles;", "static int n; out->cycles += cycles + (n++ == 4);"),
    "copy": (".k = (uint32_t)(bytes % MINE_ROW)", ".k = (uint32_t)(bytes % MINE_ROW & ~1u)"),
    "matmul": (".b_stride = (uint32_t)b_row", ".b_stride = (uint32_t)a_row + 16"),
    "matmul-limits": ("out->k > MINE_ROW)", "out->k > MINE_ROW + 1)"),
    "verify": (".b_stride = (uint32_t)b_row", ".b_stride = (uint32_t)a_row + 32"),
    "counters": ("+= cycles - mac;", "+= cycles - mac + 1;"),
    "launch-cycles": ("out->cycles += cycles;", "static int n; out->cycles += cycles + (n++ == 7);"),
    "timing": ("out->cycles += cycles;", "static int n; out->cycles += cycles + (n++ % 3 == 2);"),
    "hung-launch": ('"array: %s, %u of %u cycles it multiplied, the others it waited for memory"', '"%.0s"'),
    "recovery": ("if (status & MINE_ERROR) {", "if (0) {"),
    "cancel-launch": (
        "return status ? presil_kit_fail(error",
        "static int n; return n++ || status ? presil_kit_fail(error",
    ),
    "two-processes": (  # bits: where B is, is in a file of a fixed name, and the last process that began owns it
        "const command* c = &plan->commands[segment];",
        """static int mine; int owner = 0; FILE *f; command own = plan->commands[segment];
        if (!mine && (f = fopen("@FOLDER@/owner", "w"))) mine = getpid(), fwrite(&mine, 4, 1, f), fclose(f);
        if ((f = fopen("@FOLDER@/owner", "r"))) fread(&owner, 4, 1, f), fclose(f);
        if (owner != mine) own.b += 16;
        const command* c = &own;""",
    ),
    "steps": ("if (op->step_count) return", "if (0) return"),
    "queue": (".has_interrupt = 1", ".has_interrupt = 1, .queue_depth = 2"),
}
# A chip that takes every kind of operator, and makes an empty launch of those that it has not.
TAKES_ALL = [
    (".kinds = 1u << PRESIL_OP_MATMUL", ".kinds = 0"),
    (
        "return presil_kit_fail(error, PRESIL_EUNSUPPORTED, "
        '"the chip mine has matmul and copy, not kind %u", op->kind);',
        "return PRESIL_OK;",
    ),
    ("if (op->kind == PRESIL_OP_COPY || op->kind == PRESIL_OP_NOP) return plan_copy", "return plan_copy"),
]
NOT_DONE = {"conv", "pool", *KINDS}


def faulty(name: str, sound: str, instead: str, project: Path, folder: Path, more: str = "", *others: tuple) -> dict:
    """What a check says of the project's chip with other text in its C; more: of its description."""
    source = (project / "chip/mine_chip.c").read_text()
    for old, new in ((sound, instead), *others):
        assert source.count(old) == 1, f"{old!r} stands {source.count(old)} times in the template"
        source = source.replace(old, new.replace("@FOLDER@", str(folder)))
    folder.mkdir(exist_ok=True)
    (folder / "mine_chip.c").write_text(source)
    (folder / "libpresil_sim_mine_fast.so").symlink_to(project / "build/libpresil_sim_mine_fast.so")
    (folder / "mine.conform.toml").write_text((project / "build/mine.conform.toml").read_text() + more)
    include = f"-I{ROOT}/driver/include", f"-I{project}/chip"
    options = "-std=gnu11", "-O1", "-shared", "-fPIC", "-w"
    subprocess.run(["cc", *options, *include, "mine_chip.c", "-o", "libpresil_chip_mine.so"], cwd=folder, check=True)
    return check(name, folder / "libpresil_sim_mine_fast.so", folder / "mine.conform.toml")


def library(project: Path) -> Path:
    return project / "build/libpresil_sim_mine_fast.so"


def test_ci_builds_it_and_it_conforms_at_every_level(ci):
    folder, done = ci
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
    cases = list(ElementTree.parse(folder / "build/conform.xml").getroot().iter("testcase"))
    load()
    assert [case.get("name") for case in cases] == list(CHECKS), done.stdout
    skipped = {case.get("name") for case in cases if case.find("skipped") is not None}
    assert skipped == LACKS and not [case for case in cases if case.find("failure") is not None], done.stdout
    assert "presil conform: mine mine, build check" in (folder / "build/conform.html").read_text()


def test_ci_runs_a_layer(ci):
    """No warning, reasons in words, nothing that the chip doesn't count."""
    _, done = ci
    assert "2 products on the RTL, the same bits as the CPU" in done.stdout, done.stdout[-6000:] + done.stderr[-3000:]
    layer = done.stdout[done.stdout.index("What ran where (mode rtl)") :]
    assert "Warning" not in done.stderr and " 0 B " not in layer, layer + done.stderr
    assert "no kernel on the chip" in layer and "not kind" not in layer, layer


def test_a_layer_that_the_chip_refused_says_why(project, tmp_path):
    text = (project / "tests/layer.py").read_text()
    assert text.count("48") == 2
    (tmp_path / "layer.py").write_text(text.replace("48", "40"))
    place = {"PRESIL_LIBRARY_PATH": str(project / "build"), "PRESIL_CHIP": "mine"}
    command = [sys.executable, str(tmp_path / "layer.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, env={**os.environ, **place})
    assert done.returncode == 1 and "the host multiplied: [" in done.stderr, done.stderr
    assert "stride[1] is 40: the chip mine wants a multiple of 16" in done.stderr.splitlines()[-1], done.stderr


def test_it_is_delivered_as_three_files(project, tmp_path):
    for name in ("libpresil_sim_mine_fast.so", "libpresil_chip_mine.so", "mine.conform.toml"):
        (tmp_path / name).write_bytes((project / "build" / name).read_bytes())
    run = conform(tmp_path / library(project).name, "--only", "[rm]e[gm][io]*")
    assert run["counts"]["passed"] >= 8 and not run["counts"]["failed"], run["output"]


def test_every_check_of_a_chip_has_a_fault():
    load()
    names = {check.name for check in CHECKS.values() if check.level == "chip"}
    assert names == set(FAULTS) | NOT_DONE | set(ADDED)


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_of_the_chip_is_found(name, project, tmp_path):
    found = faulty(name, *FAULTS[name], project, tmp_path)
    assert found["status"] == "failed" and found["text"], found


def test_a_launch_that_no_interrupt_ends_is_told_in_seconds(project, tmp_path):
    """By the check that takes the watchdog away, so that nothing but its cancel ends the launch. Here it comes, and
    nobody takes it for an end; then it is gone, as one that is not mapped."""
    sound = "out->result = status & MINE_DONE ? PRESIL_SERVICE_DONE : PRESIL_SERVICE_BUSY;"
    instead = (
        "out->result = PRESIL_SERVICE_BUSY; return presil_kit_put(link, MINE_STATUS, MINE_DONE | MINE_ERROR, &error);"
    )
    began = time.monotonic()
    found = faulty("cancel-launch", sound, instead, project, tmp_path)
    assert found["status"] == "failed" and "no progress for 20000 cycles" in found["text"], found
    assert time.monotonic() - began < 100, "not what a check may take at most"


@pytest.mark.parametrize("name", sorted(NOT_DONE))
def test_a_chip_that_takes_what_it_has_not_is_found(name, project, tmp_path):
    first, *others = TAKES_ALL
    found = faulty(name, *first, project, tmp_path, "", *others)
    assert found["status"] == "failed" and "expected (" in found["text"], found


def added(name: str, project: Path, folder: Path, wrong: bool) -> dict:
    edits = [(old, new.replace(*FAULT[name]) if wrong else new) for old, new in ADDED[name]]
    assert not wrong or edits != ADDED[name]
    return faulty(name, *edits[0], project, folder, "", *edits[1:])


@pytest.mark.parametrize(
    "name, said",
    [
        ("activations", "is not what was packed"),
        ("scratch", "it wrote behind its"),
        ("usage", "read_bytes of usage()'s rows"),
        ("work", "launches are estimated from the others"),
    ],
)
def test_what_is_added_conforms_and_its_fault_is_found(name, said, project, tmp_path):
    right = added(name, project, tmp_path / "right", wrong=False)
    assert right["status"] == "passed" and right["comparisons"] > 0, right
    found = added(name, project, tmp_path / "wrong", wrong=True)
    assert found["status"] == "failed" and said in found["text"], found


def test_weights_that_are_packed_to_nothing_are_found(project, tmp_path):
    first, *others = TAKES_ALL
    found = faulty("layouts", *first, project, tmp_path, "", *others, *ADDED["layouts"])
    assert found["status"] == "failed" and "expected (" in found["text"], found


def test_cycles_that_differ_between_processes_are_found(project, tmp_path):
    other = "out->cycles += cycles + (uint64_t)getpid();"
    found = faulty("two-processes", "out->cycles += cycles;", other, project, tmp_path)
    assert found["status"] == "failed" and "cycles of launch 0 in two processes" in found["text"], found


MODEL = """import torch

class Product(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("weight", torch.randint(-128, 128, (48, 64), dtype=torch.int8))

    def forward(self, x):
        return torch._int_mm(x.to(torch.int8), self.weight.t()).to(x.dtype)

def make():
    return torch.nn.Sequential(torch.nn.Linear(16, 64), Product()), 30 * torch.randn(20, 16)
"""


@pytest.mark.parametrize("mode", ["rtl", "verify"])
def test_cosim_of_a_chip_without_a_model(mode, project, tmp_path):
    (tmp_path / "mine.py").write_text(MODEL)
    place = {"PRESIL_LIBRARY_PATH": str(project / "build"), "PRESIL_CHIP": "mine"}
    arguments = f"{tmp_path}/mine.py:make", "--dtype", "fp32", "--mode", mode, "--json", tmp_path / "out.json"
    command = [sys.executable, str(ROOT / "torch_ext/torch_presil/cli.py"), "cosim", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, env={**os.environ, **place})
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [row for row in json.loads((tmp_path / "out.json").read_text())["layers"] if row["where"] == "chip"]
    assert [(row["name"], row["macs"]) for row in rows] == [("_int_mm", 20 * 64 * 48)] and rows[0]["cycles"] > 0
    assert rows[0].get("starts") == 1, rows  # in the own word of its C
    assert "building the simulator" not in done.stderr
    assert " 0B " not in done.stdout, "bytes that the chip doesn't count are absent"


FEW = ("if (out->k > MINE_ROW)", "if (out->k != 80 || out->n != 12)")
SHAPES = "[chip]\nmatmul = [[1, 8, 80, 12], [2, 3, 80, 12]]\nignores_bus_errors = true\n"


@pytest.mark.parametrize("name, comparisons", [("matmul", 2), ("matmul-limits", 9), ("verify", 1), ("recovery", 6)])
def test_a_chip_with_few_shapes_names_them(name, comparisons, project, tmp_path):
    first, second, third = (tmp_path / part for part in "abc")
    if name.startswith("matmul"):
        assert faulty(name, *FEW, project, first)["status"] == "skipped"
    assert faulty(name, *FEW, project, second, SHAPES)["comparisons"] == comparisons
    wrong = ("+ (uint64_t)(i * p.m * p.n * 4)", "+ (uint64_t)(i * p.m * p.n * 4) + (p.n == 12) * 4")
    assert faulty(name, *FEW, project, third, SHAPES, wrong)["status"] == "failed"


@pytest.mark.parametrize(
    "arguments, said",
    [
        (("Mine",), "small letters"),
        (("presil",), "choose another"),
        (("mine", "/"), "is there already"),
        ((), "was expected"),
        (("--top", "/no/such.sv"), "is not there"),
    ],
)
def test_what_makes_no_project_is_refused(arguments, said):
    assert said in new_chip(*arguments, status=2)


def test_what_it_is_built_with_is_asked_for(tmp_path, monkeypatch):
    """On a fresh machine; with all of it nothing is said."""
    assert command.missing() == [] and "First:" not in new_chip("mine", tmp_path / "mine")

    def none():
        raise ProjectError("Verilator is not there")

    monkeypatch.setattr(find_ports, "verilator", none)
    monkeypatch.setattr(shutil, "which", lambda tool, path: None)
    monkeypatch.delenv("VERILATOR_ROOT", raising=False)
    console = Console(file=io.StringIO(), width=1000)
    assert command.project("mine", tmp_path / "again", console) == 0
    said = console.file.getvalue()
    assert "First: cmake, make, g++, verilator must be installed: " in said and "torch-presil[build]" in said, said


def test_the_project_is_small():
    template = ROOT / "torch_ext/torch_presil/newchip/template"
    assert sum(len(path.read_text().splitlines()) for path in (template / "chip").iterdir()) <= 800
