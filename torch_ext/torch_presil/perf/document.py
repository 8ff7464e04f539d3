# SPDX-License-Identifier: Apache-2.0
"""From the reports of launches and the operators of a forward to the document that page, table, pictures and
comparison show: plain dicts, for json.dumps. Knows no chip: engines, causes and counters have the names of
torch.presil.chip_names(); what a chip doesn't tell is absent or null.
"""

import math

from torch_presil.estimates import marks
from torch_presil.perf import from_plans, proxies

__all__ = ["FORM", "build", "layers", "roof", "totals", "tree", "traffic"]

FORM = 1  # of the document; another number is another meaning

ENERGY = ("products", "memory", "dram")  # picojoule, of proxies.py
SUMS = ("macs", "cycles", "read_bytes", "write_bytes", "beats", "commands", "fill_drain")


def short(operator: str) -> str:
    """'aten.matmul.default' -> 'matmul'."""
    return operator.removeprefix("aten.").removesuffix(".default")


def launch_row(report: dict, number: int, start: int, names: dict) -> dict:
    """A launch as the document has it. `least`: cycles in which the array could do its products."""
    peak = report["peak_macs_per_cycle"] / max(report["passes"], 1)
    return {
        "launch": number,
        "label": report["label"],
        "start": start,
        "cycles": report["cycles"],
        **marks([report]),
        "macs": report["macs"],
        "peak": peak,
        "passes": max(report["passes"], 1),
        "read_bytes": report["read_bytes"],
        "write_bytes": report["write_bytes"],
        "beats": report["read_beats"] + report["write_beats"],
        "commands": report.get(names.get("commands"), 0),
        "fill_drain": report["fill"] + report["drain"],
        "stalls": {engine: {c: n for c, n in causes.items() if n} for engine, causes in report["stalls"].items()},
        "counters": report["counters"],
        "verified": report["verified"],
        **from_plans.of_launch(report),
    }


def bus_width(reports: list, memory_model: dict) -> dict | None:
    """What chip and memory can move in a cycle: whole beats of the bus, reads and writes together, as the memory model
    gives them (its `bytes`: one beat by default; 0: one each way). A beat is as wide as the fullest on average,
    of one direction in one launch, up to a power of two. None: the chip counts no beats."""
    means = [r[f"{way}_bytes"] / r[f"{way}_beats"] for r in reports for way in ("read", "write") if r[f"{way}_beats"]]
    if not means:
        return None
    beat = 1 << max(0, (math.ceil(max(means)) - 1).bit_length())
    limit = memory_model.get("bytes", beat)
    width = min(limit or 2 * beat, 2 * beat)
    source = (
        f"beats of {beat} bytes, one a cycle, reads and writes together" if width == beat
        else f"beats of {beat} bytes, a read and a write in one cycle" if width == 2 * beat
        else f"the memory model moves {width} bytes a cycle, in beats of {beat}"
    )  # fmt: skip
    return {"bytes_per_cycle": width, "beat_bytes": beat, "source": source}


def array_of(names: dict) -> str | None:
    return next((engine["name"] for engine in names["engines"] if engine.get("array")), None)


def bound_of(stalls: dict, names: dict) -> str | None:
    """What the array does most of the time, in the chip's word for what bounds a launch. None: it names no array."""
    cycles = stalls.get(array_of(names))
    if not cycles:
        return None
    causes = {cause["name"]: cause for cause in names["causes"]}
    most = max(cycles, key=lambda c: (cycles[c], bool(causes[c].get("works"))))
    return causes[most].get("bound", "overhead")


def _add_stalls(into: dict, stalls: dict) -> None:
    for engine, causes in stalls.items():
        row = into.setdefault(engine, {})
        for cause, cycles in causes.items():
            row[cause] = row.get(cause, 0) + cycles


