# SPDX-License-Identifier: Apache-2.0
"""Processes under everything else that launches: graphs, torch.compile, several devices, chips behind servers."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import torch
from same import measured, run_with

P = torch.presil
BUILD = Path(os.environ.get("PRESIL_BUILD_DIR", "build/check"))


def model():
    torch.manual_seed(1)
    layers = [torch.nn.Conv2d(8, 12, 3), torch.nn.ReLU(), torch.nn.Conv2d(12, 6, 1)]
    return torch.nn.Sequential(*layers).eval().to("presil"), torch.randn(1, 8, 9, 9).to("presil")


def test_replays_of_a_graph(monkeypatch):
    net, x = model()
    with torch.inference_mode():
        net(x)
        with P.graph(g := P.PresilGraph()):
            y = net(x)

    def once():
        out = []
        for n in range(3):
            x.fill_(n / 4)
            g.replay()
            out.append(y.clone())
        return out

    (a, one), (b, two) = (run_with(jobs, None, once, monkeypatch) for jobs in (1, 2))
    assert all(torch.equal(p, q) for p, q in zip(a, b, strict=True)) and not torch.equal(a[0], a[1])
    assert measured(one) == measured(two) and len(one) >= 3 and all(r["verified"] == 1 for r in two)


def test_a_compiled_model(monkeypatch):
    net, x = model()
    compiled = torch.compile(net, backend="presil")
    with torch.inference_mode():
        compiled(x)
        (a, one), (b, two) = (run_with(jobs, None, lambda: [compiled(x)], monkeypatch) for jobs in (1, 2))
    assert torch.equal(a[0], b[0]) and measured(one) == measured(two) and all(r["verified"] == 1 for r in two)


SEVERAL = """
import json, torch, torch_presil
from torch_presil import _C
B, P = torch.backends.presil, torch.presil
torch.manual_seed(2)
a = torch.randn(20, 40)
with P.reports() as collected:
    for d in range(P.device_count()):
        x = a.to(f"presil:{d}")
        for _ in range(3):
            x = (x @ x.T) @ x / 40
        x.cpu()
    for d in range(P.device_count()):
        P.synchronize(d)
    rows = collected.take()
print(json.dumps([[r["device"], r["cycles"], r["verified"]] for r in rows]))
print(json.dumps([_C.jobs_stats(d)["jobs"] for d in range(P.device_count())]))
"""


def run(script, **more):
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=200, env={**os.environ, **more}
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_two_devices_have_processes_of_their_own():
    one, _ = run(SEVERAL, PRESIL_DEVICES="2", PRESIL_MODE="verify", PRESIL_JOBS="1")
    two, jobs = run(SEVERAL, PRESIL_DEVICES="2", PRESIL_MODE="verify", PRESIL_JOBS="2")
    assert jobs == [2, 2] and sorted(one) == sorted(two) and len(two) == 12 and all(v == 1 for _, _, v in two)


def test_processes_run_chips_that_are_served(tmp_path):
    library = BUILD / "lib" / "libpresil_sim_tiny_fast.so"
    sockets = [tmp_path / name for name in "ab"]
    command = [BUILD / "bin" / "presil-serve", "--library", library, "--quiet"]
    servers = [subprocess.Popen([*command[:1], path, *command[1:]]) for path in sockets]
    try:
        until = time.monotonic() + 60
        while not all(path.exists() for path in sockets):
            assert time.monotonic() < until and all(s.poll() is None for s in servers)
            time.sleep(0.05)
        here, _ = run(SEVERAL, PRESIL_MODE="verify", PRESIL_JOBS="1")
        transport = ";".join(f"socket:{path}" for path in sockets)
        there, jobs = run(SEVERAL, PRESIL_MODE="rtl", PRESIL_JOBS="2", PRESIL_TRANSPORT=transport)
        again, _ = run(SEVERAL, PRESIL_MODE="rtl", PRESIL_JOBS="2", PRESIL_TRANSPORT=transport)
    finally:
        for server in servers:
            server.terminate()
            server.wait(timeout=100)
    assert here == there == again and jobs == [2] and len(here) == 6
