# SPDX-License-Identifier: Apache-2.0
"""A chip that tells neither clock nor hash (sa16 without the line that gives its clock): what it doesn't tell is absent
from properties, JSON, tables, reports and the C tools, and nowhere 0."""

import json
import os
import re
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILD = Path(os.environ.get("PRESIL_BUILD_DIR", ROOT / "build" / "check"))
CLI = ROOT / "torch_ext" / "torch_presil" / "cli.py"
# What presil_device_info has for chips to which it means something.
TOLD = {"lanes", "cells", "word_bytes", "banks", "bank_words", "acc_rows", "clock_mhz", "config_hash"}
ZERO = re.compile(r"\b0+(\.0+)? ?(MHz|TOPS)|hash 0+\b|\b(nan|inf)\b", re.I)

MODEL = """
import torch
from torch import nn
def small():
    torch.manual_seed(1)
    return nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU()).eval(), torch.randn(1, 3, 8, 8)
"""
SCRIPT = """
import json, sys, torch, torch_presil
sys.path.insert(0, sys.argv[1])
from small import small
from torch.profiler import ProfilerActivity, profile
from torch_presil.fuse import fuse
from torch_presil.quantize import quantize
P, folder = torch.presil, sys.argv[1]
model, x = small()
model = quantize(fuse(model, x), [x])
model, first, last = model.to("presil"), *(P.Event(enable_timing=True) for _ in range(2))
with torch.inference_mode(), P.capture(folder + "/told.presil"), P.reports() as reports:
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]) as p:
        first.record()
        model(x.to("presil")).cpu()
        last.record()
        P.synchronize()
p.export_chrome_trace(folder + "/trace.json")
try:
    why = f"{first.elapsed_time(last)} ms"
except RuntimeError as e:
    why = str(e)
events = [e for e in json.load(open(folder + "/trace.json"))["traceEvents"] if "stalls" in e.get("args", {})]
bars = [(e["dur"], e["args"]["cycles"]) for e in events]
told = {"properties": vars(P.get_device_properties()), "name": P.get_device_name(), "elapsed": why, "bars": bars}
json.dump(told, open(folder + "/told.json", "w"))
"""

SAVED = """
import sys, numpy, torch, torch_presil
x = torch.randn(4, 8)
torch.presil.aot_save(torch.export.export(torch.nn.Linear(8, 8).eval(), (x,)), sys.argv[1])
numpy.save(sys.argv[2], x.numpy())
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """With the chip's library, a model, and what a run of it left there."""
    folder = tmp_path_factory.mktemp("absent")
    (folder / "small.py").write_text(MODEL)
    clock = "    out->clock_mhz = 500; /* its sizes: sa16_names() */\n"
    table = (HERE / "sa16/chip/table.c").read_text()
    assert table.count(clock) == 1
    (folder / "table.c").write_text(table.replace(clock, "    (void)out;\n"))
    others = [path for path in sorted((HERE / "sa16/chip").glob("*.c")) if path.name != "table.c"]
    options = ("-std=gnu11", "-O1", "-shared", "-fPIC", f"-I{ROOT}/driver/include", f"-I{HERE}/sa16/chip")
    made = folder / "libpresil_chip_sa16.so"
    subprocess.run(["cc", *options, *others, folder / "table.c", "-lm", "-o", made], check=True)
    run(folder, sys.executable, "-c", SCRIPT, folder)
    return folder


def run(folder: Path, *command, status: int = 0, **more) -> str:
    own = {"PRESIL_CHIP": "sa16", "PRESIL_BUILD": "fast", "PRESIL_MODE": "rtl", "PRESIL_MEMORY": str(1 << 30)}
    own |= {"PRESIL_CHIP_LIBRARY": str(folder / "libpresil_chip_sa16.so"), "PRESIL_LIBRARY_PATH": str(BUILD / "lib")}
    environment = {**os.environ, **own, **more}
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=280, env=environment)
    said = done.stdout + done.stderr
    assert done.returncode == status, said
    assert not ZERO.search(said), (ZERO.search(said), said)
    return said


def none_is_zero(value, where="") -> None:
    """No member that a chip may not know is there with a 0."""
    if isinstance(value, dict):
        for key, inner in value.items():
            assert key not in TOLD | {"mhz", "hertz"} or inner is None or inner > 0, (where, key)
            none_is_zero(inner, f"{where}.{key}")
    elif isinstance(value, list):
        for inner in value:
            none_is_zero(inner, where)


def test_properties_events_and_profiler(folder):
    told = json.loads((folder / "told.json").read_text())
    assert not TOLD & set(told["properties"]) and told["properties"]["array_rows"] == 16
    assert told["name"] == "sa16-sa16"
    assert told["elapsed"].splitlines()[0].endswith('elapsed_time: the chip "sa16" does not tell its clock_mhz')
    # A nanosecond a cycle; a trace is in microseconds.
    assert told["bars"] and all(c > 0 and round(1e3 * length) == c for length, c in told["bars"]), told["bars"]


