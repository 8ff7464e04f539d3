# SPDX-License-Identifier: Apache-2.0
"""How reports say that cycles are estimates (docs/hybrid.md). A row of any report that has any says in `estimated` of
how many launches, in `cycles_error` how far off, relative; in `stalls_error` how far off the causes of stalls are, as a
part of the cycles (None: they are not estimated), in `bytes_known` and `beats_known` whether its bytes, and its beats,
are those of the commands."""

__all__ = ["HOW", "MARKS", "added", "bound_text", "bytes_text", "cycles_text", "marks", "said"]

HOW = ("simulate", "estimate")  # torch.backends.presil.unseen
MARKS = ("estimated", "cycles_error", "stalls_error", "bytes_known", "beats_known")
NOT = "not estimated"


def _part(rows: list, name: str) -> float:
    """Of an error of each row, weighed by cycles: errors add up, as if all of them were off to the same side."""
    cycles = sum(row["cycles"] or 0 for row in rows)
    off = sum((row["cycles"] or 0) * (row.get(name) or 0.0) for row in rows)
    return off / cycles if cycles else 0.0


def added(rows: list) -> tuple:
    """(launches that are estimated, relative error of all cycles together)"""
    return sum(int(row.get("estimated", 0)) for row in rows), _part(rows, "cycles_error")


def marks(rows: list) -> dict:
    """What a row that is made of these gets; nothing where all are exact."""
    count, error = added(rows)
    if not count:
        return {}
    own = [row for row in rows if row.get("estimated")]
    stalls = all(row.get("stalls_error") is not None for row in own)
    return {
        "estimated": count,
        "cycles_error": error,
        "stalls_error": _part(rows, "stalls_error") if stalls else None,
        "bytes_known": all(row.get("bytes_known") for row in own),
        "beats_known": all(row.get("beats_known") for row in own),
    }


def cycles_text(row: dict) -> str:
    if not row.get("estimated"):
        return f"{row['cycles']:,}"
    return f"estimate {row['cycles']:,} ± {100 * row['cycles_error']:.1f} %"


def bytes_text(row: dict, text: str) -> str:
    """`text`, of the row's bytes, if they are known."""
    return text if row.get("bytes_known", True) else NOT


def bound_text(row: dict) -> str:
    if not row.get("estimated"):
        return row["bound"] or ""
    return NOT if row["stalls_error"] is None else f"estimate {row['bound']}" if row["bound"] else ""


def said(total: dict) -> str:
    """What else is known of launches of which the cycles are estimates, in words."""
    stalls = (
        "their stalls and bounds are not estimated"
        if total["stalls_error"] is None
        else f"their stalls and bounds are estimates, too: a cause is off by at most "
        f"{100 * total['stalls_error']:.1f} % of the cycles in 95 of 100 launches"
    )
    moved = "bytes are exact, of the commands" if total["bytes_known"] else "bytes are not estimated"
    return f"{total['estimated']} of {total['launches']} launches are estimates; {stalls}; their {moved}"
