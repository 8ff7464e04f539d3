# SPDX-License-Identifier: Apache-2.0
"""presil conform finds nothing in sa16, at any level, and docs/conform.md says what it made of it."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "conform"))
import table  # noqa: E402
from conform_runs import BUILD, OF_CHOICE, ROOT, conform, library  # noqa: E402

# Products and kernels that it does not pack are the host's, it has no scratch memory and takes one launch at a
# time: what is asked of these is skipped, and nothing else.
SKIPPED = {"matmul", "matmul-limits", "conv"} | OF_CHOICE - {"activations", "timing", "usage", "work"}


@pytest.mark.parametrize("level, least", [("transport", 30), ("chip", 12), ("pytorch", 2)])
def test_level(level, least):
    run = conform(library("sa16_check"), "--level", level)
    assert run["counts"]["passed"] >= least and run["counts"]["failed"] == 0, run["output"]
    assert {row["check"] for row in run["checks"] if row["status"] == "skipped"} <= SKIPPED, run["output"]
    table.expect_as_said("sa16", run)
    if level == "pytorch":  # the layers of the int8 networks are launches, not the host's
        assert "8 launches on the chip" in run["checks"][0]["text"], run["checks"]


def test_a_chip_that_rounds_elsewhere_is_found(tmp_path):
    """Its twin has the same fault: only PyTorch's integers tell."""
    shutil.copytree(HERE / "chip", tmp_path / "chip")
    source, sound = tmp_path / "chip" / "tiles.c", "four(l->quant.zero_point,"
    text = source.read_text()
    assert text.count(sound) == 1, f"{sound!r} stands {text.count(sound)} times in tiles.c"
    source.write_text(text.replace(sound, "four(l->quant.zero_point + 1,"))
    chip = tmp_path / "libpresil_chip_sa16.so"
    command = ["cc", "-std=c11", "-O1", "-shared", "-fPIC", f"-I{ROOT}/driver/include"]
    subprocess.run([*command, *(tmp_path / "chip").glob("*.c"), "-lm", "-o", chip], check=True)
    (tmp_path / "libpresil_sim_sa16_fast.so").symlink_to(BUILD / "lib" / "libpresil_sim_sa16_fast.so")
    run = conform(tmp_path / "libpresil_sim_sa16_fast.so", "--only", "networks", status=1)
    assert "quantized-cnn: error" in run["checks"][0]["text"], run["output"]
