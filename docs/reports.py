# SPDX-License-Identifier: Apache-2.0
"""The reports of whole networks, by `./presil perf`: a page and a summary of each in docs/reports; docs/reports.md.

.venv/bin/python docs/reports.py [NAME ...]   simulates them again (all: about two minutes)
.venv/bin/python docs/reports.py --table      writes docs/reports.md from the summaries that are there
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER, TABLE = ROOT / "docs" / "reports", ROOT / "docs" / "reports.md"
MODELS = {
    "resnet50": ("ResNet-50", "torchvision.models:resnet50"),
    "mobilenet_v2": ("MobileNetV2", "torchvision.models:mobilenet_v2"),
    "bert_base": ("BERT-base, 128 tokens", "transformers:BertModel --input input_ids=1,128:int64:30522"),
}
CHIP = "base"
TOTAL = ("cycles", "launches", "macs", "utilization", "bus_share", "roof_cycles", "read_bytes", "write_bytes",
         "seconds", "images_per_second", "images_per_second_with_host", "host_bytes", "host_least_cycles",
         "energy")  # fmt: skip
LAYER = ("name", "cycles", "macs", "utilization", "bound", "read_bytes", "write_bytes")
LICENCE = "SPDX-License-Identifier: Apache-2.0. Written by docs/reports.py"
HEAD = """<!-- SPDX-License-Identifier: Apache-2.0 -->
# Where the cycles of three networks go

Each on the RTL of `base`, bf16, batch 1, random weights, the default memory model: 64 bytes a cycle, latency 100. A
page is what `./presil perf` writes ([perf.md](perf.md) says what its words mean): one file, to be opened in a browser.
The summary has the totals and the cycles of each layer.

"""
TAIL = """
"Least by roofline": cycles that no order of the same launches can go below, as products at the array's peak or bytes
at the bus's. "With the host": what ran on the host has its bytes ÷ bus as the least that it would cost.

`.venv/bin/python docs/reports.py` writes this page and those in it; `tests/perf/test_reports.py` simulates MobileNetV2
and a part of BERT again and compares, and holds ResNet-50 against the baseline of the regressions.
"""


def command(name: str, *more) -> list:
    return [sys.executable, "-m", "torch_presil.cli", "perf", *MODELS[name][1].split(), f"--chip={CHIP}", *more]


def summary(document: dict) -> dict:
    kept = {key: document[key] for key in ("perf", "model", "chip", "dtype", "batch", "input", "bus", "memory")}
    layers = [{key: row[key] for key in LAYER} for row in document["layers"]]
    return {"_": LICENCE, **kept, "total": {key: document["total"][key] for key in TOTAL}, "layers": layers}


def make(name: str) -> None:
    """As on a machine of any speed, in any folder: what is of this run is taken out."""
    from torch_presil.perf import page

    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "report.json"
        subprocess.run(command(name, "--html", "", "--json", str(file)), check=True, cwd=ROOT)
        document = json.loads(file.read_text())
    (FOLDER / f"{name}.json").write_text(json.dumps(summary(document), indent=1) + "\n")
    (FOLDER / f"{name}.html").write_text(page.render(without_this_machine(document)))


def without_this_machine(document: dict) -> dict:
    document = {**document, "libraries": {}, "wall_seconds": 0.0, "sim_seconds": 0.0, "jobs": 1, "mode": "rtl"}
    document["launches"] = [{**row, "verified": -1} for row in document["launches"]]
    place = lambda line: line and line.rpartition("site-packages/")[2].removeprefix(f"{ROOT}/")
    for part in ("layers", "host"):
        document[part] = [{**row, "line": place(row["line"])} for row in document[part]]
    document["host"] = [{**row, "seconds": 0.0} for row in document["host"]]
    return document


def table() -> str:
    rows = ["| network | page | summary | cycles | at the clock | use of the array | least by roofline "
            "| memory traffic | a second | with the host |", "|---|---|---|---|---|---|---|---|---|---|"]  # fmt: skip
    for name, (title, _) in MODELS.items():
        total = json.loads((FOLDER / f"{name}.json").read_text())["total"]
        rows.append(
            f"| {title} | [page](reports/{name}.html) | [JSON](reports/{name}.json) | {total['cycles']:,} "
            f"| {1e3 * total['seconds']:.2f} ms | {100 * total['utilization']:.1f} % "
            f"| {100 * total['roof_cycles'] / total['cycles']:.1f} % "
            f"| {(total['read_bytes'] + total['write_bytes']) / 1e6:.1f} MB | {total['images_per_second']:,.0f} "
            f"| ≤ {total['images_per_second_with_host']:,.0f} |"
        )
    return HEAD + "\n".join(rows) + "\n" + TAIL


def main() -> None:
    names = sys.argv[1:] or list(MODELS)
    FOLDER.mkdir(exist_ok=True)
    for name in names if names != ["--table"] else []:
        if name not in MODELS:
            raise SystemExit(f"{name}: one of {', '.join(MODELS)} or --table expected")
        make(name)
    TABLE.write_text(table())


if __name__ == "__main__":
    main()
