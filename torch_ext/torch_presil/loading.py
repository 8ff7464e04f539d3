# SPDX-License-Identifier: Apache-2.0
"""Loads the compiled part. What can't work together is found out first and named, since loaded it would crash or,
worse, run."""

import importlib.util
import json
import os
import sys
from pathlib import Path

PACKAGE = Path(__file__).parent


def native_directory() -> Path:
    """Where _C.so and build.json lie: beside this file when installed, in the build tree when the sources are used in
    place. Raises ImportError."""
    for candidate in (PACKAGE, Path(os.environ.get("PRESIL_BUILD_DIR", "")) / "python" / "torch_presil"):
        if (candidate / "_C.so").exists() and (candidate / "build.json").exists():
            return candidate
    raise ImportError(
        f"torch_presil: _C.so and build.json are neither in {PACKAGE} nor in $PRESIL_BUILD_DIR/python/torch_presil: "
        "run './presil build', or 'pip install .'"
    )


def check_python_path(directory: Path) -> None:
    """Raises ImportError if PYTHONPATH names a build by a relative path that leads nowhere from here: what was found
    instead is another build, which has the same names and other numbers."""
    if not (directory.parent.parent / "CMakeCache.txt").exists():
        return  # installed
    for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep):
        place = Path(entry)
        if place.name == "python" and not place.is_absolute() and not place.exists():
            raise ImportError(
                f"torch_presil: PYTHONPATH has {entry}, which is relative, and no folder of {Path.cwd()}: this would "
                f"be the build {directory.parent.parent} instead. Name its absolute path"
            )


def build_facts(directory: Path) -> dict:
    """What the compiled part was built with: version, torch, torch_git, cxx11_abi (bool), python ("3.11"), compiler,
    system."""
    return json.loads((directory / "build.json").read_text())


def check_torch(facts: dict) -> None:
    """Raises ImportError if this torch or Python is not the one that the compiled part was built for."""
    import torch

    remedy = f"install torch=={facts['torch']}, or rebuild torch_presil for the torch that is installed"
    if torch.__version__.split("+")[0] != facts["torch"]:
        raise ImportError(f"torch_presil was built for torch {facts['torch']}, found {torch.__version__}: {remedy}")
    if torch.compiled_with_cxx11_abi() != facts["cxx11_abi"]:
        raise ImportError(
            f"torch_presil was built with _GLIBCXX_USE_CXX11_ABI={int(facts['cxx11_abi'])}, this torch with "
            f"{int(torch.compiled_with_cxx11_abi())}: {remedy}"
        )
    running = "{}.{}".format(*sys.version_info)
    if running != facts["python"]:
        raise ImportError(
            f"torch_presil was built for Python {facts['python']}, this is {running}: use that one, or rebuild "
            f"torch_presil with this one"
        )


def other_backend() -> str:
    """Name of another PrivateUse1 backend in this process; "" if there is none."""
    import torch

    name = torch._C._get_privateuse1_backend_name()
    if name not in ("presil", "privateuseone"):
        return name
    taken = name == "privateuseone" and torch._C._dispatch_has_kernel_for_dispatch_key(
        "aten::empty.memory_format", "PrivateUse1"
    )
    return "privateuseone (one that did not name itself)" if taken else ""


def check_other_backend() -> None:
    """Raises ImportError: a process has room for one PrivateUse1 backend."""
    if name := other_backend():
        raise ImportError(
            f"the PrivateUse1 backend {name!r} is already in this process, which has room for one: don't import "
            f"its package together with torch_presil; "
            "if `import torch` loads it by itself, uninstall it or set TORCH_DEVICE_BACKEND_AUTOLOAD=0 and "
            "import the one you want"
        )


def load():
    """The module torch_presil._C. Raises ImportError with what is wrong and what to do."""
    directory = native_directory()
    check_python_path(directory)
    facts = build_facts(directory)
    check_torch(facts)
    check_other_backend()
    libraries = directory / "lib"
    os.environ.setdefault(
        "PRESIL_LIBRARY_PATH", str(libraries if libraries.is_dir() else directory.parent.parent / "lib")
    )
    from torch_presil import simulators

    simulators.use()
    # torch's symbols must be visible to the extension; its own stay private.
    spec = importlib.util.spec_from_file_location("torch_presil._C", directory / "_C.so")
    try:
        module = importlib.util.module_from_spec(spec)
    except ImportError as error:
        raise ImportError(_explain(str(error), facts)) from error
    sys.modules["torch_presil._C"] = module
    spec.loader.exec_module(module)
    return module


def _explain(text: str, facts: dict) -> str:
    """The dynamic linker's text, with what it means here."""
    import torch

    if "undefined symbol" in text:
        return (
            f"the installed torch {torch.__version__} ({torch.version.git_version[:10]}) lacks a symbol that the "
            f"torch which torch_presil was built with "
            f"({facts['torch']}, {facts['torch_git'][:10]}) had: reinstall torch=={facts['torch']}, or rebuild "
            f"torch_presil. The loader says: {text}"
        )
    if "GLIBC" in text:
        return (
            f"this system's C or C++ library is older than the one that torch_presil was built with "
            f"({facts['system']}): build it here, 'pip install .'. The loader says: {text}"
        )
    return f"torch_presil can't be loaded: {text}"


def diagnosing() -> bool:
    """Whether this process is `python -m torch_presil.diagnose`, which has to run when nothing else does."""
    return "torch_presil.diagnose" in sys.orig_argv[1:]
