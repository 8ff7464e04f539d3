# SPDX-License-Identifier: Apache-2.0
"""PyTorch on a chip in another process: ResNet-18 gives the same bits in exactly the same cycles, launch by launch; a
peer that is killed, frozen or started again; two clients; Ctrl-C."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from .servers import SERVERS, Server

RESNET = """
import hashlib, json, torch, torch_presil
from torchvision.models import resnet18
torch.manual_seed(0)
model, x = resnet18().eval().bfloat16(), torch.randn(1, 3, 224, 224).bfloat16()
model, x = model.to("presil"), x.to("presil")
with torch.no_grad(), torch.presil.reports() as reports:
    out = model(x).cpu()
    rows = reports.take()
keep = ("label", "cycles", "stalls", "read_bytes", "write_bytes", "read_beats", "write_beats", "descriptors", "fill",
        "drain", "macs")
bits = hashlib.sha256(out.view(torch.int16).numpy().tobytes()).hexdigest()
print(json.dumps({"bits": bits, "launches": [{k: r[k] for k in keep if k in r} for r in rows],
                  "transport": torch.presil.get_device_properties(0).transport}))
"""

PRELUDE = (
    f"import sys; sys.path.append({str(Path(__file__).parents[1] / 'bench')!r})"
    + """
import os, signal, time, torch, torch_presil
from in_launch import when_in_launch
signal.signal(signal.SIGINT, signal.default_int_handler)  # as a terminal gives it, also in a background job
torch.manual_seed(0)
# Of -1, 0 and 1: no sum is above 180, so every one is exact, in bfloat16 too.
x = torch.randint(-1, 2, (1, 20, 12, 12)).bfloat16().contiguous(memory_format=torch.channels_last)
w = torch.randint(-1, 2, (24, 20, 3, 3)).bfloat16()
expected = torch.nn.functional.conv2d(x.float(), w.float(), padding=1)
X, W = x.to("presil"), w.to("presil")
def layer():
    y = torch.nn.functional.conv2d(X, W, padding=1)
    torch.presil.synchronize()
    return y
def works():
    assert torch.equal(layer().cpu().float(), expected), "other bits"
    assert torch.equal(X.cpu(), x), "memory changed"
    print("WORKS", flush=True)
def fails(*texts, call=layer):
    start = time.monotonic()
    try:
        call()
    except RuntimeError as error:
        for text in texts:
            assert text in str(error), f"{text!r} expected: {error}"
        print(f"FAILED after {time.monotonic() - start:.2f} s", flush=True)
        return
    raise AssertionError("no error")
def ask(what):
    print(what, flush=True)
    assert sys.stdin.readline(), "the test has gone"
works()
"""
)


@pytest.fixture
def server(tmp_path):
    with Server("socket", "tiny", tmp_path) as s:
        yield s


class Client:
    """A Python process with PRELUDE; what it prints is read line by line."""

    def __init__(self, code: str, transport: str):
        environment = {**os.environ, "PRESIL_MODE": "rtl", "PRESIL_TRANSPORT": transport, "PRESIL_MEMORY": "1G"}
        environment.pop("PRESIL_CHIP", None)
        self.process = subprocess.Popen(
            [sys.executable, "-c", PRELUDE + code],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def until(self, word: str) -> str:
        for line in self.process.stdout:
            if line.startswith(word):
                return line
        raise AssertionError(f"{word} expected: {self.process.stderr.read()[-3000:]}")

    def go_on(self) -> None:
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def ends_well(self) -> None:
        out, error = self.process.communicate(timeout=120)
        assert self.process.returncode == 0, out[-1000:] + error[-3000:]


def resnet(**environment) -> dict:
    done = subprocess.run(
        [sys.executable, "-c", RESNET],
        capture_output=True,
        text=True,
        timeout=400,
        env={**os.environ, "PRESIL_MODE": "rtl", **environment},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def resnet_here():
    return resnet(PRESIL_CHIP="base", PRESIL_TRANSPORT="inproc")


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n == "socket" else [pytest.mark.nightly]) for n in SERVERS]
)
def test_resnet18_has_the_same_bits_and_cycles(name, resnet_here, tmp_path):
    with Server(name, "base", tmp_path) as server:
        there = resnet(PRESIL_TRANSPORT=server.transport)
    assert there["transport"] == server.transport and resnet_here["transport"] == "inproc"
    assert len(there["launches"]) >= 21 and all(r["cycles"] for r in there["launches"])
    for ours, theirs in zip(resnet_here["launches"], there["launches"], strict=True):
        assert ours == theirs
    assert there["bits"] == resnet_here["bits"]
    print(f"{name}: {len(there['launches'])} launches, {sum(r['cycles'] for r in there['launches'])} cycles")


@pytest.mark.parametrize("options", ["", ",copy"])
def test_a_killed_server_is_an_error_and_another_one_works(server, options):
    client = Client(
        """
