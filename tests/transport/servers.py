# SPDX-License-Identifier: Apache-2.0
"""Chips in other processes: starts a program that serves a socket, and ends it."""

import os
import signal
import subprocess
import time
from pathlib import Path

BUILD = Path(os.environ["PRESIL_BUILD_DIR"])
START_SECONDS = 100

# What serves a chip of a configuration: the command. {socket}, {config}, {lib} and {tests} are filled in.
SERVERS = {
    "socket": "presil-serve {socket} --library {lib}/libpresil_sim_{config}_fast.so",
    "socket-copy": "presil-serve {socket} --copy --library {lib}/libpresil_sim_{config}_fast.so",
    "systemc": "presil-vp {tests}/systemc/vp_{config}.ini --socket {socket}",
    "dpi": "presil-dpi-{config} +presil_socket={socket}",
}
# Those without a clock: the same bits, no cycles.
MODELS = {
    "systemc-twin": "presil-vp {tests}/systemc/vp_{config}_twin.ini --socket {socket}",
}


class Server:
    """A context; `transport` is what the driver is given. kill() and start() are for those who watch a server die and
    come back."""

    def __init__(self, name: str, config: str, folder: Path):
        self.name = name
        self.path, self.log = folder / f"{name}.sock", folder / f"{name}.log"
        program, *arguments = (
            (SERVERS | MODELS)[name]
            .format(socket=self.path, config=config, lib=BUILD / "lib", tests=Path(__file__).parent.parent)
            .split()
        )
        self.command = [str(BUILD / "bin" / program), *arguments]
        self.transport = f"socket:{self.path}"

    def __enter__(self):
        self.start()
        return self

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def start(self) -> None:
        self.path.unlink(missing_ok=True)
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                self.command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL
            )
        end = time.monotonic() + START_SECONDS
        while not self.path.exists():
            assert self.process.poll() is None, f"{' '.join(self.command)} ended: {self.log.read_text()}"
            assert time.monotonic() < end, f"{' '.join(self.command)}: no socket within {START_SECONDS} s"
            time.sleep(0.01)

    def __exit__(self, *exc):
        self.process.send_signal(signal.SIGCONT)
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
