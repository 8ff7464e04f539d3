# SPDX-License-Identifier: Apache-2.0
"""presil cosim and perf --farm: the JSON of --jobs but for seconds; what goes wrong on a worker is an error here."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from torch_presil.regress.farm import bundle_parts

from .conftest import HERE

MODEL = f"{HERE.parent / 'regress' / 'models.py'}:small_cnn"
OF_THE_RUN = ("jobs_peak_bytes", "cpu_layouts", "libraries", "versions")


def presil(*words, status: int = 0, **environment) -> str:
    command = [sys.executable, "-m", "torch_presil.cli", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}, check=False)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


def without_seconds(value):
    if isinstance(value, dict):
        kept = {k: v for k, v in value.items() if not k.endswith("seconds") and k not in OF_THE_RUN}
        return {k: without_seconds(v) for k, v in kept.items()}
    return [without_seconds(v) for v in value] if isinstance(value, list) else value


def told(path: Path, *words, **environment) -> dict:
    presil(*words, MODEL, "--chip", "tiny", "--json", path, **environment)
    return json.loads(path.read_text())


@pytest.mark.parametrize("more", ["--dtype=bf16", "--dtype=int8 --mixed=0,2"])
def test_cosim_is_what_two_processes_say(cluster, tmp_path, more):
    here = told(tmp_path / "here.json", "cosim", *more.split(), "--jobs", 2)
    far = told(tmp_path / "far.json", "cosim", *more.split(), "--farm", cluster.farm)
    assert far["mode"] == "verify" and far["total"]["bit_exact"] and far["total"]["launches"] > 3
    assert without_seconds(far) == without_seconds(here)
    if "mixed" in more:
        rows = far["int8"]["mixed"]
        assert [row["bf16_layers"] for row in rows] == [0, 2] and all(row["bit_exact"] for row in rows)
        assert {row["cycles_from"] for row in rows} == {"RTL"} and rows[0]["cycles"] == far["total"]["cycles"]


def test_perf_is_what_two_processes_say(cluster, tmp_path):
    more = {"PRESIL_MEMORY_MODEL": "latency=77", "PRESIL_SEED": "5"}
    here = told(tmp_path / "here.json", "perf", "--html=", "--jobs", 2, **more)
    far = told(tmp_path / "far.json", "perf", "--html=", "--farm", cluster.farm, **more)
    assert far["problems"] == [] and far["total"]["cycles"] > 1000
    assert without_seconds(far) == without_seconds(here)


@pytest.fixture
def near(cluster, monkeypatch):
    """cosim.run() of this process."""
    import torch_presil  # noqa: F401
    from torch_presil import cosim

    facts = {"chip": "tiny", "farm": cluster.farm, "baseline": False, "check_layers": False}
    return lambda: cosim.run(cosim.Options(MODEL, **facts))


def test_a_launch_that_hangs_on_a_worker_is_an_error_here(near, monkeypatch):
    whole = bundle_parts.Job
    monkeypatch.setattr(bundle_parts, "Job", lambda *words, **facts: whole(*words, **facts, timeout_cycles=900))
    bundle_parts.Job.from_dict = whole.from_dict
    with pytest.raises(RuntimeError, match=r"on the farm: 0: .*\[EHUNG\]") as raised:
        near()
    assert "launched by" in str(raised.value)


def test_a_difference_is_an_error_with_its_origin_and_bundle(near, monkeypatch, tmp_path):
    """What presil-replay says of other bits (tests/regress has RTL that does so), of the launch of layer 5."""
    from torch_presil import _C
    from torch_presil.bundle import Bundle

    real = bundle_parts._rows
    where = {"where": "out[0, 3], tile 1", "address": 4096, "bytes": 1, "cycle": None, "expected": 1, "found": 255}
    wrong = {"outcome": "mismatch", "bits_equal": False, "difference": where}
    monkeypatch.setattr(
        bundle_parts, "_rows", lambda ended: [{**r, **(wrong if r["label"] == "5" else {})} for r in real(ended)]
    )
    before = _C.capture_failures()
    _C.set_capture_failures(str(tmp_path))
    try:
        with pytest.raises(
            RuntimeError, match=r"5: RTL and model differ: out\[0, 3\], tile 1, at 0x1000: 0xff"
        ) as raised:
            near()
    finally:
        _C.set_capture_failures(before)
    (bundle,) = tmp_path.glob("farm-*.presil")
    text = str(raised.value)
    assert "[EMISMATCH]" in text and "launched by" in text and f"kept in {bundle}, launch 2" in text
    with Bundle(bundle) as kept:
        assert kept.launch(2).label == "5"


def test_launches_that_a_worker_cannot_run_are_an_error(near, monkeypatch):
    monkeypatch.setattr(bundle_parts, "parts", lambda costs, count: [range(90, 91)])
    with pytest.raises(RuntimeError, match="launches from 90 on were not run on .* none is chosen"):
        near()


@pytest.mark.parametrize(
    "words, text",
    [
        (("--mode", "hybrid"), "use 'rtl' or 'verify'"),
        (("--layers", "0"), "can't be combined"),
        (("--transport", "socket:/nowhere"), "no --transport with it"),
        ((), "expected local, dask://HOST:PORT"),
    ],
)
def test_what_a_farm_does_not_do_is_refused(words, text):
    said = presil("cosim", MODEL, "--chip", "tiny", "--farm", "local" if words else "cloud", *words, status=2)
    assert text in said and "loading model" not in said, said


@pytest.mark.parametrize(
    "count, costs", [(1, [1, 1]), (3, [1] * 10), (40, [5, 0, 0, 9]), (4, [100, 1, 1, 1]), (2, [0, 0])]
)
def test_parts_are_all_launches_in_order(count, costs):
    found = bundle_parts.parts(costs, count)
    assert [i for part in found for i in part] == list(range(len(costs))) and 1 <= len(found) <= count