def test_bundle_and_replay(folder):
    bundle, chip = folder / "told.presil", ("chips", 0)
    text = run(folder, BUILD / "bin/presil-bundle", "info", bundle)
    assert "configuration sa16, build fast" in text
    told = json.loads(run(folder, BUILD / "bin/presil-bundle", "info", bundle, "--json"))[chip[0]][chip[1]]
    assert told["config_hash"] is None and told["clock_mhz"] is None and told["memory_bytes"] > 0
    run(folder, BUILD / "bin/presil-replay", bundle, "--json", folder / "replay.json")
    replayed = json.loads((folder / "replay.json").read_text())
    assert replayed["clock_mhz"] is None and replayed["launches"][0]["cycles"] > 0
    said = run(folder, BUILD / "bin/presil-replay", bundle, "--export-sv", folder / "sv", status=2)
    assert 'the chip "sa16" does not tell the width of its bus' in said
    other = {"PRESIL_CHIP_LIBRARY": "", "PRESIL_CHIP": ""}
    simulator = BUILD / "lib/libpresil_sim_tiny_fast.so"
    said = run(folder, BUILD / "bin/presil-replay", bundle, "--library", simulator, status=2, **other)
    assert re.search(r"the chip sa16, configuration sa16, hash -; this one is presil, tiny, hash [0-9a-f]{8}:", said)


def test_info(folder):
    text = run(folder, BUILD / "bin/presil-info", "sa16", "fast", "--rtl")
    assert "configuration sa16\n" in text and "clock" not in text and "array_rows" in text
    assert not TOLD & set(json.loads(run(folder, sys.executable, CLI, "info", "--json")))


def test_a_saved_program_without_a_hash(folder):
    program, x, y = folder / "linear.paot", folder / "x.npy", folder / "y.npy"
    ours = {"PRESIL_CHIP": "tiny", "PRESIL_CHIP_LIBRARY": ""}
    run(folder, sys.executable, "-c", SAVED, program, x, **ours)
    raw = bytearray(program.read_bytes())
    raw[20:24] = raw[128:132] = bytes(4)
    raw[20:24] = zlib.crc32(raw).to_bytes(4, "little")
    program.write_bytes(raw)
    assert "configuration tiny (hash -)" in run(folder, BUILD / "bin/presil-run", "--info", program)
    said = run(folder, BUILD / "bin/presil-run", program, x, y, status=2, **ours)
    assert re.search(r"configuration tiny, hash -; this one is presil, tiny, hash [0-9a-f]{8}:", said)


def test_cosim(folder):
    """Cycles are known, and shown; what needs a clock is "-"."""
    options = ("--dtype", "int8", "--mode", "rtl", "--batches", "2", "--no-check", "--json", folder / "cosim.json")
    text = run(folder, sys.executable, CLI, "cosim", f"{folder / 'small.py'}:small", *options)
    result = json.loads((folder / "cosim.json").read_text())
    none_is_zero(result)
    row = result["batches"][0]
    assert row["latency_cycles"] > 0 and row["images_per_second_simulated"] is None
    assert re.search(r"Latency and throughput in simulated time *\n", text) and "MHz" not in text
    cells = next(
        line for line in text.splitlines() if line.startswith("│ ") and f" {row['latency_cycles']:,} │" in line
    )
    assert [cell.strip() for cell in cells.split("│")[3:5]] == ["-", "-"], cells


def test_perf(folder):
    kinds = {kind: folder / f"perf.{kind}" for kind in ("json", "html", "csv")}
    options = ("--dtype", "int8", "--jobs", "1", *(f"--{kind}={path}" for kind, path in kinds.items()))
    text = run(folder, sys.executable, CLI, "perf", f"{folder / 'small.py'}:small", *options)
    document = json.loads(kinds["json"].read_text())
    none_is_zero(document)
    assert document["clock"] is None and document["total"]["cycles"] > 0 and "MHz" not in text


def test_regress(folder):
    suite = folder / "absent.toml"
    suite.write_text(
        '[suite]\ndefaults = { chips = ["sa16"], dtype = "int8" }\n\n[case.small]\nkind = "cosim"\n'
        'model = "small.py:small"\n'
    )
    run(folder, sys.executable, CLI, "regress", "--runs", folder / "runs", "-j", "1", suite, PRESIL_CHIP="")
    latest = (folder / "runs" / "latest").resolve()
    told = {path.name: path.read_text() for path in latest.iterdir() if path.suffix in (".html", ".json")}
    for name, text in told.items():
        if name.endswith(".json"):
            none_is_zero(json.loads(text), name)
        else:
            assert not ZERO.search(re.sub(r"<(script|style).*?</\1>", "", text, flags=re.S)), name
    assert '"sim_time": null' in told["dvsim.json"]
