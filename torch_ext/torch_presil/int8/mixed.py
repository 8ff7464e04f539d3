# SPDX-License-Identifier: Apache-2.0
"""The trade between accuracy and cycles: the layers that cost most in bf16, the others in int8."""

import re

from torch_presil.inputs import ModelError

__all__ = ["counts", "mark_front", "trade"]


def counts(text: str) -> list:
    """'3' -> [3], '0:8' -> [0, 1, …, 8], '0:50:10' -> [0, 10, …, 50], '0,2,5' -> [0, 2, 5]. ModelError."""
    found = []
    for part in text.split(","):
        if not re.fullmatch(r"\d+(:\d+(:\d+)?)?", part.strip()):
            raise ModelError(f"--mixed {text!r}: expected numbers of layers, such as 3, 0:8, 0:50:10 or 0,2,5")
        first, *more = (int(n) for n in part.split(":"))
        last, step = more[0] if more else first, more[1] if len(more) > 1 else 1
        if last < first or step < 1:
            raise ModelError(f"--mixed {text!r}: expected FROM:TO with FROM at most TO, and a step of at least 1")
        found += range(first, last + 1, step)
    return sorted(set(found))


def trade(wanted: list, ranked: list, build, judge, measure, tell=lambda *_: None) -> list:
    """One row for each number of layers in bf16. ranked: names, the worst first; build(names) -> model on the device;
    judge(model) -> noise.accuracy(); measure(model) -> {"cycles", "cycles_from", …}."""
    rows = []
    for number, count in enumerate(wanted):
        tell("mixed, point", number, len(wanted))
        model = build(ranked[:count])
        found = judge(model)
        rows.append({"bf16_layers": count, "kept": ranked[:count], **found, **measure(model)})
    mark_front(rows)
    return rows


def mark_front(rows: list) -> None:
    """Sets `front`: no other row has both fewer cycles and less noise (or one of them equal). None without cycles."""
    for row in rows:
        mine = row["cycles"], row["sqnr_db"]
        known = [(o["cycles"], o["sqnr_db"]) for o in rows if None not in (o["cycles"], o["sqnr_db"])]
        beaten = any(c <= mine[0] and s >= mine[1] and (c, s) != mine for c, s in known) if None not in mine else None
        row["front"] = None if beaten is None else not beaten
