# SPDX-License-Identifier: Apache-2.0
"""presil-vp, the chip in a SystemC platform, as a child of this process: started, listened to, and ended
(docs/systemc.md)."""

import os
import signal
import subprocess
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from torch_presil.regress.process import uninterrupted

START_SECONDS = 60
NO_DEFAULT = "no chip, or more than one, has a default configuration: name one with --chip, or PRESIL_CHIP"


def program() -> Path:
    """presil-vp of the build, or of the installed package. Raises FileNotFoundError with what to do."""
    build = os.environ.get("PRESIL_BUILD_DIR")
    places = [Path(build) / "bin" / "presil-vp"] if build else []
    places.append(Path(__file__).parent / "bin" / "presil-vp")
    for place in places:
        if place.exists():
            return place
    raise FileNotFoundError(
        f"presil-vp is not in {', '.join(map(str, places))}: start this by ./presil vp, which builds it (CMake: "
        f"PRESIL_SYSTEMC_CONFIGS)"
    )


class Platform:
    """A context: the platform runs inside. config: a file of presil-vp, or None: the plain platform around `chip`, a
    configuration.
    say: is given each line that it prints.

    `transport` is what the driver is given. Raises FileNotFoundError (no program, no file, no chip) and RuntimeError
    (it ended, with what it said)."""

    def __init__(self, config: str | None, chip: str, say: Callable[[str], None] = lambda line: None):
        if config is None and not chip:
            raise FileNotFoundError(NO_DEFAULT)
        self.program, self.say = program(), say
        self.said = deque(maxlen=20)
        self.folder = tempfile.TemporaryDirectory(prefix="presil-vp-")
        self.socket = Path(self.folder.name) / "socket"
        if config is None:
            self.config = Path(self.folder.name) / "vp.ini"
            self.config.write_text(f"[chip]\nconfig = {chip}\n")
        else:
            self.config = Path(config)
            if not self.config.is_file():
                raise FileNotFoundError(f"{config} is no file: a configuration of presil-vp expected (docs/systemc.md)")
        self.transport = f"socket:{self.socket}"

    def _listen(self) -> None:
        for line in self.process.stderr:
            self.said.append(line.rstrip())
            self.say(line.rstrip())

    def __enter__(self):
        self.process = self.listener = None
        try:
            with uninterrupted():
                self._start()
            listens = self._listens()
        except BaseException:
            self.__exit__()
            raise
        if not listens:
            self.__exit__()  # for all that it says
            raise RuntimeError(
                f"presil-vp {self.config} did not start: "
                + ("\n".join(self.said) or f"it said nothing for {START_SECONDS} s")
            )
        return self

    def _start(self) -> None:
        # A Ctrl-C is the client's business: it ends the run, then the platform.
        self.process = subprocess.Popen(
            [str(self.program), str(self.config), "--socket", str(self.socket)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.listener = threading.Thread(target=self._listen, daemon=True)
        self.listener.start()

    def _listens(self) -> bool:
        """Waits until it does, has ended, or START_SECONDS are over."""
        end = time.monotonic() + START_SECONDS
        while not self.socket.exists():
            if self.process.poll() is not None or time.monotonic() > end:
                return False
            time.sleep(0.02)
        return True

    def __exit__(self, *exc):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        if self.listener:
            self.listener.join(5)
        self.folder.cleanup()
