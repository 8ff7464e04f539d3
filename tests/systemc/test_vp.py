# SPDX-License-Identifier: Apache-2.0
"""presil-vp: the platform in a process of its own, through the socket; ResNet-18 with the plain harness's bits and
cycles; two clocks; a second master."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from libraries import BUILD, library

HERE = Path(__file__).parent


class Platform:
    """presil-vp with a configuration; `transport` is what the driver is given."""

    def __init__(self, folder: Path, text: str, *arguments: str):
        self.folder, self.socket, self.config = folder, folder / "vp.sock", folder / "vp.ini"
        self.config.write_text(text)
        self.command = [str(BUILD / "bin" / "presil-vp"), str(self.config), "--socket", str(self.socket), *arguments]
        self.transport = f"socket:{self.socket}"

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        end = time.monotonic() + 100
        while not self.socket.exists():
            assert self.process.poll() is None, self.process.stderr.read()
            assert time.monotonic() < end, "no socket within 100 s"
            time.sleep(0.01)
        return self

    def __exit__(self, *exc):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.said = self.process.communicate(timeout=100)[1]
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise

    def run(self, *command: str, chip: str, timeout: int = 250):
        return run(*command, chip=chip, transport=self.transport, timeout=timeout)


def run(*command: str, chip: str, transport: str = "inproc", timeout: int = 250):
    environment = {
        **os.environ,
        "PRESIL_CHIP": chip,
        "PRESIL_TRANSPORT": transport,
        "PRESIL_LIBRARY_PATH": str(library(chip, "fast").parent),
    }
    done = subprocess.run([sys.executable, *command], env=environment, capture_output=True, text=True, timeout=timeout)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


# Causes of the matrix engine that the bus is behind.
BUS = ("wait_load", "wait_store", "wait_epilogue", "weights", "command", "drain")
MEASURE, RESNET = str(HERE.parent / "cycles" / "measure.py"), str(HERE / "resnet.py")
TINY, BASE = (f"[chip]\nconfig = {name}\n" for name in ("tiny", "base"))


def cycles(measured: dict) -> dict:
    return {name: m["cycles"] for name, m in measured.items()}


@pytest.fixture(scope="module")
def plain():
    return run(MEASURE, chip="tiny")


def test_equal_clocks_give_equal_cycles(tmp_path, plain):
    with Platform(tmp_path, TINY + "[bus]\nclock_mhz = 1000\n") as vp:
        assert vp.run(MEASURE, chip="tiny") == plain
        assert vp.run(MEASURE, chip="tiny") == plain, "for the second client"
    assert vp.process.returncode == 0, vp.said
    assert not vp.socket.exists()


def test_a_slower_bus_costs_cycles_and_a_faster_one_saves_them(tmp_path, plain):
    seen = {}
    for mhz in (700, 2000):
        folder = tmp_path / str(mhz)
        folder.mkdir()
        with Platform(folder, TINY + f"[bus]\nclock_mhz = {mhz}\n") as vp:
            seen[mhz] = cycles(vp.run(MEASURE, chip="tiny"))
            assert cycles(vp.run(MEASURE, "--order", "shuffled", chip="tiny")) == seen[mhz], (
                "launches depend on what went before"
            )
    for name, at_1000 in cycles(plain).items():
        assert seen[700][name] > at_1000 > seen[2000][name], name


def test_traffic_costs_cycles_in_proportion_and_repeats(tmp_path, plain):
    seen, last = [cycles(plain)], {}
    for load in (25, 75):
        folder = tmp_path / str(load)
        folder.mkdir()
        with Platform(folder, TINY + f"[traffic]\nload = {load}\nburst = 8\n") as vp:
            last = vp.run(MEASURE, chip="tiny")
            seen.append(cycles(last))
            assert cycles(vp.run(MEASURE, "--order", "shuffled", chip="tiny")) == seen[-1], (
                "launches depend on what went before"
            )
    long = [name for name, c in seen[0].items() if c > 2000]  # where single bursts of the second master don't decide
    assert len(long) >= 5
    for name in long:
        assert seen[0][name] < seen[1][name] < seen[2][name], name
    gained = sum(seen[2].values()) - sum(seen[0].values())
    explained = sum(
        after["matrix"][c] - before["matrix"][c]
        for n in plain
        for before, after in zip(plain[n]["stalls"], last[n]["stalls"], strict=True)
        for c in BUS
    )
    print(f"gained {gained}, explained by the counters {explained}")
    assert abs(gained - explained) <= 0.02 * gained


def test_resnet18(tmp_path):
    """base, 224 x 224, bf16: every launch of the network."""
    plain = run(RESNET, chip="base")
    with Platform(tmp_path, BASE) as vp:
        assert vp.run(RESNET, chip="base") == plain
    assert len(plain["launches"]) >= 20


@pytest.mark.parametrize(
    "text,expected",
    [
        ("[chip]\nclok = 3\n", "vp.ini:2: no such key: chip.clok"),
        ("[traffic]\nload = 101\n", 'vp.ini:2: traffic.load can\'t be "101"'),
        ("nonsense\n", "vp.ini:1: expected [section] or key = value"),
        ("[traffic]\nload = 1\n", "which chip? Name its configuration, or its library's file"),
        ("[chip]\nconfig = gone\n", "libpresil_sim_gone_systemc.so is not in"),
    ],
)
def test_wrong_configurations_are_named(tmp_path, text, expected):
    vp = Platform(tmp_path, text)
    done = subprocess.run(vp.command, capture_output=True, text=True, timeout=100)
    assert done.returncode == 1 and expected in done.stderr


def test_a_library_says_its_configuration(tmp_path):
    """The file names none: what is in the library is known there."""
    with Platform(tmp_path, f"[chip]\nlibrary = {library('tiny', 'systemc')}\n") as vp:
        command = [str(BUILD / "bin" / "presil-info"), "--rtl", "--transport", vp.transport]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "chip           presil, configuration tiny " in done.stdout and "presil-vp: tiny systemc, " in vp.said


def test_platform_signals_as_vcd(tmp_path):
    with Platform(tmp_path, TINY + f"[trace]\nplatform = {tmp_path}/signals.vcd\n[traffic]\nload = 20\n") as platform:
        done = subprocess.run(
            [str(BUILD / "bin" / "matmul"), "8", "8", "8"],
            env={**os.environ, "PRESIL_TRANSPORT": platform.transport},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
    text = (tmp_path / "signals.vcd").read_text()
    names = dict(re.findall(r"\$var \w+ +\d+ +(\S+) +(\w+)", text))
    code = {name: key for key, name in names.items()}
    assert {"chip_irq", "host_irq", "traffic_beats"} <= set(code)
    assert text.count(f"\n1{code['chip_irq']}\n") >= 1 and text.count(f"\n0{code['chip_irq']}\n") >= 1
