# SPDX-License-Identifier: Apache-2.0
"""The pictures of README.md and docs/waves.md, each from what a command prints or writes today.

.venv/bin/python docs/pictures.py [NAME ...]     writes docs/pictures/NAME.svg, or .png: report, perf, int8
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "docs" / "pictures"
COLUMNS = 120
CLI = str(ROOT / "torch_ext" / "torch_presil" / "cli.py")
LICENCE = "<!-- SPDX-License-Identifier: Apache-2.0 -->\n"
SESSIONS = {
    "regress": ["regress smoke -j 2"],
    "cosim": ["cosim torchvision.models:resnet18 --dtype int8 --layers 'layer1.*' --mode verify"],
    "against": [
        "cosim torchvision.models:resnet18 --layers layer2.0.conv1 --capture layer2.0.conv1=layer.presil --no-check",
        "waves layer.presil --against other --top-n 4",
    ],
}
DIFFERENT = {"waves"}  # commands whose status 1 is an answer
REPORT_WIDTH, REPORT_HEIGHT = 1280, 900
FAULT = "three blocks ahead"  # of tests/mutants, in the folder `other`: weights are overwritten while they are in use


def plant(folder: Path) -> None:
    """A copy of rtl/ with the fault."""
    faults = tomllib.loads((ROOT / "tests" / "mutants" / "faults.toml").read_text())["fault"]
    (fault,) = (f for f in faults if f["name"] == FAULT)
    shutil.copytree(ROOT / "rtl", folder / "rtl", ignore=shutil.ignore_patterns("__pycache__"))
    file = folder / "rtl" / fault["file"]
    file.write_text(file.read_text().replace(fault["old"], fault["new"]))


def output_of(command: str, folder: Path) -> str:
    """With colours, without what a terminal overwrites. As the start script runs it."""
    alone = command.split()[0] in ("regress", "waves")
    program = [sys.executable, CLI] if alone else [sys.executable, "-m", "torch_presil.cli"]
    words = [word.strip("'") for word in command.split()]
    environment = {**os.environ, "TTY_COMPATIBLE": "1", "TTY_INTERACTIVE": "0", "COLUMNS": str(COLUMNS)}
    environment["PRESIL_REGRESS_RUNS"] = str(folder / "regress")
    environment.setdefault("PRESIL_BUILD_DIR", str(ROOT / "build" / "check"))
    done = subprocess.run([*program, *words], env=environment, cwd=folder, capture_output=True, text=True)
    if done.returncode > (command.split()[0] in DIFFERENT):
        raise SystemExit(f"./presil {command} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    # What is in tables has the width of its column.
    return done.stdout.replace(f"{folder}/regress", "build/regress").replace(f"{folder}/", "")


def terminal(name: str, folder: Path) -> None:
    if name == "against":
        plant(folder / "other")
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


def perf(folder: Path) -> None:
    """Timeline, stalls and roofline of ResNet-50."""
    output_of(f"perf torchvision.models:resnet50 --png {PICTURES / 'perf.png'}", folder)


def int8(folder: Path) -> None:
    """Noise of ResNet-18's layers, and the trade of accuracy against cycles."""
    model = "torchvision.models:resnet18 --dtype int8 --observer percentile"
    output_of(f"cosim {model} --mixed 0:8 --no-check --plot {PICTURES / 'int8.png'}", folder)


def main() -> None:
    others = {"report": report, "perf": perf, "int8": int8}
    wanted = sys.argv[1:] or [*SESSIONS, *others]
    PICTURES.mkdir(exist_ok=True)
    (ROOT / "build").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ROOT / "build") as scratch:
        for name in wanted:
            if name in others:
                if name == "report" and "regress" not in wanted:
                    terminal("regress", Path(scratch))
                others[name](Path(scratch))
            elif name in SESSIONS:
                terminal(name, Path(scratch))
            else:
                raise SystemExit(f"{name}: one of {', '.join([*SESSIONS, *others])} expected")
            print(PICTURES / f"{name}.{'png' if name in others else 'svg'}")


if __name__ == "__main__":
    main()