ask("KILL")
fails("has closed the connection", "socket:")
fails("unusable until")
fails("nobody answers there", call=torch.presil.reset_device)
ask("START")
torch.presil.reset_device()
works()
""",
        server.transport + options,
    )
    client.until("KILL")
    server.kill()
    client.go_on()
    client.until("START")
    server.start()
    client.go_on()
    client.until("WORKS")
    client.ends_well()


def test_a_server_killed_in_a_launch_is_an_error(server):
    client = Client(
        """
torch_presil._C.inject(0, "slow=10000000")
when_in_launch(lambda: print("KILL", flush=True))
fails("has closed the connection")
ask("START")
torch.presil.reset_device()
works()
""",
        server.transport,
    )
    client.until("KILL")
    server.kill()
    client.until("FAILED")
    client.until("START")
    server.start()
    client.go_on()
    client.until("WORKS")
    client.ends_well()


def test_a_frozen_server_is_given_up_at_its_deadline(server):
    client = Client(
        """
ask("FREEZE")
fails("said nothing for 1 s", "start it again")
ask("RESTART")
torch.presil.reset_device()
works()
""",
        server.transport + ",timeout=1",
    )
    client.until("FREEZE")
    server.process.send_signal(signal.SIGSTOP)
    client.go_on()
    seconds = float(client.until("FAILED").split()[2])
    assert 0.9 < seconds < 4, seconds
    client.until("RESTART")
    server.kill()
    server.start()
    client.go_on()
    client.until("WORKS")
    client.ends_well()


def test_a_second_client_is_refused_by_name(server):
    first = Client('ask("FIRST"); works()', server.transport)
    first.until("FIRST")
    second = subprocess.run(
        [sys.executable, "-c", PRELUDE],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PRESIL_MODE": "rtl", "PRESIL_TRANSPORT": server.transport},
    )
    assert second.returncode != 0 and f"process {first.process.pid} is connected" in second.stderr, second.stderr[
        -2000:
    ]
    first.go_on()
    first.ends_well()


def test_ctrl_c_ends_a_launch(server):
    client = Client(
        """
torch_presil._C.inject(0, "slow=10000000")
when_in_launch(lambda: print("INTERRUPT", flush=True))
try:
    try:
        layer()
        raise AssertionError("no error")
    except RuntimeError as error:
        print("ENDED", repr(error)[:200], flush=True)
    time.sleep(5)
except KeyboardInterrupt:  # Python's own, in one place or the other
    print("ENDED", flush=True)
torch_presil._C.inject(0, "")
works()
""",
        server.transport,
    )
    client.until("INTERRUPT")
    start = time.monotonic()
    client.process.send_signal(signal.SIGINT)
    client.until("ENDED")
    assert time.monotonic() - start < 20  # the launch itself would go on for minutes
    client.until("WORKS")
    client.ends_well()


def test_a_server_with_another_configuration_is_named(server):
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PRESIL_MODE": "rtl", "PRESIL_CHIP": "base", "PRESIL_TRANSPORT": server.transport},
    )
    assert done.returncode != 0 and 'has configuration "tiny"' in done.stderr, done.stderr[-2000:]
