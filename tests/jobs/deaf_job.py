#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Stands between the driver and presil-job (PRESIL_JOB_PROGRAM): has a chip after a while, can't be started again, and
takes no launch. A driver hears of that only when it sends one."""

import contextlib
import os
import select
import socket
import time

from between import start

driver = socket.socket(fileno=3)
time.sleep(1)  # launches gather
mine, job = start()
with contextlib.suppress(FileNotFoundError):
    os.unlink(os.environ["PRESIL_JOB_PROGRAM"])
hello = mine.recv(4096)
driver.shutdown(socket.SHUT_RD)
driver.sendall(hello)
job.kill()
until_closed = select.poll()
until_closed.register(driver, 0)
until_closed.poll()
