# SPDX-License-Identifier: Apache-2.0
"""`presil perf` on the RTL of `tiny`: its figures are those of `presil cosim`, and every file has them."""

import csv
import inspect
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from perf import models

MODELS = Path(__file__).with_name("models.py")
# Seconds for one command: against one that never ends, not a limit of its speed (a loaded machine took 600).
BACKSTOP = 1800
PROCESSORS = "import torch_presil; print(torch_presil._C.processors())"


def presil(*arguments, folder: Path, status: int = 0) -> str:
    command = [sys.executable, "-m", "torch_presil.cli", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=BACKSTOP)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("perf")


@pytest.fixture(scope="module", params=["bf16", "int8"])
def forward(request, folder):
    """(document, folder of its files): two batch sizes of the model that can be traced."""
    to = folder / request.param
    files = [f"--{kind}={to}/perf.{kind}" for kind in ("html", "json", "csv", "png")]
    told = presil("perf", f"{MODELS}:traceable", "--dtype", request.param, "--batch", "1,3", "--jobs", 1, *files,
                  folder=folder)  # fmt: skip
    assert "doesn't add up" not in told and "Batch 3:" in told
    return json.loads((to / "perf.json").read_text()), to


def test_it_is_what_cosim_says(forward, folder):
    document, to = forward
    presil("cosim", f"{MODELS}:traceable", "--dtype", document["dtype"], "--jobs", 1, "--no-check", "--json",
           to / "cosim.json", folder=folder)  # fmt: skip
    known = json.loads((to / "cosim.json").read_text())
    ours = {row["name"]: row for row in document["layers"]}
    chip = [row for row in known["layers"] if row["where"] == "chip"]
    assert [row["name"] for row in chip] == list(ours) and document["problems"] == []
    for row in chip:
        mine = ours[row["name"]]
        assert (mine["cycles"], mine["macs"], mine["bound"]) == (row["cycles"], row["macs"], row["bound"])
        assert mine["read_bytes"] + mine["write_bytes"] == row["dram_bytes"]
        assert mine["utilization"] == pytest.approx(row["utilization"])
    assert document["total"]["cycles"] == known["total"]["cycles"]
    host = [row for row in known["layers"] if row["where"] == "host"]
    computed = [row for row in document["host"] if row["event"] is not None and "no kernel" in row["why"]]
    assert sum(row["calls"] for row in host) == len(computed)


def test_layers_have_module_line_and_tensors(forward):
    document, _ = forward
    source, first = inspect.getsourcelines(models.Block.forward)
    line = first + next(i for i, text in enumerate(source) if "self.two" in text)
    rows = {row["name"]: row for row in document["layers"]}
    assert set(rows) == {"stem", "body.one", "body.two", "head"}
    assert rows["body.two"]["line"] == f"{MODELS}:{line}"
    size = {"bf16": 2, "int8": 1}[document["dtype"]]
    held = rows["body.two"]["tensors"]
    assert held["inputs"] == 2 * 8 * 36 * size and held["results"] == 8 * 36 * size  # x and the residual
    assert held["weights"] >= 64 * size
    pool = next(row for row in document["host"] if row["name"].startswith("max_pool2d"))
    assert pool["module"] == "pool" and pool["bytes"] >= 8 * 36 * size + 8 * 9 * size


def test_stalls_of_every_launch_are_all_of_its_cycles(forward):
    for launch in forward[0]["launches"]:
        assert set(launch["stalls"]) == {e["name"] for e in forward[0]["names"]["engines"]}
        assert all(sum(causes.values()) == launch["cycles"] for causes in launch["stalls"].values())


def test_batches(forward):
    document, _ = forward
    first, other = document["batches"]
    assert first["batch"] == 1 and other["batch"] == 3 and first["cycles"] == document["total"]["cycles"]
    assert first["cycles"] < other["cycles"] < 3 * first["cycles"]
    assert other["images_per_second"] == pytest.approx(3 * document["clock"]["mhz"] * 1e6 / other["cycles"])
    assert other["images_per_second_with_host"] < other["images_per_second"]


def test_every_file_has_the_same_figures(forward):
    document, to = forward
    page = (to / "perf.html").read_text()
    assert json.loads(re.search(r'id="data">(.*?)</script>', page, re.S).group(1)) == document
    rows = list(csv.DictReader((to / "perf.csv").open()))
    chip = [row for row in rows if row["where"] == "chip"]
    assert sum(int(row["cycles"]) for row in chip) == document["total"]["cycles"] and len(chip) == 4
    for row, layer in zip(chip, document["layers"]):
        causes = {key: int(value) for key, value in row.items() if key.startswith("matrix.")}
        assert sum(causes.values()) == layer["cycles"]
    assert len(rows) - len(chip) == len(document["host"])


def test_the_picture_says_what_it_shows(forward):
    from PIL import Image

    document, to = forward
    picture = Image.open(to / "perf.png")
    assert picture.width > 1000 and json.loads(picture.info["Description"])["cycles"] == document["total"]["cycles"]
    assert len(picture.convert("RGB").resize((200, 150)).getcolors(30_000)) > 50


