# SPDX-License-Identifier: Apache-2.0
"""The pictures of README.md, each from what a command prints or writes today.

.venv/bin/python docs/pictures.py [NAME ...]     writes docs/pictures/NAME.svg and report.png
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "docs" / "pictures"
COLUMNS = 118
CLI = str(ROOT / "torch_ext" / "torch_presil" / "cli.py")
LICENCE = "<!-- SPDX-License-Identifier: Apache-2.0 -->\n"
# What a picture's terminal says, and how the start script runs it.
SESSIONS = {
    "regress": ["regress smoke -j 2"],
    "cosim": ["cosim torchvision.models:resnet18 --dtype int8 --layers 'layer1.*' --mode verify"],
}
REPORT_WIDTH, REPORT_HEIGHT = 1280, 900


def output_of(command: str, folder: Path) -> str:
    """With colours, without what a terminal overwrites."""
    program = [sys.executable, CLI] if command.startswith("regress") else [sys.executable, "-m", "torch_presil.cli"]
    words = [word.strip("'") for word in command.split()]
    environment = {**os.environ, "TTY_COMPATIBLE": "1", "TTY_INTERACTIVE": "0", "COLUMNS": str(COLUMNS)}
    environment["PRESIL_REGRESS_RUNS"] = str(folder / "regress")
    done = subprocess.run([*program, *words], env=environment, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"./presil {command} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout.replace(str(folder), "build")


def terminal(name: str, folder: Path) -> None:
    with open(os.devnull, "w") as nowhere:
        console = Console(record=True, width=COLUMNS, file=nowhere, force_terminal=True)
        for command in SESSIONS[name]:
            console.print(f"[bold green]$[/] [bold]./presil {command}[/]", highlight=False)
            console.print(Text.from_ansi(output_of(command, folder)))
        svg = console.export_svg(title="presil", unique_id=name)
    # Nothing from elsewhere: the viewer's own fixed-width letters.
    svg = re.sub(r"\s*@font-face \{.*?\}", "", svg, flags=re.S)
    (PICTURES / f"{name}.svg").write_text(LICENCE + svg)


def report(folder: Path) -> None:
    """Of the run that the picture `regress` shows."""
    (page,) = {p.resolve() for p in (folder / "regress").glob("*/report.html")}
    browser = next((p for n in ("chromium", "chromium-browser", "google-chrome") if (p := shutil.which(n))), None)
    if not browser:
        raise SystemExit("report.png needs chromium: apt-get install chromium")
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--force-device-scale-factor=1"]
    options += [f"--user-data-dir={folder / 'browser'}", f"--window-size={REPORT_WIDTH},{REPORT_HEIGHT}"]
    target = PICTURES / "report.png"
    command = [browser, *options, f"--screenshot={target}", page.as_uri()]
    subprocess.run(command, check=True, capture_output=True, timeout=120)


def main() -> None:
    wanted = sys.argv[1:] or [*SESSIONS, "report"]
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        for name in wanted:
            if name == "report":
                if "regress" not in wanted:
                    terminal("regress", Path(scratch))
                report(Path(scratch))
            elif name in SESSIONS:
                terminal(name, Path(scratch))
            else:
                raise SystemExit(f"{name}: one of {', '.join([*SESSIONS, 'report'])} expected")
            print(PICTURES / f"{name}.{'png' if name == 'report' else 'svg'}")


if __name__ == "__main__":
    main()
