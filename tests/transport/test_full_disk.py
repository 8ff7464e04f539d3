# SPDX-License-Identifier: Apache-2.0
"""A waveform on a disk that is full, in a server with a small file system of its own: an error with a text, the
server lives, and after a reset the next run works."""

import os
import socket
import struct
import subprocess
import time

import pytest

from .servers import BUILD
from .test_document import block, memory, message, receive
from .test_example import BASE, BEATS, CONTROL, DST, SRC, STATUS, ask

NAMESPACE = [
    "unshare",
    *([] if os.geteuid() == 0 else ["--map-root-user"]),
    "--mount",
]  # in a chroot nobody gets a user namespace


@pytest.mark.parametrize("build", ["trace", "systemc_trace"])
@pytest.mark.parametrize("size", ["16k", "64k", "64m"])
def test_tracing_to_a_full_disk(size, build, tmp_path):
    if subprocess.run([*NAMESPACE, "mount", "-t", "tmpfs", "tmpfs", tmp_path], capture_output=True).returncode:
        pytest.skip("this system does not let a process mount a file system of its own")
    disk, path = tmp_path / "disk", tmp_path / "socket"
    disk.mkdir()
    serve = (
        f"mount -t tmpfs -o size={size} tmpfs {disk} && exec {BUILD}/bin/presil-serve {path} --library "
        f"{BUILD}/lib/libpresil_sim_stub_{build}.so"
    )
    process = subprocess.Popen([*NAMESPACE, "sh", "-c", serve])
    fd, number = memory(), iter(range(1, 1 << 20))
    try:
        while not path.exists():
            assert process.poll() is None
            time.sleep(0.01)
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(20)
            s.connect(str(path))
            socket.send_fds(s, [bytes(block("hello"))], [fd])
            assert receive(s)[0] == 64

            def copy():
                for offset, value in [
                    (SRC, 0),
                    (SRC + 4, BASE >> 32),
                    (DST, 65536),
                    (DST + 4, BASE >> 32),
                    (BEATS, 2000),
                    (CONTROL, 1),
                ]:
                    s.sendall(message(4, next(number), struct.pack("<II", offset, value)))
                status, _, body = ask(s, 10, next(number), struct.pack("<QQQ", 0, 0, 100000))
                s.sendall(message(4, next(number), struct.pack("<II", STATUS, 2)))
                return status, body

            file = f"{disk}/x.fst".encode()
            assert ask(s, 13, next(number), struct.pack("<QQI", 0, 2**64 - 1, len(file)) + file)[0] == 0
            answers = [copy() for _ in range(20)]
            status, _, body = ask(s, 13, next(number), struct.pack("<QQI", 0, 0, 0xFFFFFFFF))
            if size == "64m":
                assert status == 0 and all(a[0] == 0 for a in answers)
            else:
                texts = [b for st, b in [*answers, (status, body)] if st == -6]
                assert texts and b"can't be written: is the disk full?" in texts[0]
            assert ask(s, 12, next(number))[0] == 0
            os.pwrite(fd, b"after", 0)
            assert copy()[0] == 0 and os.pread(fd, 5, 65536) == b"after"
        assert process.poll() is None
        process.terminate()
        assert process.wait(timeout=100) == 0
    finally:
        process.kill()
        process.wait()
        os.close(fd)
