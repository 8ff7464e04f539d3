# SPDX-License-Identifier: Apache-2.0
"""cosim --trace: the waveform of one layer on the real chip (tiny), read back with GTKWave's own FST reader."""

import json
import os
import subprocess
import sys

import pylibfst
import pytest

MODEL = """
from torch import nn
def make():
    return nn.Sequential(nn.Conv2d(8, 6, 3), nn.ReLU(), nn.Conv2d(6, 4, 1))
"""


@pytest.fixture(scope="module")
def traced(tmp_path_factory):
    """(JSON, path of the waveform) of layer 2 of a small model, as the command makes them."""
    folder = tmp_path_factory.mktemp("trace")
    (folder / "small.py").write_text(MODEL)
    command = [sys.executable, "-m", "torch_presil.cli", "cosim", f"{folder}/small.py:make", "--input", "1,8,6,6"]
    more = ["--chip", "tiny", "--trace", "2", "--trace-file", f"{folder}/w/two.fst", "--json", f"{folder}/r.json"]
    environment = {**os.environ, "PRESIL_MEMORY": str(1 << 28)}
    done = subprocess.run([*command, *more], capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"Waveform: {folder}/w/two.fst" in " ".join(done.stdout.split()).replace(" /", "/").replace(":/", ": /")
    return json.loads((folder / "r.json").read_text()), folder / "w" / "two.fst"


class Waves:
    """Value changes of some signals by their name within the chip's top module: name -> [(time, value)]."""

    def __init__(self, path, names):
        fst = pylibfst.lib.fstReaderOpen(str(path).encode())
        assert fst != pylibfst.ffi.NULL, f"{path} is not an FST file"
        _, signals = pylibfst.get_scopes_signals2(fst)
        self.all = set(signals.by_name)
        full = {n: next(s for s in sorted(self.all, key=len) if s.split(" ")[0].endswith(f".{n}")) for n in names}
        handles = {signals.by_name[f].handle: n for n, f in full.items()}
        self.changes = {n: [] for n in names}
        pylibfst.lib.fstReaderClrFacProcessMaskAll(fst)
        for handle in handles:
            pylibfst.lib.fstReaderSetFacProcessMask(fst, handle)

        def note(_, time, handle, value):
            text = pylibfst.helpers.string(value)
            self.changes[handles[handle]].append((time, int(text.replace("x", "0"), 2)))

        pylibfst.fstReaderIterBlocks(fst, note)
        pylibfst.lib.fstReaderClose(fst)

    def rises(self, name) -> list:
        """Times at which a signal of one bit went from 0 to 1."""
        values = self.changes[name]
        return [t for (_, a), (t, b) in zip(values, values[1:], strict=False) if (a, b) == (0, 1)]


def test_the_waveform_holds_the_launch(traced):
    result, path = traced
    row = result["layers"][0]
    waves = Waves(path, ["clk", "irq", "m_axi_arvalid", "m_axi_wlast", "s_axil_awvalid"])
    clock, (done,) = waves.rises("clk"), waves.rises("irq")
    assert row["name"] == "2" and row["cycles"] == result["total"]["cycles"] > 100
    # The doorbell, then as many cycles as the counters say, then the interrupt.
    before = sum(t < done for t in clock)
    assert row["cycles"] <= before <= row["cycles"] + 200, (before, row["cycles"])
    assert waves.rises("m_axi_arvalid") and waves.rises("m_axi_wlast") and waves.rises("s_axil_awvalid")
    assert all(t <= done for t in waves.rises("m_axi_arvalid")), "the bus moves after the interrupt"


def test_the_waveform_has_every_engine(traced):
    names = Waves(traced[1], ["clk"]).all
    for module in ("load", "store", "matrix", "epilogue", "command"):
        assert any(f".u_{module}" in n for n in names), f"no signal of {module}: {sorted(names)[:20]}"


def test_mode_model_has_no_waveform():
    command = [sys.executable, "-m", "torch_presil.cli", "cosim", "torchvision.models:resnet18", "--trace", "conv1"]
    done = subprocess.run([*command, "--mode", "model"], capture_output=True, text=True, timeout=100, env=os.environ)
    assert done.returncode == 2 and "mode 'model' has none" in " ".join(done.stdout.split()), done.stdout
