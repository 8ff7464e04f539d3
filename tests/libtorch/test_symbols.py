# SPDX-License-Identifier: Apache-2.0
"""What the libraries export: their interfaces, and of the one that _C needs, what _C takes. Whatever else is visible is
taken by some program by and by, or takes its place in another library's."""

import os
import subprocess
from pathlib import Path

import pytest

BUILD = Path(os.environ.get("PRESIL_BUILD_DIR", Path(__file__).parents[2] / "build" / "check"))
PACKAGE = BUILD / "python" / "torch_presil"


def symbols(library: Path, which: str, *options: str) -> set[str]:
    command = ["nm", "-D", which, "--without-symbol-versions", *options, library]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return {line.split(maxsplit=2)[-1] if which == "--defined-only" else line.split(maxsplit=1)[-1] for line in lines}


def is_version(name: str) -> bool:
    return name in ("PRESIL_0", "PRESIL_TORCH_0", "PRESIL_TORCH_PRIVATE")


@pytest.mark.parametrize(
    "library, prefix", [("lib/libpresil.so", "presil_"), ("python/torch_presil/_C.so", "PyInit__C")]
)
def test_c_interfaces(library, prefix):
    exported = symbols(BUILD / library, "--defined-only")
    assert any(name.startswith(prefix) for name in exported)
    assert not [name for name in exported if not name.startswith(prefix) and not is_version(name)]


def test_the_extension_exports_its_interface_and_what_the_python_module_takes():
    exported = {name for name in symbols(PACKAGE / "libtorch_presil.so", "--defined-only") if not is_version(name)}
    public = {name for name in exported if name.startswith(("_ZN6presil3api", "_ZNK6presil3api"))}
    taken = symbols(PACKAGE / "_C.so", "--undefined-only")
    assert len(public) >= 10 and len(exported - public) > 50
    assert not sorted(exported - public - taken), "exported for nobody: torch_ext/export_map.py"
    assert not sorted(name for name in taken if "6presil" in name and name not in exported), "_C lacks it"
