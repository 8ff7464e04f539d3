#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Stands between the driver and presil-job (PRESIL_JOB_PROGRAM): has a chip after a while, can't be started again, and
takes no launch. A driver hears of that only when it sends one."""

import contextlib
import os
import select
import socket
import subprocess
import sys
import time

driver = socket.socket(fileno=3)
mine, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
time.sleep(1)  # launches gather
program = os.path.join(os.environ["PRESIL_BUILD_DIR"], "bin", "presil-job")
job = subprocess.Popen([program, *sys.argv[1:]], preexec_fn=lambda: os.dup2(its.fileno(), 3), close_fds=False)
with contextlib.suppress(FileNotFoundError):
    os.unlink(os.environ["PRESIL_JOB_PROGRAM"])
hello = mine.recv(4096)
driver.shutdown(socket.SHUT_RD)
driver.sendall(hello)
job.kill()
until_closed = select.poll()
until_closed.register(driver, 0)
until_closed.poll()
