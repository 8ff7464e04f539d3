# SPDX-License-Identifier: Apache-2.0
"""Cycle counts and their causes are exact: the same twice, in any order, at other addresses, on both builds, with a
slow host; cycles and causes of operators and of networks equal baseline.json, tolerance 0.

PRESIL_UPDATE_BASELINE=1 rewrites the baseline: explain the change in the commit.
"""

import functools
import itertools
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import gate
import pytest
import small_channels as table

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
CHIPS = ("tiny", "odd", "base", "wide")


@functools.lru_cache(maxsize=None)
def measure(chip: str, build: str = "fast", *args: str) -> dict:
    environment = {**os.environ, "PRESIL_CHIP": chip, "PRESIL_BUILD": build}
    done = subprocess.run(
        [sys.executable, str(HERE / "measure.py"), *args], env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def cycles_of(measured: dict) -> dict:
    return {name: m["cycles"] for name, m in measured.items()}


@pytest.mark.parametrize("chip", CHIPS)
def test_operators(chip):
    cases = gate.operators(measure(chip))
    assert len(cases) >= 18
    gate.check(chip, cases)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("name", ["mm_{}_33x65x40", "conv_{}_3x3"])
def test_fp16_takes_the_cycles_of_bf16(chip, name):
    measured = measure(chip)
    assert measured[name.format("fp16")] == measured[name.format("bf16")]


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("name", ["input_grad_{}", "weight_grad_{}"])
def test_gradients_take_the_same_cycles_in_nchw(chip, name):
    """Nothing is moved element by element."""
    measured = measure(chip)
    assert measured[name.format("nchw")] == measured[name.format("nhwc")]


@functools.lru_cache(maxsize=None)
def networks() -> dict:
    environment = {**os.environ, "PRESIL_CHIP": "base", "PRESIL_BUILD": "fast"}
    done = subprocess.run(
        [sys.executable, str(HERE / "networks.py")], env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return {name: gate.compact(launches) for name, launches in json.loads(done.stdout).items()}


@pytest.mark.parametrize(
    ("name", "launches"),
    [("resnet18_bf16", 21), ("resnet18_int8", 21), ("mobilenet_v2_depthwise_bf16", 17), ("vit_s_block_bf16", 6)],
)
def test_networks(name, launches):
    measured = networks()[name]
    assert len(measured) >= launches
    gate.check("base", {name: measured})


@functools.lru_cache(maxsize=None)
def small_channels() -> str:
    environment = {**os.environ, "PRESIL_CHIP": "base", "PRESIL_BUILD": "fast"}
    program = [sys.executable, str(HERE / "small_channels.py")]
    done = subprocess.run(program, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_depthwise_and_small_channels_reach_what_the_document_says():
    rows = small_channels()
    if os.environ.get("PRESIL_UPDATE_BASELINE") == "1":
        table.write(rows)
    old, new = table.written().splitlines(), rows.splitlines()
    changed = [f"- {a}\n+ {b}" for a, b in itertools.zip_longest(old, new) if a != b]
    assert not changed, "docs/performance.md, small channels:\n" + "\n".join(changed) + f"\nIf meant: {gate.ACCEPT}"


def test_the_readmes_demo_has_the_gated_cycles():
    table = dict(re.findall(r"^│ ([\w.]+) +│.*?│ +[\d.]+ [kMG] │ +([\d,]+) │", (ROOT / "README.md").read_text(), re.M))
    gated = {name: f"{cycles:,}" for name, (cycles, _) in gate.recorded()["base"]["resnet18_bf16"].items()}
    total = sum(int(cycles.replace(",", "")) for cycles in gated.values())
    assert table == {**gated, "total": f"{total:,}"}


def test_a_failure_names_layer_engine_and_cause_and_how_to_accept(monkeypatch):
    case = {"conv1": [100, {"load": {"busy": 60, "bus_data": 40}}], "fc": [7, {"load": {"busy": 7}}]}
    slower = {**case, "conv1": [105, {"load": {"busy": 60, "bus_data": 45}}]}
    other = {**case, "fc": [7, {"load": {"busy": 6, "wait_store": 1}}]}
    monkeypatch.setattr(gate, "recorded", lambda: {"tiny": {"net": case}})
    monkeypatch.delenv("PRESIL_UPDATE_BASELINE", raising=False)
    gate.check("tiny", {"net": case})
    for now, text in (
        (slower, "conv1: 100 -> 105 cycles (+5): load bus_data 40 -> 45 (+5)"),
        (other, "fc: 7 -> 7 cycles (+0): load busy 7 -> 6 (-1); load wait_store 0 -> 1 (+1)"),
        ({"conv1": case["conv1"]}, "fc: no longer launched"),
    ):
        with pytest.raises(AssertionError) as caught:
            gate.check("tiny", {"net": now})
        assert text in str(caught.value) and gate.ACCEPT in str(caught.value)


@pytest.mark.parametrize("chip", CHIPS)
def test_shuffled_order_gives_the_same_cycles(chip):
    assert measure(chip, "fast", "--order", "shuffled") == measure(chip)


@pytest.mark.parametrize("chip", CHIPS)
def test_other_addresses_give_the_same_cycles(chip):
    assert measure(chip, "fast", "--shift", "777") == measure(chip)


@pytest.mark.parametrize("chip", CHIPS)
def test_check_build_gives_the_same_cycles(chip):
    assert measure(chip, "check") == measure(chip)


def test_slow_host_gives_the_same_cycles():
    assert measure("tiny", "fast", "--slow", "3000") == measure("tiny")


def test_back_pressure_is_a_function_of_the_seed():
    first = measure("tiny", "fast", "--memory-model", "stall=0.3", "--seed", "5")
    assert first == measure("tiny", "fast", "--memory-model", "stall=0.3", "--seed", "5", "--order", "shuffled")
    assert first != measure("tiny", "fast", "--memory-model", "stall=0.3", "--seed", "6")
    assert all(cycles_of(first)[name] >= cycles for name, cycles in cycles_of(measure("tiny")).items())
