# SPDX-License-Identifier: Apache-2.0
"""docs/transport-protocol.md is right: a client that is written from the page alone, with its bytes, talks to
presil-serve."""

import fcntl
import os
import re
import socket
import struct
from pathlib import Path

import pytest

from .servers import Server

PAGE = Path(__file__).resolve().parents[2] / "docs" / "transport-protocol.md"


def block(name: str) -> list:
    """The page's bytes: an int, or None for any; `.. N` are N zeros, `?? N` N of any."""
    out = []
    for line in re.search(rf"```{name}\n(.*?)```", PAGE.read_text(), re.S).group(1).splitlines():
        words = re.split(r"\s{3,}", line)[0].split()
        while words:
            word = words.pop(0)
            many = int(words.pop(0)) if words and (word == ".." or (word == "??" and words[0] != "??")) else 1
            out += [None if word == "??" else 0 if word == ".." else int(word, 16)] * many
    return out


def receive(connection: socket.socket) -> tuple:
    """(type, sequence, payload)"""

    def exactly(n):
        data = b""
        while len(data) < n:
            more = connection.recv(n - len(data))
            assert more, "the server has closed the connection"
            data += more
        return data

    magic, kind, flags, sequence, length = struct.unpack("<4sHHII", exactly(16))
    assert magic == b"PRSL" and flags == 0
    return kind, sequence, exactly(length)


def message(kind: int, sequence: int, payload: bytes = b"") -> bytes:
    return struct.pack("<4sHHII", b"PRSL", kind, 0, sequence, len(payload)) + payload


@pytest.fixture
def connection(tmp_path):
    with Server("socket", "tiny", tmp_path) as server, socket.socket(socket.AF_UNIX) as s:
        s.settimeout(10)
        s.connect(str(server.path))
        yield s


def memory() -> int:
    fd = os.memfd_create("document", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, 1 << 30)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
    return fd


def test_the_hello_byte_for_byte(connection):
    hello, expected = bytes(block("hello")), block("welcome")
    fd = memory()
    socket.send_fds(connection, [hello], [fd])
    kind, sequence, payload = receive(connection)
    found = message(kind, sequence, payload)
    assert len(found) == len(expected) == 16 + 280
    wrong = [
        f"byte {i}: {e:#04x} on the page, {f:#04x} found"
        for i, (e, f) in enumerate(zip(expected, found, strict=True))
        if e not in (None, f)
    ]
    assert not wrong, "\n".join(wrong)
    # On from there: a register, a posted write that fails, memory in the descriptor, CLOSE.
    connection.sendall(message(3, 1, struct.pack("<II", 1, 0)))
    kind, sequence, payload = receive(connection)
    assert (kind, sequence, len(payload)) == (64, 1, 20) and struct.unpack("<i", payload[:4]) == (0,)
    connection.sendall(message(4, 2, struct.pack("<II", 3, 0)) + message(11, 3))
    kind, sequence, payload = receive(connection)
    assert (
        (kind, sequence) == (64, 3)
        and struct.unpack("<i", payload[:4]) == (-1,)
        and b"WRITE32: write32: offset 0x3" in payload
    )
    connection.sendall(
        message(6, 4, struct.pack("<Q", 0x100000000 + 8192) + b"hello")
        + message(5, 5, struct.pack("<QQ", 0x100000000 + 8192, 5))
    )
    kind, sequence, payload = receive(connection)
    assert (kind, sequence, payload[16:]) == (64, 5, b"hello") and os.pread(fd, 5, 8192) == b"hello"
    connection.sendall(message(2, 6))
    assert connection.recv(1) == b""
    os.close(fd)


@pytest.mark.parametrize("name", ["socket", "systemc", "dpi"])
def test_who_maps_the_memory_is_coherent(name, tmp_path):
    """The chip works on the client's own pages: no SYNC is needed (capability 16), and none is sent."""
    with Server(name, "tiny", tmp_path) as server, socket.socket(socket.AF_UNIX) as s:
        s.settimeout(60)
        s.connect(str(server.path))
        fd = memory()
        socket.send_fds(s, [bytes(block("hello"))], [fd])
        _, _, payload = receive(s)
        status, flags, capabilities = struct.unpack("<i20xII", payload[:32])
        assert (status, flags) == (0, 15) and capabilities & 8 and capabilities & 16, hex(capabilities)
        assert capabilities & 32, hex(capabilities)
        s.sendall(message(6, 1, struct.pack("<Q", 0x100000000 + 4096) + b"seen") + message(11, 2))
        receive(s)
        assert os.pread(fd, 4, 4096) == b"seen"
        os.close(fd)


def test_a_server_says_what_its_chip_was_made_of(connection):
    fd = memory()
    socket.send_fds(connection, [bytes(block("hello"))], [fd])
    os.close(fd)
    receive(connection)
    connection.sendall(message(21, 1))
    kind, sequence, payload = receive(connection)
    assert (kind, sequence) == (64, 1)
    assert struct.unpack("<I", payload[16:20]) == (64,) and int(payload[20:84], 16)
    assert struct.unpack("<I", payload[84:88]) == (40,) and int(payload[88:], 16)
    connection.sendall(message(20, 2, struct.pack("<Q", 0x100000000)))
    kind, sequence, payload = receive(connection)  # the log is off
    assert (kind, sequence) == (64, 2) and struct.unpack("<i", payload[:4]) == (-1,) and b"the log is off" in payload


def timing(connection: socket.socket, sequence: int) -> str | None:
    connection.sendall(message(22, sequence))
    kind, found, payload = receive(connection)
    assert (kind, found) == (64, sequence) and struct.unpack("<i", payload[:4]) == (0,)
    (length,) = struct.unpack("<I", payload[16:20])
    if length == 0xFFFFFFFF:
        assert len(payload) == 20
        return None
    assert len(payload) == 20 + length
    return payload[20:].decode()


def test_a_server_says_what_cycles_depend_on_now(connection):
    fd = memory()
    socket.send_fds(connection, [bytes(block("hello"))], [fd])
    os.close(fd)
    receive(connection)
    first = timing(connection, 1)
    assert " chip=presil/tiny " in first and first.endswith(" seed=0") and "rtl=" in first

    def ask(number: int, sequence: int, payload: bytes) -> str | None:
        connection.sendall(message(number, sequence, payload))
        assert struct.unpack("<i", receive(connection)[2][:4]) == (0,)
        return timing(connection, sequence + 1)

    other = ask(17, 2, struct.pack("<QI", 5, 0xFFFFFFFF))
    assert other == first.replace(" seed=0", " seed=5")
    assert ask(18, 4, struct.pack("<I", 6) + b"slow=1") is None, "a fault is injected"
    assert ask(18, 6, struct.pack("<I", 0xFFFFFFFF)) == other
    assert "ideal" not in other and ask(17, 8, struct.pack("<QI", 0, 5) + b"ideal") not in (first, other)


def test_another_version_is_refused(connection):
    hello = bytearray(block("hello"))
    hello[16] = 2
    connection.sendall(hello)
    kind, _, payload = receive(connection)
    assert (
        kind == 67 and struct.unpack("<I", payload[:4]) == (1,) and b"protocol version 1 expected, 2 found" in payload
    )
