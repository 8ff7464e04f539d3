# SPDX-License-Identifier: Apache-2.0
"""The trace for Perfetto: read back, its slices and counters are the document's."""

import pytest
from perf import paper
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as proto
from torch_presil.perf import perfetto_trace

NS = 2  # a cycle at 500 MHz


@pytest.fixture
def read(tmp_path):
    """(packets of events, track id -> descriptor) of a document's trace."""

    def read(document):
        perfetto_trace.write(document, tmp_path / "t.pftrace")
        trace = proto.Trace.FromString((tmp_path / "t.pftrace").read_bytes())
        tracks = {p.track_descriptor.uuid: p.track_descriptor for p in trace.packet if p.HasField("track_descriptor")}
        return [p for p in trace.packet if p.HasField("track_event")], tracks

    return read


def slices(events, track: int) -> list:
    """[(name, begin, end)]; they nest in nothing."""
    out, begun = [], None
    for p in events:
        if p.track_event.track_uuid != track:
            continue
        if p.track_event.type == proto.TrackEvent.TYPE_SLICE_BEGIN:
            assert begun is None
            begun = (p.track_event.name, p.timestamp)
        else:
            out.append((*begun, p.timestamp))
            begun = None
    assert begun is None
    return out


def named(tracks: dict) -> dict:
    return {t.name: n for n, t in tracks.items() if t.name}


def test_slices_are_launches_and_the_host(read):
    document = paper.made()
    events, tracks = read(document)
    assert [p.timestamp for p in events] == sorted(p.timestamp for p in events)
    found = slices(events, named(tracks)["launches"])
    assert found == [(x["label"], NS * x["at"], NS * (x["at"] + x["cycles"])) for x in document["launches"]]
    assert found[0][1:] == (0, 2000) and found[1][1] == 2000 + NS * 42, "the pooling stands between"
    host = next(n for name, n in named(tracks).items() if name.startswith("host"))
    assert slices(events, host) == [("max_pool2d", 2000, 2000 + NS * 42)]
    first = next(p.track_event for p in events if p.track_event.name == "stem")
    notes = {a.name: a for a in first.debug_annotations}
    assert notes["cycles"].int_value == 1000 and notes["line"].string_value.endswith("net.py:4")
    grid = next(e for e in notes["stalls"].dict_entries if e.name == "grid")
    assert {c.name: c.int_value for c in grid.dict_entries} == {"at_work": 500, "starved": 500}


def test_counters_have_units_and_add_up(read):
    document = paper.made()
    events, tracks = read(document)
    ids = named(tracks)
    units = {name: tracks[n].counter.unit_name for name, n in ids.items() if tracks[n].HasField("counter")}
    assert units == {"fetch works": "%", "grid works": "%", "memory read": "B/cycle", "memory write": "B/cycle",
                     "memory traffic so far": ""}  # fmt: skip
    assert tracks[ids["memory traffic so far"]].counter.unit == proto.CounterDescriptor.UNIT_SIZE_BYTES
    for kind in ("read", "write"):
        told = [p for p in events if p.track_event.track_uuid == ids[f"memory {kind}"]]
        moved = sum(
            a.track_event.double_counter_value * (b.timestamp - a.timestamp) / NS for a, b in zip(told, told[1:])
        )
        assert moved == pytest.approx(document["total"][f"{kind}_bytes"])
        assert told[-1].track_event.double_counter_value == 0
    last = [p for p in events if p.track_event.track_uuid == ids["memory traffic so far"]][-1]
    total = document["total"]
    assert last.track_event.double_counter_value == total["read_bytes"] + total["write_bytes"]


def test_without_a_clock_a_cycle_is_a_nanosecond(read):
    events, tracks = read(paper.made(clock=None))
    assert slices(events, named(tracks)["launches"])[0][1:] == (0, 1000)
    assert any("1 ns is a cycle" in t.process.process_name for t in tracks.values())
