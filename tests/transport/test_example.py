# SPDX-License-Identifier: Apache-2.0
"""tests/serve_example/: a server of somebody's own, built with find_package(Presil COMPONENTS serve) alone, answers a
client that is written from the protocol's page."""

import os
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from .test_document import block, memory, message, receive

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "libtorch"))
from cmake_project import built  # noqa: E402

SRC, DST, BEATS, CONTROL, STATUS = 0x08, 0x10, 0x18, 0x1C, 0x20
BASE = 0x100000000


@pytest.fixture(scope="module")
def board(tmp_path_factory):
    return built(Path(__file__).resolve().parents[1] / "serve_example", tmp_path_factory.mktemp("board")) / "board"


def ask(connection, kind, sequence, payload=b""):
    connection.sendall(message(kind, sequence, payload))
    answered, number, body = receive(connection)
    while answered == 65:
        answered, number, body = receive(connection)
    assert (answered, number) == (64, sequence)
    return struct.unpack("<i", body[:4])[0], struct.unpack("<Q", body[8:16])[0], body[16:]


def test_a_board_in_two_hundred_lines(board, tmp_path):
    path, fd = tmp_path / "socket", memory()
    process = subprocess.Popen([board, path], stderr=subprocess.PIPE, text=True)
    try:
        while not path.exists():
            assert process.poll() is None
            time.sleep(0.01)
        for _ in range(2):  # one client after the other
            with socket.socket(socket.AF_UNIX) as s:
                s.settimeout(10)
                s.connect(str(path))
                socket.send_fds(s, [bytes(block("hello"))], [fd])
                kind, _, welcome = receive(s)
                assert kind == 64 and b"registers in C" in welcome
                os.pwrite(fd, bytes(range(64)), 4096)
                os.pwrite(fd, bytes(64), 8192)
                writes = [
                    (SRC, (BASE + 4096) & 0xFFFFFFFF),
                    (SRC + 4, BASE >> 32),
                    (DST, (BASE + 8192) & 0xFFFFFFFF),
                    (DST + 4, BASE >> 32),
                    (BEATS, 4),
                    (CONTROL, 1),
                ]
                for number, (offset, value) in enumerate(writes):
                    s.sendall(message(4, 1 + number, struct.pack("<II", offset, value)))
                status, cycles, body = ask(s, 10, 7, struct.pack("<QQQ", 0, 0, 100000))
                assert (status, *struct.unpack("<IIQ", body)) == (0, 0, 0, 50) and cycles == 12 + 50
                assert ask(s, 3, 8, struct.pack("<II", 1, STATUS))[2] == struct.pack("<I", 2)
                assert os.pread(fd, 64, 8192) == bytes(range(64))
                assert ask(s, 5, 9, struct.pack("<QQ", 0, 16))[0] == -5  # outside
                assert ask(s, 13, 10, struct.pack("<QQI", 0, 0, 0xFFFFFFFF))[0] == -4  # no tracing
                s.sendall(message(4, 11, struct.pack("<II", STATUS, 2)))
                assert struct.unpack("<IIQ", ask(s, 10, 12, struct.pack("<QQQ", 500, 0, 0))[2]) == (1, 0, 500)
        process.terminate()
        assert process.wait(timeout=100) == 0 and not path.exists()
        assert process.stderr.read().count("connects") == 2
    finally:
        process.kill()
        process.wait()
        os.close(fd)
