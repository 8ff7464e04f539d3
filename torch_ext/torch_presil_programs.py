# SPDX-License-Identifier: Apache-2.0
"""The programs in C that an installed package has, as commands: presil-bundle, presil-replay, presil-serve,
presil-store. Neither torch nor torch_presil is imported: none of them needs it."""

import os
import sys
from pathlib import Path


def _run(name: str) -> None:
    program = Path(__file__).parent / "torch_presil" / "bin" / name
    try:
        os.execv(program, [name, *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"{name}: {program} can't be started ({error.strerror}): install the package again")


def presil_bundle() -> None:
    _run("presil-bundle")


def presil_replay() -> None:
    _run("presil-replay")


def presil_serve() -> None:
    _run("presil-serve")


def presil_store() -> None:
    _run("presil-store")
