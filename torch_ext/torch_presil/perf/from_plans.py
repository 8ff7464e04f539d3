# SPDX-License-Identifier: Apache-2.0
"""What launches move, by tensor, and hold in the chip's own memories, as their plans say: reports of
torch.presil.reports(usage=True) have "traffic" and "memories" where the chip tells. What it doesn't tell is None."""

__all__ = ["ROLES", "disagree", "merged", "name_constants", "of_launch"]

# In the order in which they are shown.
ROLES = ("weights", "activations", "residual", "parameters", "results", "partial sums", "alignment", "commands",
         "other")  # fmt: skip
BYTES = ("read_bytes", "again_bytes", "write_bytes")


def name_constants(reports: list, constants: dict) -> None:
    """Operands that lie in a parameter or buffer of the model are weights (or, of one dimension, parameters), whatever
    the operator takes them as. constants: address -> (bytes, dimensions)."""
    for report in reports:
        for row in report.get("traffic", ()):
            at = row.pop("pointer", None)
            found = at is not None and next((c for first, c in constants.items() if first <= at < first + c[0]), None)
            if found and row["role"] in ("activations", "residual"):
                row["role"] = "weights" if found[1] > 1 else "parameters"


def of_launch(report: dict) -> dict:
    """As a launch has it in the document."""
    traffic, memories = report.get("traffic"), report.get("memories")
    rows = [{key: row[key] for key in ("name", "role", *BYTES, "apart")} for row in traffic or ()]
    rows.sort(key=lambda row: ROLES.index(row["role"]))
    return {"traffic": rows if traffic else None, "memories": memories or None}


def _sum_traffic(launches: list) -> list | None:
    """By role; the commands, which a chip may count apart, stay apart."""
    if not launches or any(launch["traffic"] is None for launch in launches):
        return None
    found = {}
    for row in (row for launch in launches for row in launch["traffic"]):
        into = found.setdefault(
            row["role"], {"role": row["role"], "names": [], **dict.fromkeys(BYTES, 0), "apart": False}
        )
        into["apart"] |= row["apart"]
        into["names"] += [row["name"]] if row["name"] not in into["names"] else []
        for key in BYTES:
            into[key] += row[key]
    return [found[role] for role in ROLES if role in found]


def _sum_memories(launches: list) -> list | None:
    """peak: the most of any launch; mean: of their means, each as long as it takes."""
    if not launches or any(launch["memories"] is None for launch in launches):
        return None
    found, cycles = {}, sum(launch["cycles"] for launch in launches)
    for launch in launches:
        weight = launch["cycles"] / cycles if cycles else 1 / len(launches)
        for memory in launch["memories"]:
            into = found.setdefault(memory["name"], {"name": memory["name"], "capacity": memory["capacity"], "peak": 0,
                                                     "reserved": None, "mean": 0.0})  # fmt: skip
            into["peak"] = max(into["peak"], memory["peak"])
            into["mean"] += weight * memory["mean"]
            if memory["reserved"]:
                into["reserved"] = max(into["reserved"] or 0, memory["reserved"])
    return list(found.values())


def merged(launches: list) -> dict:
    return {"by_tensor": _sum_traffic(launches), "memories": _sum_memories(launches)}


def disagree(launches: list) -> list:
    """Launches whose rows are not what the bus counted, in words."""
    found = []
    for launch in launches:
        for way in ("read", "write") if launch["traffic"] and launch["cycles"] else ():
            told = sum(row[f"{way}_bytes"] for row in launch["traffic"] if not row["apart"])
            if told != launch[f"{way}_bytes"]:
                found.append(
                    f"launch {launch['launch']} ({launch['label']}): by its plan its tensors {way} {told:,} bytes, "
                    f"the bus counted {launch[f'{way}_bytes']:,}"
                )
        for memory in launch["memories"] or ():
            if memory["peak"] > memory["capacity"]:
                found.append(
                    f"launch {launch['launch']} ({launch['label']}): {memory['peak']:,} bytes in use of the "
                    f"{memory['capacity']:,} of {memory['name']}"
                )
    return found
