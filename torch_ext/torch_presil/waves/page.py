# SPDX-License-Identifier: Apache-2.0
"""The page of pictures: what a view's [[pictures]] name, drawn from launches that are run for it.

python -m torch_presil.waves.page VIEW PAGE     writes PAGE and its pictures, in a folder beside it
"""

import os
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from . import draw
from .trace import Trace, WavesError
from .view import find, text_of

LICENCE = "<!-- SPDX-License-Identifier: Apache-2.0 -->\n"
NEEDED = ("name", "title", "launch", "groups", "read")


def run_launch(view: Path, name: str, launch: dict, folder: Path) -> Path:
    """The trace of a launch: cosim of one layer of a model, on a configuration of the chip."""
    path = folder / f"{name}.fst"
    if path.exists():
        return path
    command = [sys.executable, "-m", "torch_presil.cli", "cosim", str(view.parent / launch["model"])]
    command += ["--input", launch["input"], "--dtype", launch.get("dtype", "bf16"), "--chip", launch["chip"]]
    command += ["--trace", launch["layer"], "--trace-file", str(path), "--no-check"]
    environment = {**os.environ, "PRESIL_MEMORY": str(1 << 28), "PRESIL_MEMORY_MODEL": launch.get("memory", "default")}
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, env=environment)
    if done.returncode or not path.exists():
        raise WavesError(f"the launch {name} failed ({' '.join(command)}): {done.stdout[-800:]}{done.stderr[-800:]}")
    return path


def moment(trace, view, cycles, at: dict) -> int:
    """The first cycle of the first stretch of at least `least` cycles in which a signal has a value, `skip` later."""
    signal = trace.signal(view.full(at["signal"]))
    row = next((r for _, rows in view.rows(trace) for r in rows if r.name == signal.name), None)
    if row is None:
        raise WavesError(f"{view.path}: a picture looks at {at['signal']}, which is in no group")
    left = at.get("skip", 0)
    for begin, end, value in signal.between(cycles.zero, cycles.time(view.end(trace, cycles))):
        if text_of(row, value, view.enumerations) != str(at["value"]):
            continue
        if end - begin >= at.get("least", 1) * cycles.period:
            if not left:
                return cycles.at(begin)
            left -= 1
    raise WavesError(
        f"{view.path}: {at['signal']} is never {at['value']} for {at.get('least', 1)} cycles in {trace.path}"
    )


def draw_one(picture: dict, view, trace) -> str:
    cycles = view.cycles(trace)
    first, last = picture.get("window", (0, view.end(trace, cycles)))
    marks = {"doorbell": 0}
    if "at" in picture:
        here = moment(trace, view, cycles, picture["at"])
        first, last = here + first, here + last
        marks["here"] = here
    w = draw.window(cycles, first, last)
    return draw.svg(trace, view, w, marks, picture["title"], picture["groups"])


def write(view_path: Path, page: Path, traces: Path, address: Path | None = None) -> list:
    """Writes page and pictures; their paths. traces: a folder for the launches'. address: the page's own in the end."""
    folder = page.with_suffix("")
    folder.mkdir(parents=True, exist_ok=True)
    written, out = [page], []
    for picture in _pictures(view_path):
        launch = _tables(view_path)["launches"][picture["launch"]]
        trace = Trace(run_launch(view_path, picture["launch"], launch, traces))
        view = find(trace, view_path)
        out = out or [_head(view, view_path, address or page)]
        target = folder / f"{picture['name']}.svg"
        target.write_text(LICENCE + draw_one(picture, view, trace))
        written.append(target)
        out.append(f"\n## {picture['title']}\n{picture['read'].strip()}\n")
        out.append(f"\n![{picture['title']}]({folder.name}/{target.name})\n")
    page.write_text("".join(out))
    return written


def _tables(view_path: Path) -> dict:
    with open(view_path, "rb") as file:
        return tomllib.load(file).get("pictures", {})


def _pictures(view_path: Path) -> list:
    pictures = _tables(view_path).get("show", [])
    for picture in pictures:
        missing = [k for k in NEEDED if k not in picture]
        if missing:
            raise WavesError(f"{view_path}: a picture lacks {', '.join(missing)}")
    if not pictures:
        raise WavesError(f"{view_path} has no pictures ([[pictures.show]])")
    return pictures


def _head(view, view_path: Path, page: Path) -> str:
    source = os.path.relpath(view_path, page.parent)
    return (
        LICENCE + f"<!-- Made by: python -m torch_presil.waves.page {view_path.name} {page.name}; do not edit. -->\n"
        f"# {view.title}: what healthy waveforms look like\n\n{_tables(view_path)['intro'].strip()}\n\n"
        f"The pictures are described in [{source}]({source}); boxes tell\n"
        "value and cycles under the mouse when a picture is opened alone. How to make such pictures of your\n"
        "own launch: [waves.md](waves.md).\n"
    )


if __name__ == "__main__":
    try:
        with tempfile.TemporaryDirectory() as scratch:
            for path in write(Path(sys.argv[1]), Path(sys.argv[2]), Path(scratch)):
                print(path)
    except WavesError as error:
        sys.exit(f"presil waves: {error}")
