# SPDX-License-Identifier: Apache-2.0
"""Build backend: scikit-build-core's, and then a platform tag that says which C and C++ libraries the wheel really needs."""

import base64
import hashlib
import re
import subprocess
import zipfile
from pathlib import Path

try:
    from scikit_build_core.build import *  # noqa: F403
    from scikit_build_core import build as _scikit
except ImportError:  # needed to build, not to look at a wheel
    _scikit = None

# Of libstdc++'s symbol versions GLIBCXX_3.4.x, the glibc 2.y of the first manylinux platform that has it (PEP 600 profiles).
GLIBCXX = ((19, 17), (22, 24), (24, 28), (28, 31), (29, 34), (30, 35), (32, 38), (33, 39))
# What every such platform has, what torch brings, what is ours.
ALLOWED = re.compile(r"(lib(c|m|dl|pthread|rt)|libgcc_s|libstdc\+\+)\.so\.\d+|ld-linux-x86-64\.so\.2|lib(c10|torch|torch_cpu|torch_python)\.so|lib(presil|torch_presil)\.so(\.\d+)?")


def needs(library: Path) -> tuple[int, int, set]:
    """(y of GLIBC_2.y, x of GLIBCXX_3.4.x, foreign libraries) of an ELF file; 0 where it needs none."""
    versions = subprocess.run(["readelf", "--version-info", "--wide", library], capture_output=True, text=True, check=True).stdout
    versions = versions.partition("Version needs section")[2]
    dynamic = subprocess.run(["readelf", "--dynamic", "--wide", library], capture_output=True, text=True, check=True).stdout
    glibc = max((int(y) for y in re.findall(r"\bGLIBC_2\.(\d+)", versions)), default=0)
    glibcxx = max((int(x) for x in re.findall(r"\bGLIBCXX_3\.4\.(\d+)", versions)), default=0)
    needed = set(re.findall(r"\(NEEDED\).*\[(.+)\]", dynamic))
    return glibc, glibcxx, {name for name in needed if not ALLOWED.fullmatch(name)}


def platform_tag(folder: Path) -> str:
    """manylinux_2_y_x86_64 of the libraries in a folder. Raises ValueError on one that other machines can't be expected to have."""
    least = 17
    for library in sorted(folder.rglob("*.so*")):
        glibc, glibcxx, foreign = needs(library)
        if foreign:
            raise ValueError(f"{library.relative_to(folder)} needs {', '.join(sorted(foreign))}, which another machine may lack: link it statically or leave the library out of the wheel")
        at = next((y for x, y in GLIBCXX if glibcxx <= x), None)
        if at is None:
            raise ValueError(f"{library.relative_to(folder)} needs GLIBCXX_3.4.{glibcxx}, which no platform tag promises yet: build with an older compiler")
        least = max(least, glibc, at)
    return f"manylinux_2_{least}_x86_64"


def retag(wheel: Path) -> Path:
    """The wheel under the platform tag that its libraries call for, in place of the old file."""
    import tempfile
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(root)
            modes = {info.filename: info.external_attr for info in archive.infolist()}
        tag = platform_tag(root)
        stem, _, old = wheel.stem.rpartition("-")
        info = next(root.glob("*.dist-info"))
        text = (info / "WHEEL").read_text()
        (info / "WHEEL").write_text(re.sub(rf"^(Tag: .*-){re.escape(old)}$", rf"\g<1>{tag}", text, flags=re.M))
        _write_record(root, info)
        target = wheel.with_name(f"{stem}-{tag}.whl")
        partial = target.with_suffix(".part")
        with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in sorted(p for p in root.rglob("*") if p.is_file()):
                name = path.relative_to(root).as_posix()
                entry = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
                entry.compress_type = zipfile.ZIP_DEFLATED
                entry.external_attr = modes.get(name, 0o644 << 16)
                archive.writestr(entry, path.read_bytes())
    partial.rename(target)
    if target != wheel:
        wheel.unlink()
    return target


def _write_record(root: Path, info: Path) -> None:
    lines = []
    for path in sorted(p for p in root.rglob("*") if p.is_file() and p != info / "RECORD"):
        digest = base64.urlsafe_b64encode(hashlib.sha256(path.read_bytes()).digest()).rstrip(b"=").decode()
        lines.append(f"{path.relative_to(root).as_posix()},sha256={digest},{path.stat().st_size}")
    lines.append(f"{(info / 'RECORD').relative_to(root).as_posix()},,")
    (info / "RECORD").write_text("\n".join(lines) + "\n")


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    name = _scikit.build_wheel(wheel_directory, config_settings, metadata_directory)
    return retag(Path(wheel_directory) / name).name
