# SPDX-License-Identifier: Apache-2.0
"""Runs a page: its commands, in order, in a folder of their own, and writes what they print and draw into it.

.venv/bin/python docs/run.py docs/tour.md [OUT]     OUT: another page than the one that is read

```python is run, all of a page in one session; the ```text behind it becomes what it prints. Lines of ```sh are run;
`./presil waves` and `build/…/bin/…` are those of the build in PRESIL_BUILD_DIR. Pictures go where links point to.
"""

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)
PICTURE = re.compile(r"!\[[^\]]*\]\(([^)]+)\)")
LICENCE = "<!-- SPDX-License-Identifier: Apache-2.0 -->\n"
SEEN = ("rtl", "torch_ext", "sim")  # of the tree, in the folder of the commands


def command(line: str) -> list:
    """As the start script runs it, when all is built."""
    words = shlex.split(line, comments=True)
    if words[:2] == ["./presil", "waves"]:
        return [sys.executable, str(ROOT / "torch_ext" / "torch_presil" / "waves"), *words[2:]]
    if found := re.fullmatch(r"build/\w+/(bin/.*)", words[0]):
        return [str(Path(os.environ["PRESIL_BUILD_DIR"]) / found[1]), *words[1:]]
    raise SystemExit(f"{line}: ./presil waves or build/fast/bin/… expected")


def session(page: Path) -> str:
    """The page with today's output; in the current folder."""
    names, printed, out, end = {"__name__": page.stem}, "", [], 0
    text = page.read_text()
    for block in BLOCK.finditer(text):
        kind, body = block.groups()
        out.append(text[end : block.start(2)])
        if kind == "python":
            with contextlib.redirect_stdout(io.StringIO()) as said:
                exec(compile(body, f"{page.stem}.py", "exec"), names)
            printed = said.getvalue()
        elif kind == "sh":
            for line in filter(None, body.splitlines()):
                done = subprocess.run(command(line), capture_output=True, text=True)
                if done.returncode:
                    raise SystemExit(f"{line}: status {done.returncode}\n{done.stdout}{done.stderr}")
        elif kind == "text":
            body, printed = printed, ""
        out.append(body)
        end = block.end(2)
    return "".join([*out, text[end:]])


def run(page: Path, target: Path) -> list:
    """Writes target and its pictures; their paths."""
    with tempfile.TemporaryDirectory() as scratch, contextlib.chdir(scratch):
        for name in SEEN:
            Path(name).symlink_to(ROOT / name)
        Path("docs", page.stem).mkdir(parents=True)
        text = session(page)
        written = [target]
        for name in PICTURE.findall(text):
            picture = target.parent / name
            picture.parent.mkdir(parents=True, exist_ok=True)
            drawn = Path("docs", name).read_text()
            picture.write_text(LICENCE + drawn)
            written.append(picture)
        target.write_text(text)
    return written


if __name__ == "__main__":
    page = Path(sys.argv[1]).resolve()
    for path in run(page, Path(sys.argv[2]).resolve() if len(sys.argv) > 2 else page):
        print(path)