def test_a_model_that_cannot_be_traced_goes_by_module_and_line(folder):
    presil("perf", f"{MODELS}:eager", "--jobs", 1, "--html", "", "--json", folder / "eager.json", folder=folder)
    document = json.loads((folder / "eager.json").read_text())
    source, first = inspect.getsourcelines(models.Eager.forward)
    numbers = {text.strip().split(" ")[0]: first + i for i, text in enumerate(source)}
    rows = [(row["name"], row["module"], row["line"]) for row in document["layers"]]
    scores, result = f"{MODELS}:{numbers['scores']}", f"{MODELS}:{first + len(source) - 1}"
    assert rows == [("query", "query", scores), ("key", "key", scores), ("matmul", "", scores), ("matmul", "", result)]
    assert not document["traced"] and document["problems"] == []
    host = {row["name"]: row for row in document["host"]}
    assert host["softmax.int"]["line"] == result and host["softmax.int"]["bytes"] == 2 * 2 * 2 * 64


def test_several_processes_give_the_same_document(folder):
    kept = []
    for jobs in (1, 2):
        to = folder / f"jobs{jobs}.json"
        presil(
            "perf", f"{MODELS}:traceable", "--mode", "verify", "--jobs", jobs, "--html", "", "--json", to, folder=folder
        )
        kept.append(json.loads(to.read_text()))
    for document in kept:
        for key in ("jobs", "wall_seconds", "sim_seconds"):
            del document[key]
        for row in document["host"]:
            del row["seconds"]
    assert kept[0] == kept[1] and all(launch["verified"] == 1 for launch in kept[0]["launches"])


def test_memory_and_clock_are_the_user_s(folder):
    taken = {}
    for memory in ("latency=10", "latency=400,bytes=4"):
        to = folder / "memory.json"
        presil("perf", f"{MODELS}:traceable", "--jobs", 1, "--memory", memory, "--clock", 250, "--html", "",
               "--json", to,
               folder=folder)  # fmt: skip
        taken[memory] = json.loads(to.read_text())
    fast, slow = taken.values()
    assert fast["total"]["cycles"] < slow["total"]["cycles"] and slow["clock"] == {"mhz": 250, "source": "--clock"}
    assert slow["bus"]["bytes_per_cycle"] == 4 < fast["bus"]["bytes_per_cycle"] and slow["memory"]["latency"] == 400


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["no.such:model"], "can't import"),
        ([f"{MODELS}:traceable", "--batch", "0"], "positive numbers"),
        ([f"{MODELS}:traceable", "--clock", "-1"], "above 0"),
        ([f"{MODELS}:traceable", "--memory", "latency=x"], "latency"),
        ([f"{MODELS}:traceable", "--chip", "nosuch"], "nosuch"),
    ],
)
def test_wrong_calls_say_what_was_expected(arguments, text, folder):
    command = [sys.executable, "-m", "torch_presil.cli", "perf", *arguments, "--html", ""]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=BACKSTOP)
    assert done.returncode in (2, 4) and text in done.stdout + done.stderr, done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_a_model_that_launches_nothing(folder):
    told = presil("perf", f"{MODELS}:host_alone", "--jobs", 1, f"--html={folder}/n.html", f"--json={folder}/n.json",
                  f"--csv={folder}/n.csv", f"--png={folder}/n.png", f"--perfetto={folder}/n.trace", folder=folder,
                  status=1)  # fmt: skip
    assert "no launch on the chip" in " ".join(told.split()) and "Traceback" not in told
    assert json.loads((folder / "n.json").read_text())["total"]["cycles"] == 0


def test_a_difference_of_rtl_and_twin_ends_with_1_and_a_hang_with_3(folder, monkeypatch):
    call = ["perf", f"{MODELS}:traceable", "--mode", "verify", "--html", "", "--jobs", 2]
    with monkeypatch.context() as m:
        m.setenv("PRESIL_JOB_PROGRAM", str(MODELS.parents[1] / "jobs" / "wrong_job.py"))
        m.setenv("TEST_WRONG_LAUNCH", "1")  # four launches, two processes: who has a third one is chance
        told = presil(*call, folder=folder, status=1)
    assert "RTL and model differ" in told and "Traceback" not in told
    monkeypatch.setenv("PRESIL_JOB_FAULT", "late=0")
    monkeypatch.setenv("PRESIL_WATCHDOG", "3000")
    told = presil(*call, folder=folder, status=3)
    assert "EHUNG" in told and "Traceback" not in told


def test_names_with_brackets_are_shown(folder):
    told = presil("perf", f"{MODELS}:bracketed", "--jobs", 1, "--html", f"{folder}/[bold]x[red].html", folder=folder)
    assert "[bold]layer[red]" in told and "[bold]x[red].html" in told and (folder / "[bold]x[red].html").exists()


@pytest.mark.parametrize("asked", ["", "3"])
def test_without_jobs_it_takes_the_processors_or_what_the_environment_says(asked, tmp_path, monkeypatch):
    monkeypatch.setenv("PRESIL_JOBS", asked)
    presil("perf", f"{MODELS}:eager", "--html", "", "--json", tmp_path / "p.json", folder=tmp_path)
    document = json.loads((tmp_path / "p.json").read_text())
    processors = int(subprocess.check_output([sys.executable, "-c", PROCESSORS], text=True))
    assert document["jobs"] == (int(asked) if asked else processors)
    several = document["jobs"] > 1
    assert document["mode"] == ("verify" if several else "rtl") and document["problems"] == []
