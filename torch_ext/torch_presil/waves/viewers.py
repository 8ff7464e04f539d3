# SPDX-License-Identifier: Apache-2.0
"""Save files for GTKWave (.gtkw) and Surfer (.sucl): groups, names of values, markers."""

import re
import shutil
import subprocess
from pathlib import Path

from .trace import Cycles, Trace, WavesError, needs
from .view import View

GTKWAVE_FORMATS = {"hex": "hex", "unsigned": "dec", "signed": "signed", "binary": "bin"}
SURFER_FORMATS = {"hex": "Hexadecimal", "unsigned": "Unsigned", "signed": "Signed", "binary": "Binary"}
GTKWAVE_MARKERS = 26


# An element of an array lies in a scope of the array's name, under its whole name; Surfer calls it by its index alone.
def _in_gtkwave(name: str, width: int) -> str:
    name = re.sub(r"(\w+)\[(\d+)\]$", r"\1.\1[\2]", name)
    return f"{name}[{width - 1}:0]" if width > 1 else name


def _in_surfer(name: str) -> str:
    return re.sub(r"(?<!\.)\[", ".[", name)


def gtkwave(trace: Trace, view: View, cycles: Cycles, marks: dict, path: Path, only=None) -> Path:
    """marks: {name: cycle}; the first also is the primary marker. Tables of names lie in a folder beside `path`."""
    gtkw = needs("vcd.gtkw")
    tables = path.with_suffix(".names").absolute()
    if len(marks) > GTKWAVE_MARKERS:
        raise WavesError(f"GTKWave has {GTKWAVE_MARKERS} markers, {len(marks)} are wanted")
    times = {name: cycles.time(cycle) for name, cycle in marks.items()}
    with open(path, "w") as file:
        save = gtkw.GTKWSave(file)
        save.comment(f"{view.title}: made by presil waves from {trace.path.name}")
        for letter, (name, cycle) in zip("abcdefghijklmnopqrstuvwxyz", marks.items(), strict=False):
            save.comment(f"marker {letter.upper()}: {name}, cycle {cycle}")
        save.dumpfile(str(trace.path.absolute()))
        letters = dict(zip("abcdefghijklmnopqrstuvwxyz", times.values(), strict=False))
        # 2^zoom ticks a pixel: about 8 pixels a cycle
        save.zoom_markers(-max((cycles.period // 8).bit_length(), 0), next(iter(times.values()), -1), **letters)
        save.treeopen(f"{view.root}.")
        for group, rows in view.rows(trace, only):
            with save.group(group):
                for row in rows:
                    table = None
                    if row.enumeration:
                        table = tables / f"{row.enumeration}.{row.width}.txt"
                        tables.mkdir(exist_ok=True)
                        names = view.enumerations[row.enumeration]
                        fitting = [(v, n) for v, n in names.items() if v < 1 << row.width]
                        table.write_text(gtkw.make_translation_filter(fitting, "hex", row.width) + "\n")
                    save.trace(
                        _in_gtkwave(row.name, row.width),
                        alias=row.label if row.label != row.name else None,
                        datafmt="hex" if table else "bin" if row.width == 1 else GTKWAVE_FORMATS[row.format],
                        translate_filter_file=str(table) if table else None,
                    )
    return path


def start(written: dict, trace: Path) -> str:
    """Opens a save file, as show() names them, in a viewer that goes on by itself; which one. Raises WavesError."""
    if shutil.which("gtkwave"):
        command, folder = ["gtkwave", str(Path(written["gtkwave"]).absolute())], None
    elif shutil.which("surfer"):
        commands = Path(written["surfer"]).absolute()
        command, folder = ["surfer", "-c", str(commands), str(trace.absolute())], commands.parent
    else:
        raise WavesError(
            "--open: neither gtkwave (Debian: apt-get install gtkwave) nor surfer is on PATH; --svg and --html draw "
            "without a viewer"
        )
    nowhere = subprocess.DEVNULL
    subprocess.Popen(command, cwd=folder, stdin=nowhere, stdout=nowhere, stderr=nowhere, start_new_session=True)
    return command[0]


def _word(text: str) -> str:
    return re.sub(r"\W+", "_", text)


def _surfer_index(row: int) -> str:
    """How item_focus calls a row: hexadecimal digits as a to p."""
    return "".join(chr(ord("a") + int(digit, 16)) for digit in f"{row:x}")


def surfer(trace: Trace, view: View, cycles: Cycles, marks: dict, path: Path, only=None) -> Path:
    """A command file: surfer -c PATH TRACE, started in the folder of `path`, where .surfer/mappings has the names."""
    mappings = path.absolute().parent / ".surfer" / "mappings"
    add, formats, index = [], [], 0
    for group, rows in view.rows(trace, only):
        add.append(f"divider_add {_word(group)}")
        index += 1
        for row in rows:
            add.append(f"variable_add {_in_surfer(row.name)}")
            changes = []
            if row.enumeration:
                name = f"{_word(view.top)}_{row.enumeration}_{row.width}"
                mappings.mkdir(parents=True, exist_ok=True)
                lines = [f"Name = {name}", f"Bits = {row.width}"]
                lines += [f"{v} {n}" for v, n in view.enumerations[row.enumeration].items() if v < 1 << row.width]
                (mappings / f"{name}.txt").write_text("\n".join(lines) + "\n")
                changes.append(f"item_set_format {name}")
            elif row.width > 1:
                changes.append(f"item_set_format {SURFER_FORMATS[row.format]}")
            if row.label != row.name.removeprefix(view.root + ".") or row.name.endswith("]"):
                changes.append(f"item_rename {row.label}")
            formats += [f"item_focus {_surfer_index(index)}", *changes] if changes else []
            index += 1
    # A name of more than one word would be taken for a time.
    times = [f"marker_set {_word(name)} {cycles.time(cycle)}" for name, cycle in marks.items()]
    first = next(iter(marks.values()), 0)
    path.write_text(
        "\n".join([*add, *formats, "item_unfocus", *times, "zoom_fit", f"cursor_set {cycles.time(first)}"]) + "\n"
    )
    return path
