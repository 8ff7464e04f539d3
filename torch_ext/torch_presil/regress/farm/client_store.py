# SPDX-License-Identifier: Apache-2.0
"""The client's timing store (docs/hybrid.md): a copy goes to the farm, what workers measure comes back into it."""

import os
import subprocess
import tempfile
from pathlib import Path

from ..exit_codes import MISMATCH, UsageError
from ..kinds import find_program
from ..outcome import Ended, told_by


def path() -> Path:
    """As libpresil_store finds it."""
    cache = os.environ.get("XDG_CACHE_HOME", "")
    home = Path(cache) if cache.startswith("/") else Path(os.environ.get("HOME") or "/tmp", ".cache")
    return Path(os.environ.get("PRESIL_STORE") or home / "presil" / "timings.sqlite")


class ClientStore:
    """tell(text): what costs time alone."""

    def __init__(self, tell):
        self.tell, self.told = tell, False
        self.program = find_program("presil-store")
        if self.program is None:
            raise UsageError("--farm: mode hybrid needs presil-store, which is not built (PRESIL_WITH_STORE)")
        self.folder = tempfile.TemporaryDirectory(prefix="presil-farm-store-")
        self.begin = self._copy()

    def _ask(self, *words) -> subprocess.CompletedProcess:
        return subprocess.run([self.program, *map(str, words)], capture_output=True, text=True, check=False)

    def _copy(self) -> Path | None:
        """As it is now; None where there is none."""
        if not path().exists():
            return None
        to = Path(self.folder.name, "begin.sqlite")
        done = self._ask("export", to)
        if done.returncode:
            raise UsageError(f"--farm: the timing store can't go to the farm: {_said(done)}")
        return to

    def take(self, ended: Ended, why: str, data: bytes) -> None:
        """What a worker measured in a case. A launch that has other numbers here empties the store, as in a sample."""
        wrong = f"the timing store of {ended.host}: {why}" if why else self._refused(ended, data) if data else ""
        if told_by(ended.folder).get("store_differs"):
            self._ask("clear")  # the sample on the worker has emptied its copy
        elif wrong and ended.returncode == 0:
            ended.lost = wrong
        elif wrong:
            self.tell(wrong)

    def _refused(self, ended: Ended, data: bytes) -> str:
        with tempfile.TemporaryDirectory(dir=self.folder.name) as place:
            new = Path(place, "new.sqlite")
            new.write_bytes(data)
            done = self._ask("--store", new, "verify")
            if done.returncode:
                return f"launches that {ended.host} measured can't be kept: {_said(done)}"
            self._merge(ended, new)
        return ""

    def _merge(self, ended: Ended, new: Path) -> None:
        done = self._ask("merge", new)
        if done.returncode == MISMATCH:
            emptied = self._ask("clear").returncode == 0
            ended.differs = f"measured on {ended.host}: {_said(done)}"
            ended.differs += "; the store was emptied: run again" if emptied else ""
        elif done.returncode and not self.told:
            self.told = True
            self.tell(f"what workers measure is not kept: {_said(done)}")

    def close(self) -> None:
        self.folder.cleanup()


def _said(done: subprocess.CompletedProcess) -> str:
    return (done.stderr or done.stdout).strip().removeprefix("presil-store: ") or f"it ends with {done.returncode}"
