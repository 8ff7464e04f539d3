# SPDX-License-Identifier: Apache-2.0
"""./presil vp: starts the platform, runs a model over it, shows both sides, and leaves nothing behind."""

import json
import os
import signal
import subprocess
import sys
import threading

import pytest
from torch_presil import vp

MODEL = """
import torch
def make():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Conv2d(8, 5, 3, 2))
"""


def presil(*arguments: str, folder):
    environment = {k: v for k, v in os.environ.items() if k not in ("PRESIL_TRANSPORT", "PRESIL_CHIP", "PRESIL_MODE")}
    return subprocess.run(
        [sys.executable, "-m", "torch_presil.cli", *arguments],
        capture_output=True,
        text=True,
        timeout=200,
        cwd=folder,
        env={**environment, "TMPDIR": str(folder)},
    )


def model(folder) -> str:
    (folder / "model.py").write_text(MODEL)
    return f"{folder}/model.py:make"


def test_a_model_on_the_platform(tmp_path):
    name = model(tmp_path)
    done = presil("vp", "--chip", "tiny", "--model", name, "--input", "1,3,14,14", "--json", "vp.json", folder=tmp_path)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    here = presil("cosim", name, "--chip", "tiny", "--input", "1,3,14,14", "--json", "here.json", folder=tmp_path)
    assert here.returncode == 0, here.stdout[-2000:]
    vp, plain = (json.loads((tmp_path / f).read_text()) for f in ("vp.json", "here.json"))
    assert vp["total"]["bit_exact"] and [r["cycles"] for r in vp["layers"]] == [r["cycles"] for r in plain["layers"]]
    assert len(vp["layers"]) == 2 and "presil-vp: process" in done.stdout and "connects" in done.stdout
    assert not list(tmp_path.glob("presil-vp-*"))


def test_what_is_wrong_is_named(tmp_path):
    done = presil("vp", "gone.ini", folder=tmp_path)
    assert done.returncode == 2 and "gone.ini is no file" in done.stdout
    (tmp_path / "bad.ini").write_text("[chip]\nspeed = 3\n")
    done = presil("vp", "bad.ini", folder=tmp_path)
    assert done.returncode == 4 and "bad.ini:2" in done.stdout.replace("\n", "")


def test_ctrl_c_before_the_platform_listens(tmp_path, monkeypatch):
    """Its session is its own: nobody else would end it."""
    (tmp_path / "deaf").write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 60\n")
    (tmp_path / "deaf").chmod(0o755)
    monkeypatch.setattr(vp, "program", lambda: tmp_path / "deaf")
    platform = vp.Platform(None, "tiny")
    threading.Timer(0.5, signal.raise_signal, [signal.SIGINT]).start()
    with pytest.raises(KeyboardInterrupt), platform:
        pytest.fail("it listens")
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)
    assert not os.path.exists(platform.folder.name)
