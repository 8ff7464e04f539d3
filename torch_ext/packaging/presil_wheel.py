# SPDX-License-Identifier: Apache-2.0
"""Build backend: scikit-build-core's, and then a platform tag that says which C and C++ libraries the wheel really
needs (auditwheel's policies)."""

from pathlib import Path

try:
    from scikit_build_core.build import *  # noqa: F403
    from scikit_build_core import build as _scikit
except ImportError:  # needed to build, not to look at a wheel
    _scikit = None

# What torch brings; it is loaded before ours.
TORCHS = frozenset({"libc10.so", "libtorch*.so"})


def platform_tag(wheel: Path) -> str:
    """manylinux_2_y_x86_64 of the libraries in a wheel. Raises ValueError on one that other machines can't be
    expected to have."""
    from auditwheel.architecture import Architecture
    from auditwheel.error import NonPlatformWheelError
    from auditwheel.libc import Libc
    from auditwheel.wheel_abi import analyze_wheel_abi

    try:
        found = analyze_wheel_abi(
            Libc.GLIBC, Architecture.x86_64, wheel, TORCHS, disable_isa_ext_check=True, allow_graft=False
        )
    except NonPlatformWheelError as error:
        raise ValueError(f"{wheel.name} has no library for x86-64: expected a compiled wheel") from error
    for library, policies in found.full_external_refs.items():
        # What the newest platform doesn't promise, none does.
        foreign = policies[found.policies.highest.name].libs
        if foreign:
            raise ValueError(
                f"{library} needs {', '.join(sorted(foreign))}, which another machine may lack: link it "
                f"statically or leave the library out of the wheel"
            )
    tag = found.overall_policy.name
    if not tag.startswith("manylinux"):
        raise ValueError(
            f"{wheel.name} needs versions of symbols that no platform tag promises yet "
            f"({found.versioned_symbols}): build with an older compiler"
        )
    return tag


def retag(wheel: Path) -> Path:
    """The wheel under the platform tag that its libraries call for, in place of the old file."""
    from auditwheel.wheeltools import InWheelCtx, add_platforms, get_wheel_platforms

    tag = platform_tag(wheel)
    with InWheelCtx(wheel) as context:
        context.out_wheel = wheel
        target = add_platforms(context, [tag], [old for old in get_wheel_platforms(wheel.name) if old != tag])
    if target != wheel:
        wheel.unlink()
    return target


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    name = _scikit.build_wheel(wheel_directory, config_settings, metadata_directory)
    return retag(Path(wheel_directory).absolute() / name).name
