# SPDX-License-Identifier: Apache-2.0
"""tests/c/test_bursts.c and test_memory_model.c through the DPI module: a master of any bursts in a SystemVerilog
simulator, driven over a socket; and a wait of it, during which nobody but the wait itself looks at the socket."""

import os
import socket
import struct
import subprocess
from pathlib import Path

import pytest

from .servers import BUILD, Server
from .test_document import memory, message, receive
from .test_ports import Client

WAIT, CANCEL, DONE, PROGRESS, REFUSED = 10, 32, 64, 65, 67
CANCELLED = 2


@pytest.mark.parametrize("test", ["bursts", "memory_model"])
@pytest.mark.parametrize("chip", ["burst", "burst16"])
def test_over_dpi(chip, test, tmp_path):
    """With IDs of 32 bits on a bus of 512, of 16 bits on one of 128."""
    with Server("dpi", chip, tmp_path) as server:
        done = subprocess.run(
            [BUILD / "bin" / f"test_{test}", server.transport], capture_output=True, text=True, timeout=200
        )
    assert done.returncode == 0 and "PASSED" in done.stderr, done.stdout[-3000:] + done.stderr[-3000:]


def test_a_wait_over_dpi_is_interrupted(tmp_path):
    """It says how far it is, refuses others, and ends when the client says so or goes."""
    fd = memory()
    with Server("dpi", "burst", tmp_path) as server:
        client = Client(server.path, fd)
        client.post(9, struct.pack("<Q", 0))
        client.post(WAIT, struct.pack("<QQQ", 0, 0, 0))
        cycles = [struct.unpack("<Q", receive(client.socket)[2])[0] for _ in range(3)]
        assert len(list(Path(f"/proc/{server.process.pid}/task").iterdir())) == 1  # docs/dpi.md, "Limits"
        assert cycles[0] < cycles[1] < cycles[2]
        with socket.socket(socket.AF_UNIX) as other:
            other.settimeout(30)
            other.connect(str(server.path))
            kind, _, text = receive(other)
            assert kind == REFUSED and b"one client at a time" in text
        client.socket.sendall(message(CANCEL, client.sequence))
        kind = PROGRESS
        while kind == PROGRESS:
            kind, sequence, body = receive(client.socket)
        assert (kind, sequence) == (DONE, client.sequence)
        assert struct.unpack("<I", body[16:20])[0] == CANCELLED, body
        assert client.read32(0) == 0x42525354
        client.post(WAIT, struct.pack("<QQQ", 0, 0, 0))
        receive(client.socket)
        client.socket.close()
        assert Client(server.path, fd).read32(0) == 0x42525354
    os.close(fd)
