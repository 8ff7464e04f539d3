# SPDX-License-Identifier: Apache-2.0
"""A document as tables: for the terminal, and as CSV."""

import csv
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from torch_presil.cosim_report import count
from torch_presil.estimates import MARKS, bound_text, bytes_text, cycles_text, said

__all__ = ["print_document", "write_csv"]


def _percent(value) -> str:
    return "" if value is None else f"{100 * value:.1f} %"


def _bytes(value) -> str:
    return count(value) + "B"


def _peak(row: dict, name: str) -> str:
    memory = next((m for m in row["memories"] or () if m["name"] == name), None)
    return _percent(memory["peak"] / memory["capacity"]) if memory and memory["capacity"] else ""


def _row(table: Table, name: str, row: dict, whole: int, memory: str | None) -> None:
    table.add_row(
        name,
        count(row["macs"]),
        cycles_text(row),
        _percent(row["cycles"] / whole if whole else None),
        _percent(row["utilization"]),
        _percent(row["roof_cycles"] / row["cycles"] if row["cycles"] and row["roof_cycles"] else None),
        *(bytes_text(row, _bytes(row[way])) for way in ("read_bytes", "write_bytes")),
        *([_peak(row, memory)] if memory else []),
        bound_text(row),
    )


def print_document(document: dict, console: Console) -> None:
    """Layers, totals, the host's part, what doesn't add up."""
    total, clock = document["total"], document["clock"]
    table = Table(
        title=f"{document['model']} {document['dtype']} on {document['chip']}, batch {document['batch']}, mode "
        f"{document['mode']}",
        title_justify="left",
    )
    table.add_column("layer", overflow="fold")
    memory = total["memories"][0]["name"] if total["memories"] else None
    plain = ("MACs", "cycles", "share", "use", "of roof", "read", "written")
    for name in (*plain, *([memory] if memory else []), "bound"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in document["layers"]:
        _row(table, row["name"], row, total["cycles"], memory)
    table.add_section()
    _row(table, "all", total, total["cycles"], memory)
    console.print(table)
    if clock and total["cycles"]:
        console.print(
            f"Latency {cycles_text(total)} cycles, {1e3 * total['seconds']:.3f} ms at {clock['mhz']} MHz "
            f"({clock['source']}): {total['images_per_second']:,.1f} a second if the host took no time",
            highlight=False,
        )
    if total.get("estimated"):
        without = "" if total["beats_known"] else "; there are no proxies of energy"
        console.print(f"{said(total)}{without}", highlight=False)
    if document["host"]:
        console.print(_host_line(total), highlight=False)
    if total["launches"] and total.get("beats_known", True):
        console.print(_proxy_line(document), highlight=False)
    for row in document["batches"][1:]:
        rate = f", {row['images_per_second']:,.1f} a second" if row["images_per_second"] else ""
        console.print(f"Batch {row['batch']}: {cycles_text(row)} cycles{rate}", highlight=False)
    for text in document["problems"]:
        console.print(Text.assemble(("doesn't add up:", "bold red"), f" {text}"))


def _host_line(total: dict) -> str:
    least = total["host_least_cycles"]
    text = f"The host moved {_bytes(total['host_bytes'])}"
    if least is None and total.get("estimated"):
        return text
    if least is None:
        return f"{text}; the chip tells no width of its bus, so there is no bound for what that would cost"
    rate = total["images_per_second_with_host"]
    return f"{text}: at least {least:,} cycles on the chip's bus" + (
        f", so at most {rate:,.1f} a second" if rate else ""
    )


def _proxy_line(document: dict) -> str:
    parts = document["total"]["energy"]
    whole = sum(parts.values())
    shares = ", ".join(f"{name} {100 * value / whole:.0f} %" for name, value in parts.items()) if whole else ""
    area = f"; area {count(document['area']['total'])} NAND2" if document["area"] else ""
    return f"As proxies (docs/perf.md): energy {whole * 1e-9:,.4f} mJ ({shares}){area}"


def _usage_columns(total: dict) -> dict:
    """Column -> function(layer): bytes by tensor, and of the chip's memories; none where the chip tells nothing."""
    found = {}
    for role in (row["role"] for row in total["by_tensor"] or ()):
        for key in ("read_bytes", "again_bytes", "write_bytes"):
            of = lambda layer, r=role, k=key: next((t[k] for t in layer["by_tensor"] or () if t["role"] == r), 0)
            found[f"{role.replace(' ', '_')}.{key}"] = of
    for name in (memory["name"] for memory in total["memories"] or ()):
        for key in ("peak", "mean", "capacity"):
            of = lambda layer, n=name, k=key: next((m[k] for m in layer["memories"] or () if m["name"] == n), "")
            found[f"{name}.{key}_bytes"] = of
    return found


def write_csv(document: dict, path: Path) -> None:
    """A line a layer, then a line for what the host did; one column for each cause of each engine."""
    names = document["names"]
    causes = [
        (e["name"], c["name"])
        for e in names["engines"]
        for c in names["causes"]
        if document["total"]["stalls"].get(e["name"], {}).get(c["name"])
    ]
    marked = list(MARKS) if document["total"].get("estimated") else []
    plain = ["name", "module", "operator", "line", "launches", "macs", "cycles", *marked, "utilization", "bound",
             "read_bytes", "write_bytes", "bus_share", "array_cycles", "bus_cycles", "roof_cycles"]  # fmt: skip
    held = ["weights", "inputs", "results"]
    energy, uses = list(document["total"]["energy"] or ()), _usage_columns(document["total"])
    with open(path, "w", newline="") as f:
        out = csv.writer(f)
        out.writerow(["where", *plain, *(f"{h}_bytes" for h in held), *(f"energy_{e}_pj" for e in energy),
                      "host_bytes", "host_least_cycles", *(f"{e}.{c}" for e, c in causes), *uses])  # fmt: skip
        for row in document["layers"]:
            stalls = [row["stalls"].get(e, {}).get(c, 0) for e, c in causes]
            unknown = {"read_bytes", "write_bytes"} if not row.get("bytes_known", True) else set()
            own = ["" if p in unknown else row.get(p, 0) if p in marked else row[p] for p in plain]
            out.writerow(["chip", *own, *(row["tensors"][h] for h in held),
                          *((row["energy"] or {}).get(e, "") for e in energy), "", "", *stalls,
                          *(of(row) for of in uses.values())])  # fmt: skip
        for row in document["host"]:
            own = [row.get(p, "") for p in plain]
            out.writerow(
                [
                    "host",
                    *own,
                    *[""] * (len(held) + len(energy)),
                    row["bytes"],
                    row["least_cycles"],
                    *([""] * (len(causes) + len(uses))),
                ]
            )
