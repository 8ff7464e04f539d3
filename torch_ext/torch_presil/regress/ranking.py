# SPDX-License-Identifier: Apache-2.0
"""Seeds of a run ranked by the coverage that they add: the first is the one that reaches most, each next one the one
that adds most to those before it. A seed is that of one case, with all that it reaches on every chip and build."""

import heapq
import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from .coverage import KINDS, Reader, files
from .exit_codes import UsageError
from .records import Run, write_whole

FILE = "ranking.json"
NEEDS = (
    "--rank-seeds: no case of {name} left coverage; run it with --coverage, such as "
    "presil regress SUITE --coverage --seeds 10 --rank-seeds"
)


@dataclass
class Seed:
    """What one seed of a case reaches; adds: items by kind that none before it reached ("cover": one an instance)."""

    case: str
    seed: int
    seconds: float = 0.0
    items: set = field(default_factory=set)
    adds: dict = field(default_factory=dict)
    reached: int = 0  # with all before it

    def as_dict(self) -> dict:
        own = {"case": self.case, "seed": self.seed, "seconds": round(self.seconds, 3), "items": len(self.items)}
        return {**own, "adds": self.adds, "added": sum(self.adds.values()), "reached": self.reached}


def seeds_of(run: Run, records: list[dict]) -> tuple[list[Seed], set]:
    """(seeds with coverage, all items that there are). Raises UsageError for a file that can't be read, since a rank
    without it would be a wrong one."""
    found, everything, reader = {}, set(), Reader()
    for record in records:
        some = files(run.path / Path(record["log"]).parent)
        if not some:
            continue
        seed = found.setdefault((record["name"], record["seed"]), Seed(record["name"], record["seed"]))
        seed.seconds += record["seconds"]
        for path in some:
            file = reader.read(path)
            seed.items |= file.items
            everything |= file.points.all
    return list(found.values()), everything


def ranked(seeds: list[Seed]) -> list[Seed]:
    """Greedily; of equals the quicker one, then by name and seed. A seed's gain never grows, so that one whose gain is
    still the largest after it was counted anew is the next."""
    reached, out = set(), []
    heap = [(-len(s.items), s.seconds, s.case, s.seed, n) for n, s in enumerate(seeds)]
    heapq.heapify(heap)
    while heap:
        _, *rest, n = heapq.heappop(heap)
        now = (-len(seeds[n].items - reached), *rest, n)
        if heap and now > heap[0]:
            heapq.heappush(heap, now)
            continue
        counts = Counter(item[0] for item in seeds[n].items - reached)
        reached |= seeds[n].items
        seeds[n].adds = {kind: counts[kind] for kind in KINDS if counts[kind]}
        seeds[n].reached = len(reached)
        out.append(seeds[n])
    return out


def worth(order: list[Seed]) -> dict:
    """{case: its seeds that add something, in order}, of the cases that have been run with several."""
    several = {case for case, count in Counter(s.case for s in order).items() if count > 1}
    return {case: [s.seed for s in order if s.case == case and s.adds] for case in sorted(several)}


def of_run(run: Run, records: list[dict], console: Console) -> dict:
    """Shown, and written to the run's folder."""
    seeds, everything = seeds_of(run, records)
    if not seeds:
        raise UsageError(NEEDS.format(name=run.name))
    order = ranked(seeds)
    value = {"total": len(everything), "seeds": [s.as_dict() for s in order], "worth": worth(order)}
    write_whole(run.path / FILE, json.dumps(value, indent=1) + "\n")
    show(console, order, len(everything), value["worth"])
    return value


def show(console: Console, order: list[Seed], total: int, kept: dict) -> None:
    table = Table(title="Seeds by the coverage that they add", title_justify="left")
    for name in ("case", "seed", "adds", *KINDS, "reached", "seconds"):
        table.add_column(name, justify="left" if name == "case" else "right", no_wrap=name != "case")
    some = [s for s in order if s.adds]
    for s in some:
        counts = [str(s.adds.get(kind, "")) for kind in KINDS]
        share = f"{100 * s.reached / total:.1f} %"
        table.add_row(Text(s.case), str(s.seed), str(sum(s.adds.values())), *counts, share, f"{s.seconds:.1f}")
    console.print(table)
    console.print(f"{len(order) - len(some)} of {len(order)} seeds add nothing", highlight=False)
    for case, seeds in kept.items():
        console.print(f"{case}: seeds = {seeds}", highlight=False, soft_wrap=True, markup=False)
