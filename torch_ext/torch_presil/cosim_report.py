# SPDX-License-Identifier: Apache-2.0
"""The co-simulation's result for people: a table, and live progress while it runs."""

import threading
import time

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from torch_presil import _C
from torch_presil.device.progress import jobs_line
from torch_presil.estimates import bound_text, bytes_text, cycles_text, said
from torch_presil.int8.losses_report import print_losses

__all__ = ["print_result", "LiveProgress", "count"]


def count(value: float) -> str:
    """1234567 → '1.23 M'."""
    for limit, unit in ((1e9, " G"), (1e6, " M"), (1e4, " k")):
        if abs(value) >= limit:
            return f"{value / {' G': 1e9, ' M': 1e6, ' k': 1e3}[unit]:.3g}{unit}"
    return f"{value:,.0f}"


def _sizes(shapes) -> str:
    """'1×3×224×224', or 'input_ids 1×16, attention_mask 1×16'."""
    if isinstance(shapes, dict):
        return ", ".join(f"{name} {_sizes(sizes)}" for name, sizes in shapes.items())
    return "×".join(map(str, shapes))


def _exact(value) -> Text:
    if value is None:
        return Text("not compared", style="dim")
    return Text("yes", style="green") if value else Text("NO", style="bold red")


def print_result(result: dict, console: Console | None = None) -> None:
    """Table of layers, totals, what ran on the host and why, agreement with PyTorch."""
    console = console or Console(width=None)
    total, verify, clocked = result["total"], result["mode"] == "verify", result["total"].get("cycles") is not None
    table = Table(
        title=f"{result['model']} {_sizes(result['input'])} {result['dtype']} on {result['chip']}, "
        f"mode {result['mode']}",
        title_justify="left",
    )
    table.add_column("layer", overflow="fold")
    table.add_column("output", no_wrap=True)
    for name in ("MACs", "cycles", "use", "DRAM", "bound", "cosine"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("RTL = twin", no_wrap=True)
    for row in result["layers"]:
        if row["where"] == "chip":
            _add(table, row["name"], row, verify, clocked)
    table.add_section()
    _add(table, "total", total, verify, clocked)
    console.print(table)
    for row in result["layers"]:
        for text in row.get("differences", [])[:1]:
            console.print(f"[red]{row['name']}: {text}[/red]")
    host = [r for r in result["layers"] if r["where"] == "host"]
    if host:
        console.print(
            "On the host instead of the chip: "
            + "; ".join(f"{r['name'].replace('aten::', '')} ×{r['calls']} ({r['reason']})" for r in host)
        )
    if moves := result.get("host_moves"):
        console.print(
            "Moved by the host: "
            + "; ".join(f"{kind} ×{m['calls']} ({count(m['bytes'])}B)" for kind, m in moves.items())
        )
    _print_totals(result, console)
    if "int8" in result:
        print_losses(result["int8"], console)
    if result["batches"]:
        console.print(_batch_table(result))


def _batch_table(result: dict) -> Table:
    mhz = result["properties"].get("clock_mhz")
    table = Table(
        title="Latency and throughput in simulated time"
        + (f" at {mhz} MHz" if mhz else "")
        + ("" if result["mode"] != "model" else " (mode model has no clock)"),
        title_justify="left",
    )
    for name in ("batch", "latency, cycles", "latency, ms", "images/s", "use", "simulated in"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in result["batches"]:
        cycles = row["latency_cycles"]
        clocked = (
            [
                f"{cycles:,}",
                f"{cycles / mhz / 1e3:.2f}" if mhz else "-",
                f"{row['images_per_second_simulated']:,.1f}" if mhz else "-",
                f"{100 * row['utilization']:.1f} %",
                f"{row['sim_seconds']:.1f} s",
            ]
            if cycles
            else ["no clock", "", "", "", ""]
        )
        table.add_row(str(row["batch"]), *clocked)
    return table


def _add(table: Table, name: str, row: dict, verify: bool, clocked: bool) -> None:
    cosine = row.get("cosine")
    table.add_row(
        name,
        "×".join(map(str, row["shape"] or [])),
        count(row["macs"]),
        cycles_text(row) if clocked else "no clock",
        f"{100 * row['utilization']:.1f} %" if clocked else "",
        # 0: the chip doesn't count them
        bytes_text(row, count(row["dram_bytes"]) + "B" if clocked and row["dram_bytes"] else ""),
        bound_text(row),
        f"{cosine:.6f}" if cosine is not None else "constant" if "cosine" in row else "",
        _exact(row["bit_exact"]) if verify else Text(""),
    )


def _threads(result: dict) -> str:
    return f"{result['threads']} thread{'s' if result['threads'] != 1 else ''}"


def agreement_text(a: dict) -> str:
    """One line of what agreement() found."""
    if a["reference"] != "varied":
        what = "all zeros" if a["reference"] == "zeros" else "the same number everywhere"
        return (
            f"Agreement with PyTorch fp32: the reference is {what}, so there is no cosine and no top-1; "
            f"largest error {a['max_abs']:.4g}"
        )
    top1 = "" if a["top1"] is None else f", {'same' if a['top1'] else 'different'} top-1"
    if "outputs" in a:
        found = ", ".join(name or "result" for name in a["outputs"])
        return (
            f"Agreement with PyTorch fp32: least cosine {a['cosine']:.6f}, largest error {a['max_abs']:.4g} of {found}"
        )
    return f"Agreement with PyTorch fp32: cosine {a['cosine']:.6f}, largest error {a['max_abs']:.4g}{top1}" + (
        f" (emulated rounding: cosine {a['emulation_cosine']:.6f})" if a.get("emulation_cosine") is not None else ""
    )


def _at_clock(cycles: int, properties: dict) -> str:
    mhz = properties.get("clock_mhz")
    return f" ({cycles / mhz / 1e3:.2f} ms at {mhz} MHz)" if mhz else ""


def _of_jobs(total: dict) -> str:
    if total.get("jobs", 1) == 1:
        return ""
    return (
        f" of {total['jobs']} processes, {total['wall_seconds']:.2f} s of wall time, at most "
        f"{count(total['jobs_peak_bytes'])}B waiting"
    )


def _of_store(total: dict) -> str:
    """What ran on the RTL, and what was known; the sample can be had again by its seed."""
    known, estimated = total["store_hits"], total["estimated"]
    return (
        f"{cycles_text(total) if total['cycles'] else 0} cycles, of {known} of {total['launches']} launches from the "
        f"timing store; {f'{estimated} are estimates, ' if estimated else ''}"
        f"{total['launches'] - known - estimated} were simulated, and {total['sampled']} of the known ones again: the "
        f"same cycles (sample {_C.get_store_sample():.3g}, seed {_C.get_store_seed()})"
        + (f"\n{said(total)}" if estimated else "")
    )


def _print_totals(result: dict, console: Console) -> None:
    total, p = result["total"], result["properties"]
    hybrid = result["mode"] == "hybrid"  # most of its cycles took no time of the simulator
    if total["cycles"] and total["sim_seconds"] and not hybrid:
        khz = total["cycles"] / total["sim_seconds"] / 1e3
        console.print(
            f"Simulated {total['cycles']:,} cycles{_at_clock(total['cycles'], p)} in {total['sim_seconds']:.2f} s"
            f"{_of_jobs(total)}: {khz:,.0f} kHz, "
            f"{total['macs'] / total['sim_seconds'] / 1e9:.2f} GMAC/s; host {total['host_seconds']:.2f} s"
            + (f", twin {total['twin_seconds']:.2f} s on {_threads(result)}" if total["twin_seconds"] else "")
        )
    elif total["twin_seconds"]:
        console.print(
            f"Twin on {_threads(result)}: {total['twin_seconds']:.2f} s, "
            f"{total['macs'] / total['twin_seconds'] / 1e9:.2f} GMAC/s; host {total['host_seconds']:.2f} s"
        )
    if "cpu_seconds" in total:
        seconds = total["wall_seconds"] if hybrid else total["sim_seconds"] + total["host_seconds"]
        who = "this run" if hybrid else "RTL"
        console.print(
            f"PyTorch fp32 on one CPU thread: {1e3 * total['cpu_seconds']:.1f} ms"
            + (f"; {who} takes {seconds / total['cpu_seconds']:.1f} times as long" if total["cycles"] else "")
        )
    if "agreement" in total:
        console.print(agreement_text(total["agreement"]))
    if hybrid:
        console.print(_of_store(total))
    if result["mode"] == "verify":
        console.print(
            Text("RTL equals twin on every byte written", style="green")
            if total["bit_exact"]
            else Text("RTL and twin DIFFER", style="bold red")
        )


class LiveProgress:
    """`with LiveProgress(console) as p: options.progress = p.stage`: a line that says what runs: layer, cycles, kHz,
    time left."""

    def __init__(self, console: Console, macs: dict | None = None):
        self.console, self.macs = console, macs or {}
        self.text, self.started = "starting", time.perf_counter()
        self.stop = threading.Event()

    def stage(self, name: str, done: int = 0, of: int = 0) -> None:
        self.text = f"{name} {done + 1}/{of}" if of and "forward" not in name else name
        self.running = "forward" in name
        self.begun, self.seen, self.cycles, self.last = time.perf_counter(), {}, 0, ("", 0, 0)
        if not self.console.is_terminal and done == 0:
            self.console.print(f"  [{time.perf_counter() - self.started:6.1f} s] {self.text}", highlight=False)

    running = False

    def layers(self, macs: dict) -> None:
        """Layer -> MACs, in order: what the time left is estimated from."""
        self.macs = macs

    def line(self) -> Text:
        elapsed = time.perf_counter() - self.started
        text = f"[{elapsed:5.1f} s] {self.text}"
        if self.running and _C.jobs_stats(0)["waiting"]:
            text += f": {jobs_line(0)}"
        elif self.running:
            label, launch, cycles = _C.progress()
            if launch:
                self.seen[label] = True
                if launch != self.last[1]:
                    self.cycles += self.last[2]
                self.last = (label, launch, cycles)
                done = self.cycles + cycles
                spent = time.perf_counter() - self.begun
                left = ""
                if self.macs and label in self.macs:
                    order = list(self.macs)
                    before = sum(self.macs[n] for n in order[: order.index(label)])
                    whole = sum(self.macs.values())
                    if before:
                        left = f", {spent * (whole - before) / before:.0f} s left"
                text += f": {label}, {done:,} cycles, {done / max(spent, 1e-3) / 1e3:,.0f} kHz{left}"
        return Text(text)

    def __enter__(self):
        self.stage("starting")
        if self.console.is_terminal:
            self.live = Live(self.line(), console=self.console, refresh_per_second=10, transient=True)
            self.live.start()
            self.thread = threading.Thread(target=self._refresh, daemon=True)
            self.thread.start()
        return self

    def _refresh(self) -> None:
        while not self.stop.wait(0.1):
            self.live.update(self.line())

    def __exit__(self, *exc):
        self.stop.set()
        if self.console.is_terminal:
            self.thread.join()
            self.live.stop()
        return False
