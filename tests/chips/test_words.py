# SPDX-License-Identifier: Apache-2.0
"""Whoever has another chip meets no word of ours: everything that is said of sa16 (cosim, its JSON, explain, reports,
properties, profiler, presil-replay, regress and its HTML) against a list made from the tables of the chip in rtl/."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILD = Path(os.environ.get("PRESIL_BUILD_DIR", ROOT / "build" / "check"))
CLI = ROOT / "torch_ext" / "torch_presil" / "cli.py"
# English, which the core says of every chip: what is packed is weights, what is run a command, what fails an error; a
# report's member for the cycles behind an array's last; what a host loads and stores.
ORDINARY = {"weights", "command", "error", "drain", "none", "vector", "name"}
# Members of the properties of every chip.
EVERY = {"chip", "config", "build", "simulator", "transport", "total_memory", "clock_mhz", "config_hash"}

OURS = """
import json, torch, torch_presil
P = torch.presil
print(json.dumps([P.chip_names(), sorted(vars(P.get_device_properties()))]))
"""
TOLD = """
import json, sys, torch, torch_presil
sys.path.insert(0, sys.argv[1])
from networks import network
from torch.profiler import ProfilerActivity, profile
from torch.utils._debug_mode import DebugMode
from torch_presil.fuse import fuse
from torch_presil.quantize import quantize
folder, P = sys.argv[2], torch.presil
model, x = network("ds_cnn")
model = quantize(fuse(model, x), [x]).to("presil")
with torch.inference_mode(), P.capture(folder + "/told.presil"), P.reports() as reports:
    with P.explain() as e, profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]) as p:
        y = model(x.to("presil")).cpu()
        torch.softmax(torch.randn(9).to("presil"), 0).cpu()
        P.synchronize()
    taken = reports.take()
p.export_chrome_trace(folder + "/trace.json")
with DebugMode() as log, DebugMode.log_tensor_hashes(hash_inputs=True), torch.inference_mode():
    again = model(x.to("presil")).cpu()
assert torch.equal(y, again)
events = [e for e in json.load(open(folder + "/trace.json"))["traceEvents"] if "stalls" in e.get("args", {})]
told = {"reports": taken, "names": P.chip_names(), "properties": vars(P.get_device_properties()), "str": str(e)}
told |= {"operators": e.operators(), "events": events, "debug": log.debug_string(), "verified": P.verified()}
told |= {"name": P.get_device_name(), "moves": P.host_moves(), "host": P.host_operators()}
json.dump(told, open(folder + "/told.json", "w"), default=str)
"""


def run(*command, **more) -> str:
    environment = {**os.environ, "PRESIL_CHIP": "sa16", "PRESIL_BUILD": "fast", "PRESIL_MEMORY": str(1 << 30), **more}
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=280, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def tables_of(names: dict) -> set:
    """Words of a chip's tables: names, and what bounds."""
    rows = [row for table in ("engines", "causes", "counters", "properties") for row in names[table]]
    return {row[key] for row in rows for key in ("name", "bound") if key in row} | {names["commands"]}


@pytest.fixture(scope="module")
def words() -> set:
    """Ours: engines, causes, counters, commands, members of properties, opcodes, registers, keys of configurations."""
    names, properties = json.loads(run(sys.executable, "-c", OURS, PRESIL_CHIP="tiny", PRESIL_MODE="model"))
    found = tables_of(names) | set(properties)
    layout = json.loads((ROOT / "rtl" / "descriptors.json").read_text())
    found |= {*layout["opcodes"], *layout["engines"], *layout["enums"]["CAUSE"]}
    found |= set(re.findall(r"define PRESIL_REG_(\w+_\w+)", (BUILD / "generated" / "presil_regs.h").read_text(), re.M))
    configs = json.loads((ROOT / "rtl" / "configs.json").read_text())
    found |= {key for config in configs.values() if isinstance(config, dict) for key in config}
    return {word.lower() for word in found - EVERY if len(word) > 3} | {"descriptor"}


@pytest.fixture(scope="module")
def told(tmp_path_factory) -> dict:
    """What is said of sa16, by where it is said."""
    folder = tmp_path_factory.mktemp("told")
    run(sys.executable, "-c", TOLD, HERE / "sa16", folder, PRESIL_MODE="verify")
    out = json.loads((folder / "told.json").read_text())
    assert out["reports"] and out["events"] and all(r["verified"] == 1 for r in out["reports"])
    assert out["verified"] == {"compared": 2 * len(out["reports"]), "differed": 0, "not_compared": 0}
    assert "presil" in out["debug"]
    model = f"{HERE / 'sa16' / 'models.py'}:ds_cnn"
    options = ("--dtype", "int8", "--chip", "sa16", "--mode", "verify", "--no-check", "--json", folder / "cosim.json")
    out["cosim"] = run(sys.executable, CLI, "cosim", model, *options)
    out["cosim JSON"] = json.loads((folder / "cosim.json").read_text())
    out["info"] = run(sys.executable, CLI, "info", "--json") + run(BUILD / "bin" / "presil-info", "sa16", "fast")
    out["replay"] = run(BUILD / "bin" / "presil-replay", folder / "told.presil", "--json", folder / "replay.json")
    out["replay JSON"] = json.loads((folder / "replay.json").read_text())
    suite, runs = HERE / "sa16" / "team" / "sa16.toml", ("--runs", folder / "runs", "-j", "1")
    out["regress"] = run(sys.executable, CLI, "regress", *runs, suite, "--filter", "ds-cnn", PRESIL_CHIP="")
    latest = (folder / "runs" / "latest").resolve()
    out |= {path.name: path.read_text() for path in latest.iterdir() if path.suffix in (".html", ".xml", ".json")}
    assert "report.html" in out
    return out


def test_the_list_is_of_our_chip(words):
    assert {"descriptors", "lanes", "cells", "acc_rows", "epilogue", "wait_load", "ring_tail"} <= words, words
    assert len(words) > 40


def test_no_word_of_our_chip(words, told):
    own = {w.lower() for w in tables_of(told["names"])} | ORDINARY
    strange = re.compile(r"\b(" + "|".join(sorted(words - own)) + r")\b", re.I)
    paths = re.compile(r"/[\w./-]+|rtl/\w+")  # of files: build/check/...
    found = {}
    for where, what in told.items():
        text = paths.sub("", what if isinstance(what, str) else json.dumps(what))
        assert len(text) > 5, where
        if hits := sorted({m.group().lower() for m in strange.finditer(text)}):
            found[where] = hits
    assert found == {}


def test_its_own_words_are_there(told):
    report = told["reports"][0]
    assert report["operations"] > 0 and set(report["stalls"]) == {"load", "array", "store"}
    assert told["cosim JSON"]["total"]["operations"] > 0 and "fill_drain" not in told["cosim JSON"]["total"]
    p = told["properties"]
    assert (p["array_rows"], p["array_columns"], p["clock_mhz"]) == (16, 16, 500) and "sa16" in told["name"]
    assert 0 not in p.values(), p


def test_what_our_own_chip_is_called_stays():
    names, properties = json.loads(run(sys.executable, "-c", OURS, PRESIL_CHIP="tiny", PRESIL_MODE="model"))
    assert names["commands"] == "descriptors"
    assert {"lanes", "cells", "word_bytes", "banks", "bank_words", "acc_rows"} <= set(properties)
