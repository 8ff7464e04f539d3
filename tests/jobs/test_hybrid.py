# SPDX-License-Identifier: Apache-2.0
"""Mode hybrid: what ran on the RTL once isn't simulated again, and what is told of it is what the RTL said."""

import gc
import io
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch_presil  # noqa: F401
from rich.console import Console
from same import SAME
from test_jobs import forwards, network
from timing_store import Store, rows
from torch_presil import _C, cosim, cosim_report
from torch_presil.bench_hybrid import without_seconds

P, B = torch.presil, torch.backends.presil
BUILD = Path(os.environ["PRESIL_BUILD_DIR"])
VERIFY, HYBRID = 2, 3
OF_MODE = ("mode", "verified")


@pytest.fixture
def store(tmp_path):
    return tmp_path / "timings.sqlite"


def hybrid(store, model, sample=0.0, seed=1, jobs=2, count=1, **more):
    """(results, reports, how many launches were known, sampled, unknown, can't be known)"""
    with B.flags(store=str(store), store_sample=sample, store_seed=seed, jobs=jobs, **more, mode="hybrid"):
        results, reports = forwards(model, count)
        stats = _C.jobs_stats(0)
    return results, reports, [stats[name] for name in ("known", "sampled", "unknown", "never")]


def numbers(reports: list) -> list:
    return [{name: r[name] for name in SAME if name in r and name not in OF_MODE} for r in reports]


@pytest.fixture(scope="module")
def verified():
    model = network().to("presil")
    with B.flags(mode="verify", jobs=1):
        return model, *forwards(model, 1)


@pytest.mark.parametrize("jobs", [1, 2])
def test_the_second_time_nothing_is_simulated(verified, store, jobs):
    model, results, reports = verified
    first, second = (hybrid(store, model, jobs=jobs) for _ in range(2))
    assert first[2] == [0, 0, 3, 0] and second[2] == [3, 0, 0, 0]
    assert [(r["mode"], r["verified"]) for r in first[1]] == [(VERIFY, 1)] * 3
    assert [(r["mode"], r["verified"]) for r in second[1]] == [(HYBRID, -1)] * 3
    assert all(r["sim_ns"] for r in first[1]) and not any(r["sim_ns"] for r in second[1])
    assert numbers(reports) == numbers(first[1]) == numbers(second[1])
    assert torch.equal(results[0], first[0][0]) and torch.equal(results[0], second[0][0])
    assert len(rows(store)) == 3


def test_other_data_at_other_addresses_are_known(verified, store):
    hybrid(store, verified[0])
    between = torch.zeros(12345, device="presil")
    other = network().to("presil")
    with torch.no_grad():
        other[0].weight.mul_(-3)
    _, reports, known = hybrid(store, other, count=2)
    assert known == [6, 0, 0, 0] and between.device.type == "presil"
    assert numbers(reports[:3]) == numbers(verified[2])


@pytest.mark.parametrize(
    "change", [{"memory_model": "latency=120"}, {"memory_model_seed": 9}, {"memory_model": "ideal"}]
)
def test_another_memory_or_seed_is_never_known(verified, store, change):
    hybrid(store, verified[0])
    _, reports, known = hybrid(store, verified[0], **change)
    assert known == [0, 0, 3, 0]
    assert "memory_model_seed" in change or numbers(reports) != numbers(verified[2])
    assert hybrid(store, verified[0], **change)[2] == [3, 0, 0, 0]
    assert hybrid(store, verified[0], memory_model="default")[2] == [3, 0, 0, 0]  # another way to write it


@pytest.mark.parametrize("memory", ["ddr4-3200", "hbm2-2000,channels=2"])
def test_of_a_dram_whole_addresses_count(verified, store, memory):
    """Which row an operand is in depends on its address, not only on its place in the page."""
    gc.collect()  # tensors that earlier tests left, freed between two runs, would move operands of the second
    model = verified[0]
    with B.flags(mode="verify", jobs=1, memory_model=memory):
        alone = forwards(model, 1)[1]
    first, again = (hybrid(store, model, memory_model=memory) for _ in range(2))
    assert first[2] == [0, 0, 3, 0] and again[2] == [3, 0, 0, 0]
    assert numbers(alone) == numbers(first[1]) == numbers(again[1])
    assert numbers(alone) != numbers(verified[2])
    between = torch.zeros(12345, device="presil")
    moved = hybrid(store, network().to("presil"), memory_model=memory)
    assert moved[2] == [0, 0, 3, 0] and between.device.type == "presil"


ALONE = """
import sys
sys.path.insert(0, {tests!r})
import torch, torch_presil
from test_hybrid import hybrid, network
print(*hybrid({store!r}, network().to("presil"))[2])
"""


def alone(store, **environment) -> str:
    code = ALONE.format(tests=str(Path(__file__).parent), store=str(store))
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")[-2]


