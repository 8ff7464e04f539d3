# SPDX-License-Identifier: Apache-2.0
"""The layout of code is clang-format's and ruff's (.clang-format, pyproject.toml), so that no diff is about it."""

import subprocess
import sys
from pathlib import Path

from files import ROOT, tracked

HOW = "mend it with: .venv/bin/clang-format -i FILE, .venv/bin/ruff format FILE"
BIN = Path(sys.executable).parent


def names(*suffixes: str) -> list[str]:
    found = [str(path) for path in tracked() if path.suffix in suffixes]
    assert len(found) > 20, f"only {len(found)} files of {suffixes}: the list is broken"
    return found


def run(*command: str) -> str:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else (done.stdout + done.stderr)[-4000:] or f"status {done.returncode}"


def test_c_is_formatted():
    said = run(str(BIN / "clang-format"), "--dry-run", "-Werror", *names(".c", ".h", ".cpp"))
    assert not said, f"{HOW}\n{said}"


def test_python_is_formatted():
    said = run(str(BIN / "ruff"), "format", "--no-cache", "--check", *names(".py"))
    assert not said, f"{HOW}\n{said}"


def test_python_has_no_lint():
    said = run(str(BIN / "ruff"), "check", "--no-cache", *names(".py"))
    assert not said, said
