# SPDX-License-Identifier: Apache-2.0
"""torch.presil.capture, capture_failures and cosim --capture: what is in the bundle, and that presil-replay gives the
same bits in the same cycles, without PyTorch."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch_presil.bundle import Bundle

P = torch.presil
BUILD = Path(os.environ["PRESIL_BUILD_DIR"])

SCRIPT = """
import sys, torch, torch_presil
from collections import OrderedDict
from torch import nn
torch.manual_seed(7)
net = nn.Sequential(OrderedDict(conv=nn.Conv2d(3, 8, 3), act=nn.ReLU(), body=nn.Sequential(nn.Conv2d(8, 8, 3)),
                                flat=nn.Flatten(), head=nn.Linear(8 * 6 * 6, 5))).to("presil")
x, m = torch.randn(2, 3, 10, 10).to("presil"), torch.randn(20, 20).to("presil")
with torch.no_grad(), torch.presil.capture(sys.argv[1]) as kept:
    y = net(x)
    with torch.autocast("presil", torch.bfloat16):
        y = net(x)
    z = torch.addmm(m, m, m)  # LINE
    m.addmm_(m, m)
    m.addmm_(m, m)
    torch.bmm(m.view(4, 5, 20), m.view(4, 20, 5))
print(kept.kept)
"""


def run(command, **environment):
    variables = {**os.environ, "PRESIL_MEMORY": str(1 << 28), **environment}
    return subprocess.run(
        [str(c) for c in command], capture_output=True, text=True, timeout=280, env=variables, check=False
    )


def replay(path, *options):
    return run([BUILD / "bin" / "presil-replay", path, *options], PRESIL_LIBRARY_PATH=str(BUILD / "lib"))


def labels_of_launch(launch) -> dict:
    return {pair.key: pair.value for pair in launch.labels}


@pytest.mark.parametrize("chip, mode", [("tiny", "verify"), ("odd", "rtl"), ("base", "rtl")])
def test_a_network_is_replayed(chip, mode, tmp_path):
    path, result = tmp_path / "net.presil", tmp_path / "result.json"
    done = run([sys.executable, "-c", SCRIPT, path], PRESIL_CHIP=chip, PRESIL_MODE=mode)
    assert done.returncode == 0, done.stderr
    with Bundle(path) as bundle:
        launches = list(bundle.launches())
        assert len(launches) == int(done.stdout) >= 10
        labels = [labels_of_launch(launch) for launch in launches]
        assert {"conv", "body.0", "head"} <= {found.get("module") for found in labels}
        line = SCRIPT.splitlines().index(next(text for text in SCRIPT.splitlines() if "# LINE" in text)) + 1
        assert any(f'"<string>", line {line}, in <module>' in found.get("file", "") for found in labels)
        assert bundle.chips()[0].config == chip and len(bundle.chips()[0].rtl_hash) == 64
        assert all(launch.tensors[0].name == "output" for launch in launches)
        assert bundle.labels()["command"]
        cycles = [bundle.results_of(launch)[0].cycles for launch in launches]
    again = replay(path, "--json", result)
    assert again.returncode == 0, again.stdout + again.stderr
    found = json.loads(result.read_text())
    assert [launch["cycles"] for launch in found["launches"]] == cycles and min(cycles) > 0
    assert all(launch["bits_equal"] for launch in found["launches"])
    assert found["rtl"] == found["recorded_rtl"] != ""
    assert replay(path, "--mode", "model").returncode == 0


def test_a_bundle_that_is_another_chips_is_refused(tmp_path):
    path = tmp_path / "net.presil"
    assert run([sys.executable, "-c", SCRIPT, path], PRESIL_CHIP="tiny", PRESIL_MODE="model").returncode == 0
    wrong = replay(path, "--library", BUILD / "lib" / "libpresil_sim_odd_fast.so")
    assert wrong.returncode == 2 and "configuration tiny, hash" in wrong.stderr and "this one is" in wrong.stderr
    assert replay(path).returncode == 0, "bits of the model on the RTL"


FAILURE = """
import torch, torch_presil
from torch_presil import _C
x = torch.eye(16, device="presil")
print((x @ x).sum().item())
_C.inject(0, "fatal@1")
try:
    (x @ x).cpu()
except RuntimeError as error:
    print(error)
