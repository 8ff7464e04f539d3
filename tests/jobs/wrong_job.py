#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Stands between the driver and presil-job (PRESIL_JOB_PROGRAM), and inverts the first byte that one launch should
write: this process's third one, or the one that TEST_WRONG_LAUNCH says (from 1). Which process gets which launch is
chance: a test with several of them asks for one that each is sure to get."""

import mmap
import os
import socket
import struct
import time

from between import start

WRONG = int(os.environ.get("TEST_WRONG_LAUNCH", 3))
WRITES = 8 * 8  # block.h: offset of `writes`: ranges, count, bytes, size
driver = socket.socket(fileno=3)
mine, job = start()
driver.sendall(mine.recv(4096))
launches = 0
while True:
    order, fds, _, _ = socket.recv_fds(driver, 4096, 1)
    if not order:
        break
    with mmap.mmap(fds[0], struct.unpack("Q", order[:8])[0]) as block:
        launches += 1
        at = struct.unpack_from("4Q", block, WRITES)[2]
        if launches == WRONG:
            block[at] ^= 0xFF
            time.sleep(1)  # who has the same commands is behind it by now, and waits for it
    socket.send_fds(mine, [order], fds)
    os.close(fds[0])
    driver.sendall(mine.recv(4096))
job.kill()