def test_processes_share_a_store(verified, store):
    assert alone(store) == "0 0 3 0"
    assert hybrid(store, verified[0])[2] == [3, 0, 0, 0]


def test_another_rtl_is_never_known(verified, store, tmp_path):
    """One digit of the hash of its sources is another, and the library is the same but for that."""
    hybrid(store, verified[0])
    name = "libpresil_sim_tiny_fast.so"
    with Store(store) as opened:
        assert len(opened.rows()) == 3
    library = (BUILD / "lib" / name).read_bytes()
    found = library.index(b"rtl=") + len(b"rtl=")
    digit = b"0" if library[found : found + 1] != b"0" else b"1"
    (tmp_path / name).write_bytes(library[:found] + digit + library[found + 1 :])
    assert alone(store, PRESIL_LIBRARY_PATH=str(tmp_path)) == "0 0 3 0"
    shutil.copy(BUILD / "lib" / name, tmp_path)
    assert alone(store, PRESIL_LIBRARY_PATH=str(tmp_path)) == "3 0 0 0"


def test_a_sample_runs_all_the_same(verified, store):
    model, _, reports = verified
    hybrid(store, model)
    _, found, known = hybrid(store, model, sample=1.0)
    assert known == [0, 3, 0, 0]
    assert [(r["mode"], r["verified"]) for r in found] == [(VERIFY, 1)] * 3 and numbers(found) == numbers(reports)
    chosen = [[r["mode"] for r in hybrid(store, model, 0.5, seed, count=4)[1]] for seed in (1, 1, 2)]
    assert chosen[0] == chosen[1] != chosen[2]
    assert 0 < chosen[0].count(VERIFY) < 12


@pytest.mark.parametrize("member, what", [("cycles", "cycles, the RTL now takes"), ("write_beats", "bytes, beats")])
def test_a_falsified_launch_is_found_by_the_sample(verified, store, member, what):
    model, _, reports = verified
    hybrid(store, model)
    with Store(store) as opened:
        row = opened.rows()[1]
        setattr(row.timing, member, getattr(row.timing, member) + 1)
        opened.put(row)
    unnoticed = hybrid(store, model)  # the control: it is what a report would say
    assert unnoticed[2] == [3, 0, 0, 0] and numbers(unnoticed[1]) != numbers(reports)
    with pytest.raises(RuntimeError, match=f"(?s)timing store has .*{what}.*was emptied.*ETIMING") as caught:
        hybrid(store, model, sample=1.0)
    assert caught.value.error_code == _C.status_codes()["ETIMING"] == 14
    assert rows(store) == []
    again = hybrid(store, model)
    assert again[2] == [0, 0, 3, 0] and numbers(again[1]) == numbers(reports)


def test_what_failed_or_had_a_fault_is_not_kept(verified, store):
    with pytest.raises(RuntimeError, match="EHUNG"):
        hybrid(store, verified[0], memory_model="pressure=dead", watchdog_cycles=3000)
    assert rows(store) == []
    assert alone(store, PRESIL_JOB_FAULT="slow=1") == "0 0 0 3"  # it does nothing but take time
    assert rows(store) == []


def test_a_store_that_cannot_be_used_is_refused(verified, store, tmp_path):
    store.write_text("no database, " * 400)
    before = B.mode
    with pytest.raises(RuntimeError, match="mode hybrid: .*not a timing store"):
        hybrid(store, verified[0])
    assert B.mode == before and store.read_text() == "no database, " * 400
    assert hybrid(tmp_path / "other", verified[0])[2] == [0, 0, 3, 0]


def test_a_full_disk_costs_nothing_but_time(verified, store, tmp_path):
    """Of a file that can't grow: told once, and the launches are right."""
    namespace = ["unshare", *([] if os.geteuid() == 0 else ["--map-root-user"]), "--mount"]
    if subprocess.run([*namespace, "mount", "-t", "tmpfs", "none", tmp_path], capture_output=True).returncode:
        pytest.skip("this system does not let a process mount a file system of its own")
    code = f"""
import os, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
import torch, torch_presil, subprocess
from test_hybrid import forwards, hybrid, network
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=72k", "none", {str(tmp_path)!r}], check=True)
print(*hybrid({str(store)!r}, network().to("presil"))[2])
"""
    done = subprocess.run(
        [*namespace, sys.executable, "-c", code], capture_output=True, text=True, timeout=300, env=os.environ
    )
    assert done.stdout.split("\n")[-2:-1] == ["0 0 3 0"] or "mode hybrid" in done.stderr, done.stderr
    assert "disk is full" in done.stderr


def test_a_sample_that_makes_no_sense_is_refused():
    with pytest.raises(ValueError, match="store_sample must be 0 to 1, got 1.5"):
        B.store_sample = 1.5
    assert B.store_sample == 0.02