def merged(launches: list, names: dict, bus: dict | None) -> dict:
    """Launches as one: sums, and what follows from them."""
    out = {key: sum(launch[key] for launch in launches) for key in SUMS}
    out |= marks(launches)
    out["stalls"] = {}
    for launch in launches:
        _add_stalls(out["stalls"], launch["stalls"])
    could = sum(launch["cycles"] * launch["peak"] for launch in launches)
    width = bus and bus["bytes_per_cycle"]
    moved = out["read_bytes"] + out["write_bytes"]
    array = sum(launch["macs"] / launch["peak"] for launch in launches if launch["peak"])
    out["utilization"] = out["macs"] / could if could else None
    taken = out["beats"] * bus["beat_bytes"] if bus else 0  # a beat that is partly used takes as long as a whole one
    known = width and out["cycles"] and out.get("beats_known", True)
    out["bus_share"] = taken / (out["cycles"] * width) if known else None
    out["bound"] = bound_of(out["stalls"], names)
    out |= from_plans.merged(launches)
    spent = [launch["energy"] for launch in launches]
    out["energy"] = {part: sum(e[part] for e in spent) for part in ENERGY} if None not in spent else None
    # The roofline: products at the array's peak, bytes at the bus's; the launch can't be shorter than either.
    out["array_cycles"], out["bus_cycles"] = array, moved / width if width else None
    out["roof_cycles"] = sum(
        max(launch["macs"] / launch["peak"] if launch["peak"] else 0,
            (launch["read_bytes"] + launch["write_bytes"]) / width if width else 0) for launch in launches
    )  # fmt: skip
    return out


def layers(events: list, launches: list, names: dict, bus: dict | None) -> list:
    """One row for each place of the model that launched something, in order: (module, operator, line)."""
    groups = {}
    for launch in launches:
        event = events[launch["event"]] if launch["event"] is not None else None
        key = (
            (event["layer"] or event["module"], "" if event["layer"] else event["operator"], event["line"])
            if event
            else (launch["label"], "", None)
        )
        groups.setdefault(key, []).append(launch)
    rows = []
    for (module, operator, line), own in groups.items():
        held = {"weights": 0, "inputs": 0, "results": 0}
        for number in {launch["event"] for launch in own if launch["event"] is not None}:
            for kind in held:
                held[kind] += events[number][kind]
        rows.append({"name": f"{module} {short(operator)}".strip() or "model", "module": module,
                     "operator": operator or None,
                     "line": line, "launches": len(own), "numbers": [launch["launch"] for launch in own],
                     **merged(own, names, bus), "tensors": held})  # fmt: skip
    return rows


def traffic(row: dict) -> dict:
    """DRAM bytes of a layer beside what its tensors hold. `again`: read beyond that (tiles that overlap or come
    back, commands, padding); `unread`: held, not read (a stride that skips); likewise for what is written."""
    held = row["tensors"]
    needed = held["weights"] + held["inputs"]
    read, written = row["read_bytes"], row["write_bytes"]
    return {
        "weights": held["weights"], "activations": held["inputs"], "results": held["results"],
        "again": max(0, read - needed), "unread": max(0, needed - read),
        "written_again": max(0, written - held["results"]), "unwritten": max(0, held["results"] - written),
    }  # fmt: skip