"""


def test_a_failure_leaves_its_bundle_and_names_it(tmp_path):
    folder = tmp_path / "failed"
    done = run(
        [sys.executable, "-c", FAILURE], PRESIL_CHIP="tiny", PRESIL_MODE="rtl", PRESIL_CAPTURE_FAILURES=str(folder)
    )
    assert done.returncode == 0, done.stderr
    (path,) = folder.iterdir()
    assert f"kept in {path}" in done.stdout and "[ESTOPPED]" in done.stdout, done.stdout
    with Bundle(path) as bundle:
        (launch,) = bundle.launches()
        assert "line 8" in labels_of_launch(launch)["file"]
    again = replay(path)
    assert again.returncode == 0 and "when it was captured: ESTOPPED" in again.stdout, again.stdout + again.stderr


def widths_of(path) -> list:
    with Bundle(path) as bundle:
        assert not bundle.summary.torn
        return [launch.tensors[0].shape[-1] for launch in bundle.launches()]


@pytest.mark.parametrize(
    "choice, want",
    [
        ({}, [1, 2, 3, 4, 5]),
        ({"launches": slice(1, 3)}, [2, 3]),
        ({"launches": slice(3, None)}, [4, 5]),
        ({"last": 2}, [4, 5]),
        ({"labels": "^mm$"}, [1, 2, 3, 4, 5]),
        ({"labels": "conv"}, []),
    ],
)
def test_launches_are_chosen(choice, want, tmp_path):
    a = torch.randn(4, 4, device="presil")
    with P.capture(tmp_path / "some.presil", **choice) as kept:
        for n in range(1, 6):
            a @ torch.randn(4, n, device="presil")
    assert widths_of(tmp_path / "some.presil") == want
    assert kept.kept == (5 if "last" in choice else len(want))


def test_wrong_choices_are_refused(tmp_path):
    with pytest.raises(TypeError, match="slice"):
        P.capture(tmp_path / "x.presil", launches=[1, 2])
    with pytest.raises(ValueError, match="at least one launch"):
        P.capture(tmp_path / "x.presil", launches=slice(3, 3))
    with pytest.raises(ValueError, match="regular expression"), P.capture(tmp_path / "x.presil", labels="("):
        pass
    with pytest.raises((OSError, RuntimeError), match="no/such"), P.capture(tmp_path / "no" / "such" / "x.presil"):
        pass
    with P.capture(tmp_path / "x.presil"), pytest.raises(RuntimeError, match="already"):
        P.capture(tmp_path / "y.presil").__enter__()
    with pytest.raises(ZeroDivisionError), P.capture(tmp_path / "x.presil"):
        1 / 0
    assert widths_of(tmp_path / "x.presil") == []


def test_failures_rest_while_a_file_is_written(tmp_path):
    before = P.capture_failures(tmp_path / "failed")
    try:
        a = torch.randn(4, 4, device="presil")
        with P.capture(tmp_path / "x.presil"):
            a @ a
        a @ a
        assert widths_of(tmp_path / "x.presil") == [4]
        assert P.capture_failures(None) == str(tmp_path / "failed")
        assert not list((tmp_path / "failed").iterdir())
    finally:
        P.capture_failures(before or None)


MODEL = """
from torch import nn
def make():
    return nn.Sequential(nn.Conv2d(8, 6, 3), nn.ReLU(), nn.Conv2d(6, 4, 1))
"""


@pytest.mark.parametrize("dtype", ["int8", "bf16"])
def test_cosim_keeps_a_layer(dtype, tmp_path):
    (tmp_path / "small.py").write_text(MODEL)
    path = tmp_path / "two.presil"
    command = [sys.executable, "-m", "torch_presil.cli", "cosim", f"{tmp_path}/small.py:make", "--input", "1,8,6,6"]
    done = run([*command, "--chip", "tiny", "--dtype", dtype, "--mode", "verify", "--capture", f"2={path}"])
    assert done.returncode == 0, done.stdout + done.stderr
    with Bundle(path) as bundle:
        (launch,) = bundle.launches()
        assert labels_of_launch(launch)["module"] == "2" and launch.expected.bytes
    again = replay(path)
    assert again.returncode == 0 and "1 of 1 launches as recorded" in again.stdout, again.stdout + again.stderr