def test_what_is_being_simulated_is_not_simulated_twice(store):
    """The second and third layer are the first one's commands: they wait for its cycles."""
    torch.manual_seed(3)
    model = torch.nn.Sequential(*[torch.nn.Linear(96, 96) for _ in range(3)], torch.nn.Linear(96, 8)).to(torch.bfloat16)
    model = model.eval().to("presil")
    x = torch.randn(16, 96, dtype=torch.bfloat16)
    found = []
    for mode in ("verify", "hybrid"):
        with B.flags(store=str(store), store_sample=0, jobs=2, mode=mode), P.reports() as collected:
            with torch.inference_mode():
                result = model(x.to("presil")).cpu()
            found.append((result, collected.take()))
            stats = _C.jobs_stats(0)
    assert [stats[name] for name in ("known", "sampled", "unknown", "never")] == [2, 0, 2, 0]
    assert [r["mode"] for r in found[1][1]] == [VERIFY, HYBRID, HYBRID, VERIFY]
    assert torch.equal(found[0][0], found[1][0]) and numbers(found[0][1]) == numbers(found[1][1])
    assert len(rows(store)) == 2


def test_who_waited_for_a_launch_that_failed_runs_itself(store, monkeypatch):
    """The third launch differs from its model: the two behind it have its commands, and are right."""
    monkeypatch.setenv("PRESIL_JOB_PROGRAM", str(Path(__file__).parent / "wrong_job.py"))
    torch.manual_seed(3)
    sizes = (32, 64), (64, 96), (96, 96), (96, 96), (96, 96)
    model = torch.nn.Sequential(*[torch.nn.Linear(*s) for s in sizes]).to(torch.bfloat16).eval().to("presil")
    x = torch.randn(16, 32, dtype=torch.bfloat16)
    with B.flags(store=str(store), store_sample=0, jobs=1, mode="hybrid"), P.reports() as collected:
        with torch.inference_mode():
            model(x.to("presil")).cpu()
        with pytest.raises(RuntimeError, match="EMISMATCH"):
            P.synchronize()
        found = [(r["mode"], r["verified"]) for r in collected.take()]
        stats = _C.jobs_stats(0)
    assert found == [(VERIFY, 1), (VERIFY, 1), (VERIFY, 0), (VERIFY, 1), (VERIFY, 1)]
    assert [stats[name] for name in ("known", "unknown")] == [0, 5] and len(rows(store)) == 3


def options(**more) -> cosim.Options:
    model = f"{Path(__file__).parent / 'model.py'}:small"
    return cosim.Options(model, mode="hybrid", jobs=2, baseline=False, **more)


def test_cosim_says_the_same_the_second_time(store):
    before = B.mode, B.jobs
    with B.flags(store=str(store), store_sample=0.0):
        first, second = cosim.run(options()), cosim.run(options())
        verified = cosim.run(cosim.Options(options().model, mode="verify", jobs=1, baseline=False))
    launches = first["total"]["launches"]
    assert launches == 3 and first["total"]["store_hits"] == 0
    assert (second["total"]["store_hits"], second["total"]["sampled"]) == (launches, 0)
    assert without_seconds(first) == without_seconds(second) and first["total"]["bit_exact"] is None
    assert [r["cycles"] for r in verified["layers"] if r["where"] == "chip"] == [
        r["cycles"] for r in second["layers"] if r["where"] == "chip"
    ]
    assert (
        verified["total"]["output_sha256"] == second["total"]["output_sha256"] and verified["total"]["store_hits"] == 0
    )
    assert (B.mode, B.jobs) == before


@pytest.mark.parametrize(("sample", "seed"), [(0.5, 7), (1.0, 8)])
def test_cosim_says_the_same_with_a_sample_and_names_it(store, sample, seed):
    with B.flags(store=str(store), store_sample=0.0):
        first = cosim.run(options())
    with B.flags(store=str(store), store_sample=sample, store_seed=seed):
        found = [cosim.run(options()) for _ in range(2)]
        shown = io.StringIO()
        cosim_report.print_result(found[0], Console(file=shown, width=200))
    hits, sampled = (found[0]["total"][name] for name in ("store_hits", "sampled"))
    assert hits == 3 and 0 < sampled <= 3 and (sampled == 3) == (sample == 1), found[0]["total"]
    assert without_seconds(first) == without_seconds(found[0]) == without_seconds(found[1])
    assert found[1]["total"]["sampled"] == sampled, "the seed says which"
    assert f"3 of 3 launches from the timing store; 0 were simulated, and {sampled} of the known" in shown.getvalue()
    assert f"(sample {sample:.3g}, seed {seed})" in shown.getvalue()


@pytest.mark.parametrize("more", [{"layers": "*"}, {"distinct": True}, {"batches": (2,)}])
def test_cosim_of_parts_is_refused(more):
    with pytest.raises(ValueError, match="mode 'hybrid' runs whole forwards|--jobs is at least 0"):
        cosim.run(options(**more))
