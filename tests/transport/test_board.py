# SPDX-License-Identifier: Apache-2.0
"""PyTorch on a software board (tests/board/soft_board.c), which has the RTL: the bits are those of the RTL in this
process, wherever the board's memory is; a link that goes is an error, and a reset mends it."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

BUILD = Path(os.environ["PRESIL_BUILD_DIR"])

ON_HOST = """
import hashlib, json, sys, torch, torch_presil
from torch import nn
torch.manual_seed(0)
class Block(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.a, self.b = nn.Conv2d(n, n, 3, padding=1), nn.Conv2d(n, n, 3, padding=1)
    def forward(self, x):
        return torch.relu(x + self.b(torch.relu(self.a(x))))
net = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), Block(16), Block(16),
                    nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10)).eval().bfloat16()
host, x = net, torch.randn(1, 3, 16, 16).bfloat16()
"""
NETWORK = (
    ON_HOST
    + """
net, x = net.to("presil"), x.to("presil")
def bits():
    with torch.no_grad():
        return hashlib.sha256(net(x).cpu().view(torch.int16).numpy().tobytes()).hexdigest()
"""
)
ONCE = """
with torch.presil.reports() as reports:
    first, second = bits(), bits()
    rows = reports.take()
properties = torch.presil.get_device_properties(0)
print(json.dumps({"bits": [first, second], "launches": [r["label"] for r in rows],
                  "cycles": [r["cycles"] for r in rows], "transport": properties.transport}))
"""
LOST = """
first = bits()
print("LOSE", flush=True)
sys.stdin.readline()
try:
    bits()
    raise AssertionError("no error")
except RuntimeError as error:
    assert "link lost" in str(error) and "memory is not what it was" in str(error), error
torch.presil.reset_device()
torch.manual_seed(0)
net, x = net.cpu(), torch.randn(1, 3, 16, 16).bfloat16()  # shapes alone: the board's memory is lost
net, x = net.to("presil"), x.to("presil")
for p in net.parameters():
    p.data.normal_()
x.normal_()
host = {k: v.cpu() for k, v in net.state_dict().items()}
def again():
    with torch.no_grad():
        return net(x).cpu()
assert torch.equal(again(), again())
print("WORKS", flush=True)
"""
# Goes on over losses of the link, of the session's beginning too, until there are no more; says what each cut off.
WALK = """
import copy
def attempt():
    with torch.presil.reports() as reports:
        try:
            model, X = copy.deepcopy(host).to("presil"), x.to("presil")
            with torch.no_grad():
                out = model(X).cpu()
            return "", len(reports.take()), hashlib.sha256(out.view(torch.int16).numpy().tobytes()).hexdigest()
        except RuntimeError as error:
            return str(error), len(reports.take()), ""
def reset():
    try:
        torch.presil.reset_device()
        return []
    except RuntimeError as error:
        return [[str(error), 0, ""], *reset()]
walk = []
while not walk or walk[-1][0]:
    walk.append(attempt())
    if walk[-1][0]:
        walk += reset()
print(json.dumps({"walk": walk}))
"""


class Board:
    def __init__(self, folder: Path, config: str, *arguments: str):
        self.folder = folder
        self.command = [str(BUILD / "bin" / "soft-board"), str(folder), "--library"]
        self.command += [str(BUILD / "lib" / f"libpresil_sim_{config}_fast.so"), *arguments]
        self.transport = f"board:{folder}/board"

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, text=True)
        self.until("ready")
        return self

    def until(self, word: str) -> None:
        for line in self.process.stdout:
            if line.startswith(word):
                return
        raise AssertionError(f"{' '.join(self.command)}: no {word}")

    def told(self) -> dict:
        self.process.terminate()
        return json.loads(self.process.communicate(timeout=100)[0].splitlines()[-1])

    def __exit__(self, *exc):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def run(code: str, network: str = NETWORK, seconds: int = 200, **environment) -> dict:
    done = subprocess.run(
        [sys.executable, "-c", network + code],
        capture_output=True,
        text=True,
        timeout=seconds,
        env={**os.environ, "PRESIL_MODE": "rtl", **environment},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def here():
    return run(ONCE, PRESIL_CHIP="tiny", PRESIL_TRANSPORT="inproc")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--base", "0x80000000", "--late-us", "5000"],
        ["--base", "0", "--interrupt", "none", "--hole", "0x1000000,0x1000000"],
        ["--memory", "mailbox", "--seed", "7"],
    ],
    ids=["mapped", "polled-two-regions", "mailbox"],
)
def test_a_network_has_the_same_bits(arguments, here, tmp_path):
    with Board(tmp_path / "not-there", "tiny", *arguments) as board:
        there = run(ONCE, PRESIL_TRANSPORT=board.transport)
        told = board.told()
    assert there["transport"] == board.transport
    assert there["launches"] == here["launches"] and len(here["launches"]) >= 10
    assert there["bits"] == here["bits"]
    assert all(there["cycles"])  # the chip's own counters
    assert (told["memory_writes"] > 0) == ("mailbox" in arguments)
    assert (told["interrupts"] > 0) == ("none" not in arguments)


def test_a_lost_link_is_an_error_and_a_reset_mends_it(tmp_path):
    with Board(tmp_path, "tiny") as board:
        client = subprocess.Popen(
            [sys.executable, "-c", NETWORK + LOST],
            env={**os.environ, "PRESIL_MODE": "rtl", "PRESIL_TRANSPORT": board.transport},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert client.stdout.readline() == "LOSE\n", client.communicate()[1][-3000:]
        board.process.send_signal(signal.SIGUSR1)
        board.until("link lost")
        out, error = client.communicate("\n", timeout=100)
        assert client.returncode == 0 and "WORKS" in out, error[-3000:]
        assert board.told()["losses"] == 1


def walked(network: str, board: Board, losses: int, seconds: int = 200) -> dict:
    """Of WALK on a board that loses its link so often: what it printed, when every loss was told as one."""
    out = run(WALK, network, seconds, PRESIL_TRANSPORT=board.transport)
    told = board.told()
    cut = [(error, launches) for error, launches, _ in out["walk"] if error]
    assert told["losses"] == losses and 1 <= len(cut) <= losses
    for error, _ in cut:
        assert "link lost" in error, error
    print(f"launches before each loss: {[launches for _, launches in cut]}")
    return out


# About half of what a run asks of the board: a loss comes anywhere in it.
LOSSES = [["--lose", "15,5"], ["--lose", "30,5", "--memory", "mailbox", "--iommu", "1"]]


@pytest.mark.parametrize("arguments", LOSSES, ids=["mapped", "mailbox"])
def test_a_link_that_goes_at_any_time(arguments, here, tmp_path):
    """In uploads, launches, waits and resets: each time an error, then the right bits. Where, the seed determines, not
    the host's timing."""
    walks = []
    for late in ("0", "30000"):
        with Board(tmp_path, "tiny", "--seed", "5", "--late-us", late, *arguments) as board:
            walks.append(walked(ON_HOST, board, 5)["walk"])
    assert walks[0][-1][2] == here["bits"][0]
    assert walks[1] == walks[0]