def host_rows(events: list, bus: dict | None, extra: dict) -> list:
    """What the CPU computed, copied or converted, each with the bytes that must move and the cycles that they take
    at least. extra: moves outside of the model: its inputs and results."""
    width = bus and bus["bytes_per_cycle"]
    rows = []
    for number, event in enumerate(events):
        calls = sum(h["calls"] for h in event["host"].values())
        moved = sum(m["bytes"] for m in event["moves"].values())
        held = event["weights"] + event["inputs"] + event["results"] if calls else 0
        if not calls and not moved:
            continue
        reasons = sorted({h["reason"] for h in event["host"].values()}) or sorted(event["moves"])
        seconds = sum(x["seconds"] for x in [*event["host"].values(), *event["moves"].values()])
        rows.append({"event": number, "name": short(event["operator"]), "module": event["module"],
                     "line": event["line"],
                     "why": "; ".join(reasons), "bytes": max(held, moved), "seconds": seconds})  # fmt: skip
    for kind, move in extra.items():
        rows.append({"event": None, "name": kind, "module": "", "line": None, "why": "the model's inputs and results",
                     "bytes": move["bytes"], "seconds": move["seconds"]})  # fmt: skip
    for row in rows:
        row["least_cycles"] = -(-row["bytes"] // width) if width else None
    return rows


def place(launches: list, host: list) -> int:
    """Sets `at` of launches and host rows, in cycles, as if the host took the least that it could; the end. Within an
    operator the chip comes first: which of both began, nobody notes."""
    own, works = {}, {}
    for rows, by in ((launches, own), (host, works)):
        for row in rows:
            by.setdefault(-1 if row["event"] is None else row["event"], []).append(row)
    now, outside = 0, works.pop(-1, [])
    for number in sorted({*own, *works}):
        for row in (*own.get(number, []), *works.get(number, [])):
            row["at"] = now
            now += row.get("cycles", row.get("least_cycles")) or 0
    for row in outside:  # inputs and results: nobody notes when
        row["at"] = None
    return now


def tree(rows: list) -> list:
    """The module tree with sums: {"name", "path", "depth", "cycles", "macs", "read_bytes", "write_bytes", "launches"}
    in the model's order, parents before children."""
    nodes = {}
    for row in rows:
        parts = row["module"].split(".") if row["module"] else []
        for depth in range(len(parts) + 1):
            path = ".".join(parts[:depth])
            node = nodes.setdefault(path, {"path": path, "depth": depth, "could": 0.0,
                                           **dict.fromkeys(("cycles", "macs", "read_bytes", "write_bytes", "launches"),
                                                           0)})  # fmt: skip
            node |= marks([node, row])
            for key in ("cycles", "macs", "read_bytes", "write_bytes", "launches"):
                node[key] += row[key]
            node["could"] += row["macs"] / row["utilization"] if row["utilization"] else 0
    for node in nodes.values():
        could = node.pop("could")
        node["name"] = node["path"].rpartition(".")[2] or "model"
        node["utilization"] = node["macs"] / could if could else None
    children = {}
    for path in nodes:
        if path:
            children.setdefault(path.rpartition(".")[0], []).append(path)
    ordered, waiting = [], [""] if "" in nodes else []
    while waiting:
        path = waiting.pop()
        ordered.append(nodes[path])
        waiting.extend(reversed(children.get(path, [])))
    return ordered


def beyond(launches: list, bus: dict | None) -> list:
    """Launches that did more than the array or the bus can in their cycles, in words."""
    found = []
    for launch in launches:
        shares = {"the array's peak": launch["macs"] / launch["peak"] if launch["peak"] else 0}
        if bus and not launch.get("estimated"):  # an estimate may be shorter than its beats take
            shares["the bus"] = launch["beats"] * bus["beat_bytes"] / bus["bytes_per_cycle"]
        for what, least in shares.items():
            if launch["cycles"] and least > launch["cycles"]:
                found.append(
                    f"launch {launch['launch']} ({launch['label']}): {launch['cycles']:,} cycles are "
                    f"{100 * least / launch['cycles']:.1f} % of what {what} allows"
                )
    return found


def problems(launches: list, rows: list, total: dict, host: list, expected: list, bus: dict | None) -> list:
    """What doesn't add up, in words; nothing of it may be shown as if it did."""
    found = []
    for launch in launches:
        for engine, causes in launch["stalls"].items():
            if causes and sum(causes.values()) != launch["cycles"]:
                found.append(
                    f"launch {launch['launch']} ({launch['label']}): the causes of {engine} add up to "
                    f"{sum(causes.values()):,} cycles, the launch took {launch['cycles']:,}"
                )
        if launch["event"] is None:
            found.append(f"launch {launch['launch']} ({launch['label']}) belongs to no operator of the model")
        if launch["verified"] == 0:
            found.append(f"launch {launch['launch']} ({launch['label']}): RTL and twin differ")
    for key in ("cycles", "macs", "read_bytes", "write_bytes"):
        if (got := sum(row[key] for row in rows)) != (want := sum(launch[key] for launch in launches)):
            found.append(f"{key} of the layers add up to {got:,}, of the launches to {want:,}")
    seen = {row["module"] for row in rows}
    found += beyond(launches, bus) + from_plans.disagree(launches)
    missing = [name for name in expected if name not in seen]
    if missing:
        found.append(f"no launch of {len(missing)} of {len(expected)} layers: {', '.join(missing[:5])}")
    if not launches:
        why = "; ".join(dict.fromkeys(f"{row['name']}: {row['why']}" for row in host if row["event"] is not None))
        found.append(f"the model made no launch on the chip, all of it ran on the host ({why or 'it moved nothing'})")
    elif total["cycles"] == 0:
        found.append("no launch took a cycle: the chip has no clock here")
    return found


def totals(launches: list, host: list, names: dict, bus: dict | None, clock: dict | None, batch: int) -> dict:
    """Of the forward. Launches run one after the other; between them the host works, in no simulated time: what it
    must move at least, at the speed of the chip's bus, is the lower bound of that."""
    out = {"launches": len(launches), **merged(launches, names, bus)}
    known = all(row["least_cycles"] is not None for row in host)
    out["host_bytes"] = sum(row["bytes"] for row in host)
    out["host_least_cycles"] = sum(row["least_cycles"] for row in host) if known else None
    hertz = clock and clock["mhz"] * 1e6
    rate = lambda cycles: batch * hertz / cycles if hertz and cycles else None
    out["seconds"] = out["cycles"] / hertz if hertz else None
    out["images_per_second"] = rate(out["cycles"])
    out["images_per_second_with_host"] = rate(out["cycles"] + out["host_least_cycles"]) if known else None
    return out


def roof(launches: list, bus: dict | None) -> dict:
    """Of the roofline: the array's peaks in MACs a cycle, and the bus."""
    return {"peaks": sorted({x["peak"] for x in launches if x["peak"]}), "bus": bus and bus["bytes_per_cycle"]}


def build(facts: dict, reports: list, events: list, expected: list, extra: dict) -> dict:
    """The document. facts: model, chip, dtype, mode, batch, names, properties, clock, memory_model (dict) and more,
    kept as they are; events: record.Event as dicts; expected: names of layers that must launch; extra: host moves
    outside of the model."""
    names = facts["names"]
    bus = facts.get("bus") or bus_width(reports, facts["memory"])
    launches, start = [], 0
    for number, report in enumerate(reports):
        row = launch_row(report, number, start, names)
        told = row.get("beats_known", True)  # of an estimate only where its chip says them
        row["energy"] = proxies.energy(row, facts["dtype"], bus and bus["beat_bytes"]) if told else None
        row["event"] = report["site"] - 1 if 0 < report["site"] <= len(events) else None
        launches.append(row)
        start += row["cycles"]
    rows, host = layers(events, launches, names, bus), host_rows(events, bus, extra)
    for row in rows:
        row["traffic"] = traffic(row)
    total = totals(launches, host, names, bus, facts["clock"], facts["batch"])
    total["end"] = place(launches, host)
    return {
        "perf": FORM,
        **facts,
        "bus": bus,
        "roof": roof(launches, bus),
        "area": proxies.area_of(facts["properties"]),
        "proxies": proxies.constants(),
        "total": total,
        "layers": rows,
        "tree": tree(rows),
        "host": host,
        "launches": launches,
        "problems": problems(launches, rows, total, host, expected, bus),
    }
