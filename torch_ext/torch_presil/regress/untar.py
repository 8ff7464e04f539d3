# SPDX-License-Identifier: Apache-2.0
"""Archives into a folder, and nowhere else. Knows the standard library alone: it runs on the farm, too."""

import os
import tarfile
from pathlib import Path

__all__ = ["untar"]


def untar(archive: tarfile.TarFile, folder: Path) -> None:
    """By tarfile's filter "data", or where Python has none yet (Debian 12's is 3.11.2) by what matters of it here.
    Raises tarfile.TarError for devices, and for a name or link that leads outside: before anything is unpacked, or
    where it does so by a link of the archive, before it."""
    check = getattr(tarfile, "data_filter", _checked)
    members, checked = archive.getmembers(), {} if check is _checked else {"filter": "fully_trusted"}
    for member in members:
        check(member, str(folder))
    archive.extractall(folder, (check(member, str(folder)) for member in members), **checked)  # links are there by then


def _checked(member: tarfile.TarInfo, folder: str) -> tarfile.TarInfo:
    root = Path(folder).resolve()
    paths = [root / member.name]
    if member.issym():
        paths.append(paths[0].parent / member.linkname)
    elif member.islnk():
        paths.append(root / member.linkname)
    elif not (member.isreg() or member.isdir()):
        raise tarfile.ExtractError(f"{member.name}: neither a file nor a folder nor a link")
    if any(not path.resolve().is_relative_to(root) for path in paths):
        raise tarfile.ExtractError(f"{member.name}: would be outside of {root}")
    member.uid, member.gid, member.uname, member.gname = os.getuid(), os.getgid(), "", ""
    member.mode &= 0o755
    return member
