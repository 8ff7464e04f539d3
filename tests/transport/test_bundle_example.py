# SPDX-License-Identifier: Apache-2.0
"""tests/bundle_example/: a reader of bundles of somebody's own, built with find_package(Presil COMPONENTS bundle)
alone."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "libtorch"))
from cmake_project import built  # noqa: E402


def test_a_reader_of_ones_own(tmp_path):
    count = built(ROOT / "bundle_example", tmp_path / "built") / "count"
    done = subprocess.run([count, ROOT / "bundle" / "version1.presil"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stdout.endswith(" launches\n") and int(done.stdout.split()[0]) > 0, done
    done = subprocess.run([count, Path(__file__)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "is no bundle" in done.stderr
    linked = subprocess.run(["ldd", count], capture_output=True, text=True, check=True).stdout
    assert "libpresil_bundle.so" in linked and "libpresil.so" not in linked
