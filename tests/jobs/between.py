# SPDX-License-Identifier: Apache-2.0
"""What a program that stands between the driver and presil-job (PRESIL_JOB_PROGRAM) begins with."""

import os
import socket
import subprocess
import sys


def start() -> tuple[socket.socket, subprocess.Popen]:
    """(socket to presil-job, which says hello there first; its process)."""
    mine, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    program = os.path.join(os.environ["PRESIL_BUILD_DIR"], "bin", "presil-job")
    job = subprocess.Popen([program, *sys.argv[1:]], preexec_fn=lambda: os.dup2(its.fileno(), 3), close_fds=False)
    its.close()
    return mine, job
