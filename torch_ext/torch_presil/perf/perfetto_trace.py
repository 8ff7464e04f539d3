# SPDX-License-Identifier: Apache-2.0
"""A document as a trace in Perfetto's protobuf form (ui.perfetto.dev opens it): launches and the host's least as
slices, engines, bus, memories and bytes as counters with units.

Time is simulated: a cycle is one of the document's clock, or a nanosecond where there is none.
"""

from pathlib import Path

from torch_presil.estimates import MARKS, cycles_text
from torch_presil.perf import from_plans

__all__ = ["write"]

SEQUENCE = 1  # of packets: there is one writer
PROCESS = 1  # track ids count from here


class _Trace:
    """Packets of one process with tracks below it."""

    def __init__(self, name: str, picoseconds: float):
        from perfetto.protos.perfetto.trace import perfetto_trace_pb2
        from perfetto.trace_builder.proto_builder import TraceProtoBuilder

        self.proto, self.builder, self.picoseconds = perfetto_trace_pb2, TraceProtoBuilder(), picoseconds
        self.tracks, self.events = PROCESS, []
        track = self.builder.add_packet().track_descriptor
        track.uuid, track.process.pid, track.process.process_name = PROCESS, PROCESS, name
        track.child_ordering = self.proto.TrackDescriptor.ChildTracksOrdering.EXPLICIT

    def track(self, name: str, unit: str | None = None) -> int:
        """unit: of a counter; "bytes" is one that Perfetto knows."""
        self.tracks += 1
        track = self.builder.add_packet().track_descriptor
        track.uuid, track.parent_uuid, track.name = self.tracks, PROCESS, name
        track.sibling_order_rank = self.tracks
        if unit == "bytes":
            track.counter.unit = self.proto.CounterDescriptor.Unit.UNIT_SIZE_BYTES
        elif unit:
            track.counter.unit_name = unit
        return self.tracks

    def _event(self, track: int, cycle: float, kind: str):
        """Ends come before what begins at the same time."""
        packet = self.proto.TracePacket()
        packet.timestamp = round(cycle * self.picoseconds / 1000)
        packet.trusted_packet_sequence_id = SEQUENCE
        event = packet.track_event
        event.track_uuid, event.type = track, getattr(self.proto.TrackEvent, f"TYPE_{kind}")
        self.events.append((packet.timestamp, kind != "SLICE_END", len(self.events), packet))
        return event

    def slice(self, track: int, name: str, begin: int, end: int, notes: dict) -> None:
        event = self._event(track, begin, "SLICE_BEGIN")
        event.name = name
        for key, value in notes.items():
            self._note(event.debug_annotations.add(), key, value)
        self._event(track, end, "SLICE_END")

    def _note(self, into, key: str, value) -> None:
        into.name = key
        if isinstance(value, dict):
            for inner, what in value.items():
                self._note(into.dict_entries.add(), inner, what)
        elif isinstance(value, bool):
            into.bool_value = value
        elif isinstance(value, int):
            into.int_value = value
        elif isinstance(value, float):
            into.double_value = value
        else:
            into.string_value = str(value)

    def count(self, track: int, cycle: int, value: float) -> None:
        self._event(track, cycle, "COUNTER").double_counter_value = value

    def bytes(self) -> bytes:
        for *_, packet in sorted(self.events, key=lambda e: e[:3]):
            self.builder.add_packet().CopyFrom(packet)
        return self.builder.serialize()


def _launches(trace: _Trace, document: dict) -> None:
    lines = {number: row["line"] for row in document["layers"] for number in row["numbers"]}
    track = trace.track("launches")
    for x in document["launches"]:
        notes = {key: x[key] for key in ("launch", "cycles", "macs", "read_bytes", "write_bytes", "stalls")}
        notes |= {key: x[key] for key in MARKS if key in x}
        notes |= {"counters": x["counters"]} if x["counters"] else {}
        by_tensor = {row["name"]: {k: row[k] for k in from_plans.BYTES if row[k]} for row in x["traffic"] or ()}
        notes |= {"by_tensor": by_tensor} if by_tensor else {}
        notes |= {"line": lines[x["launch"]]} if lines.get(x["launch"]) else {}
        trace.slice(
            track,
            x["label"] + (f": {cycles_text(x)}" if "estimated" in x else ""),
            x["at"],
            x["at"] + x["cycles"],
            notes,
        )


def _counter(trace: _Trace, document: dict, name: str, unit: str, value) -> None:
    """One value for each launch; 0 where no launch runs."""
    track, end = trace.track(name, unit), 0
    for x in document["launches"]:
        if not x["cycles"]:
            continue
        if x["at"] > end:
            trace.count(track, end, 0)
        trace.count(track, x["at"], value(x))
        end = x["at"] + x["cycles"]
    trace.count(track, end, 0)


def write(document: dict, path: Path) -> None:
    names, clock = document["names"], document["clock"]
    works = {c["name"] for c in names["causes"] if c.get("works")}
    what = f"{document['model']} {document['dtype']} on {document['chip']}" + ("" if clock else " (1 ns is a cycle)")
    trace = _Trace(what, 1e6 / clock["mhz"] if clock else 1000)
    _launches(trace, document)
    marked = " (with estimates)" if document["total"].get("estimated") else ""
    for engine in (e["name"] for e in names["engines"]):
        if any(document["total"]["stalls"].get(engine, {}).get(c) for c in works):
            busy = lambda x, e=engine: sum(n for c, n in x["stalls"].get(e, {}).items() if c in works)
            _counter(trace, document, f"{engine} works{marked}", "%", lambda x, b=busy: 100 * b(x) / x["cycles"])
    for kind in ("read", "write"):
        _counter(trace, document, f"memory {kind}", "B/cycle", lambda x, k=kind: x[f"{k}_bytes"] / x["cycles"])
    for name in (memory["name"] for memory in document["total"]["memories"] or ()):
        for key in ("peak", "mean"):
            held = lambda x, n=name, k=key: next((m[k] for m in x["memories"] or () if m["name"] == n), 0)
            _counter(trace, document, f"{name} in use, {key} of a launch", "bytes", held)
    moved, total = trace.track("memory traffic so far", "bytes"), 0
    for x in document["launches"]:
        total += x["read_bytes"] + x["write_bytes"]
        trace.count(moved, x["at"] + x["cycles"], total)
    host = [row for row in document["host"] if row["at"] is not None and row["least_cycles"]]
    if host:
        track = trace.track("host, the least that its bytes take on the bus")
        for row in host:
            notes = {key: row[key] for key in ("module", "line", "why", "bytes", "seconds") if row[key] is not None}
            trace.slice(track, row["name"], row["at"], row["at"] + row["least_cycles"], notes)
    path.write_bytes(trace.bytes())
