# SPDX-License-Identifier: Apache-2.0
"""What made a document: everything that its figures follow from, as hashes, so that one that was kept is taken up again
only if it would come out the same."""

import hashlib
import os
import platform
import sys
import sysconfig
from importlib import metadata
from pathlib import Path

import torch

__all__ = ["differs", "libraries", "of_model", "settings", "sources", "versions"]

PACKAGE = Path(__file__).resolve().parents[1]
# What has no part in the figures: how many processes there are, and where a regression keeps its own.
APART = ("PRESIL_JOBS", "PRESIL_JOB_", "PRESIL_REGRESS")


def file_hash(path) -> str | None:
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


def libraries() -> dict:
    """Path -> hash of what this process has loaded of Presil: simulators, chips, driver, extension."""
    paths = {line.split(maxsplit=5)[5].rstrip("\n") for line in open("/proc/self/maps") if line.count("/")}
    ours = (p for p in paths if Path(p).name.startswith("libpresil") or Path(p).parent.name == "torch_presil")
    return {path: file_hash(path) for path in sorted(ours) if ".so" in path}


def versions() -> dict:
    try:
        own = metadata.version("torch_presil")
    except metadata.PackageNotFoundError:
        own = "in its source tree"
    return {"presil": own, "torch": torch.__version__, "python": platform.python_version()}


def settings() -> dict:
    """Of the environment."""
    return {k: v for k, v in sorted(os.environ.items()) if k.startswith("PRESIL_") and not k.startswith(APART)}


def sources() -> dict:
    """Path -> hash of the Python files that this process has imported and nobody installed: the model's, and this
    package's own."""
    installed = [Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "purelib", "platlib")]
    found = {str(p): file_hash(p) for p in PACKAGE.rglob("*.py")}
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        path = file and Path(file).resolve()
        if path and path.suffix == ".py" and not any(folder in path.parents for folder in installed):
            found[str(path)] = file_hash(path)
    return dict(sorted(found.items()))


def of_model(loaded, seed: int) -> str:
    """Hash of a model as its factory makes it, and of its inputs. loaded: models.Loaded."""
    digest = hashlib.sha256(repr(loaded.model).encode())
    example = loaded.inputs.draw(1, seed + 1)[0]
    digest.update(repr(example.shapes()).encode())
    held = [*loaded.model.state_dict().items(), *((f"input {i}", t) for i, t in enumerate(example.tensors()))]
    for name, value in held:
        digest.update(f"{name}\0".encode())
        if isinstance(value, torch.Tensor) and not value.is_quantized:
            digest.update(f"{value.dtype} {list(value.shape)}\0".encode())
            digest.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
        else:
            digest.update(repr(value).encode())
    return digest.hexdigest()


def differs(kept: dict | None, now: dict) -> str | None:
    """None if a document with `made_by` kept would come out the same now; else what is another, in words."""
    if not kept:
        return "nothing tells what made it"
    for part, value in now.items():
        if kept.get(part) != value:
            return f"other {part}"
    changed = [path for path, digest in kept.get("libraries", {}).items() if file_hash(path) != digest]
    if changed or not kept.get("libraries"):
        return f"other {Path(changed[0]).name}" if changed else "nothing tells which simulator it was"
    return None
