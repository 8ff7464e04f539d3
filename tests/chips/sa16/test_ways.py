# SPDX-License-Identifier: Apache-2.0
"""A launch of sa16 is a file: captured from PyTorch once, replayed in C in every mode and over every transport with the
same bits and the same cycles, and as a waveform with its own names."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
BUILD = Path(os.environ.setdefault("PRESIL_BUILD_DIR", str(ROOT / "build" / "check")))
sys.path.insert(0, str(ROOT / "tests"))
from transport.servers import SERVERS, Server  # noqa: E402

CAPTURE = """
import sys, torch, torch_presil
sys.path.insert(0, sys.argv[1])
from networks import network
from torch_presil.fuse import fuse
from torch_presil.quantize import quantize
model, x = network("resnet8")
model = quantize(fuse(model, x), [x]).to("presil")
with torch.inference_mode(), torch.presil.capture(sys.argv[2]):
    model(x.to("presil")).cpu()
"""
LAUNCHES = 11


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    """ResNet-8 as captured in mode verify, in process."""
    path = tmp_path_factory.mktemp("captured") / "resnet8.presil"
    environment = {**os.environ, "PRESIL_CHIP": "sa16", "PRESIL_MODE": "verify", "PRESIL_BUILD": "fast"}
    command = [sys.executable, "-c", CAPTURE, str(HERE), str(path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    return path


def replay(bundle: Path, folder: Path, *arguments, status: int = 0) -> dict:
    told = folder / "told.json"
    command = [str(BUILD / "bin" / "presil-replay"), str(bundle), "--json", str(told), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert done.returncode == status, done.stdout + done.stderr
    return json.loads(told.read_text())


def expect_as_recorded(told: dict) -> None:
    assert len(told["launches"]) == LAUNCHES
    for row in told["launches"]:
        assert row["outcome"] == "pass" and row["cycles"] == row["recorded_cycles"] > 0, row


@pytest.mark.parametrize("mode", ["rtl", "verify"])
def test_replayed_without_python(mode, bundle, tmp_path):
    expect_as_recorded(replay(bundle, tmp_path, "--mode", mode))


def test_replayed_on_its_twin(bundle, tmp_path):
    """Its bits; it has no clock."""
    told = replay(bundle, tmp_path, "--mode", "model")
    assert [row["outcome"] for row in told["launches"]] == ["pass"] * LAUNCHES
    assert not any(row["cycles"] for row in told["launches"])


WAYS = {
    "serve": "presil-serve {socket} --library {lib}/libpresil_sim_{config}_fast.so",
    "vp": "presil-vp {folder}/vp.ini --socket {socket}",
    "dpi": "presil-dpi-{config} +presil_socket={socket}",
}


@pytest.mark.parametrize("way", WAYS)
def test_replayed_in_another_process(way, bundle, tmp_path, monkeypatch):
    """Behind a socket, in a SystemC platform, in another simulator of SystemVerilog."""
    (tmp_path / "vp.ini").write_text("[chip]\nconfig = sa16\nbuild = systemc\nclock_mhz = 500\n")
    monkeypatch.setitem(SERVERS, way, WAYS[way].replace("{folder}", str(tmp_path)))
    with Server(way, "sa16", tmp_path) as server:
        told = replay(bundle, tmp_path, "--transport", server.transport)
    expect_as_recorded(told)


def test_a_waveform_has_its_hierarchy_and_names(bundle, tmp_path):
    picture = tmp_path / "first.html"
    command = [sys.executable, str(ROOT / "torch_ext" / "torch_presil" / "cli.py"), "waves", str(bundle)]
    command += ["--launch", "0", "--view", str(HERE / "team" / "sa16.view.toml"), "--window", "0:400"]
    done = subprocess.run([*command, "--html", str(picture)], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    drawn = picture.read_text()
    assert all(name in drawn for name in ("sa16", "products", "store", "dram_araddr")), drawn[:2000]
    assert bundle.with_name("resnet8-0.fst").stat().st_size > 10_000
