# SPDX-License-Identifier: Apache-2.0
"""Archives unpack into their folder alone, on Pythons with and without tarfile's filters."""

import io
import tarfile

import pytest
from torch_presil.regress.untar import untar


@pytest.fixture(params=[*(["filters of tarfile"] if hasattr(tarfile, "data_filter") else []), "none"])
def python(request, monkeypatch):
    if request.param == "none":
        monkeypatch.delattr(tarfile, "data_filter", raising=False)


def archive(*members) -> tarfile.TarFile:
    """Of (name, type, target of a link)."""
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w") as tar:
        for name, kind, target in members:
            member = tarfile.TarInfo(name)
            member.type, member.linkname, member.size = kind, target, 5 if kind == tarfile.REGTYPE else 0
            tar.addfile(member, io.BytesIO(b"words"))
    held.seek(0)
    return tarfile.open(fileobj=held)


FILE, FOLDER, LINK, HARD = tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE
WELL = [("a", FOLDER, ""), ("a/b", FILE, ""), ("a/c", LINK, "b"), ("d", HARD, "a/b")]
BAD = {
    "above": ("../x", FILE, ""),
    "above, from within": ("a/../../x", FILE, ""),
    "a link that leads out": ("l", LINK, "../../x"),
    "a link to the root": ("l", LINK, "/etc/passwd"),
    "a hard link that leads out": ("l", HARD, "../x"),
    "a device": ("n", tarfile.CHRTYPE, ""),
}


def test_what_is_in_it_is_there(python, tmp_path):
    untar(archive(*WELL), tmp_path / "to")
    assert [(tmp_path / "to" / name).read_text() for name in ("a/b", "a/c", "d")] == ["words"] * 3


@pytest.mark.parametrize("name", list(BAD))
def test_nothing_leaves_the_folder(python, name, tmp_path):
    with pytest.raises(tarfile.TarError):
        untar(archive(*WELL, BAD[name]), tmp_path / "to")
    assert not [p for p in tmp_path.rglob("*") if p.name not in ("to",)]


def test_nor_by_the_archives_own_links(python, tmp_path):
    """Each lies inside by its name; on disk a/b/b/b/c is a/c, and leads above."""
    chain = [("a", FOLDER, ""), ("a/b", LINK, "."), ("a/b/b/b/c", LINK, "../../.."), ("a/c/to-be/x", FILE, "")]
    with pytest.raises(tarfile.TarError):
        untar(archive(*chain), tmp_path / "within" / "to")
    assert {p.relative_to(tmp_path).parts[:2] for p in tmp_path.rglob("*")} <= {("within",), ("within", "to")}
