# SPDX-License-Identifier: Apache-2.0
"""How reports say that cycles are estimates (docs/hybrid.md). A row of any report has `estimated`, of how many
launches, and `cycles_error`, relative, if it has any."""

__all__ = ["HOW", "added", "cycles_text", "marks"]

HOW = ("simulate", "estimate")  # torch.backends.presil.unseen


def added(rows: list) -> tuple:
    """(launches that are estimated, relative error of all cycles together). Errors add up, as if all of them were off
    to the same side."""
    count = sum(int(row.get("estimated", 0)) for row in rows)
    cycles = sum(row["cycles"] or 0 for row in rows)
    off = sum((row["cycles"] or 0) * row.get("cycles_error", 0.0) for row in rows)
    return count, off / cycles if cycles else 0.0


def marks(rows: list) -> dict:
    """What a row that is made of these gets; nothing where all are exact."""
    count, error = added(rows)
    return {"estimated": count, "cycles_error": error} if count else {}


def cycles_text(row: dict) -> str:
    if not row.get("estimated"):
        return f"{row['cycles']:,}"
    return f"estimate {row['cycles']:,} ± {100 * row['cycles_error']:.1f} %"
