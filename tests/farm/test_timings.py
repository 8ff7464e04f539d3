# SPDX-License-Identifier: Apache-2.0
"""presil regress --farm --mode hybrid: workers begin with the client's timing store, and what they measure comes back
into it. Other numbers, a torn file and another version are no silent loss."""

import sqlite3
import sys

import pytest

from torch_presil.regress import exit_codes
from torch_presil.regress.farm.client_store import ClientStore
from torch_presil.regress.farm.worker_store import WorkerStore
from torch_presil.regress.outcome import Ended

from .conftest import HERE

sys.path.insert(0, str(HERE.parent / "jobs"))
from timing_store import Store, rows  # noqa: E402

MODEL = HERE.parent / "regress" / "models.py"


NET = f'kind = "cosim"\nmodel = "{MODEL}:small_cnn"\nchips = ["tiny"]\nseeds = [7]\n'


@pytest.fixture
def chip(place, monkeypatch):
    """Suites of cases with the same launches."""
    place.store = place.folder.parent / "timings.sqlite"
    monkeypatch.setenv("PRESIL_STORE", str(place.store))
    monkeypatch.setenv("PRESIL_STORE_SAMPLE", "0")
    for suite, cases in {"three": "abc", "one": "a"}.items():
        (place.folder / f"{suite}.toml").write_text("".join(f"[case.{name}]\n{NET}" for name in cases))
    return place


@pytest.fixture(scope="module")
def kept() -> list:
    return []


@pytest.fixture
def filled(chip, kept):
    """Its store has the launches, measured here."""
    if not kept:
        assert chip.go("one", mode="hybrid", jobs=1) == exit_codes.PASS, chip.printed
        kept.append((chip.store.read_bytes(), chip.found()["a"]["launches"]))
    chip.store.write_bytes(kept[0][0])
    chip.launches = kept[0][1]
    return chip


def numbers(path) -> dict:
    return {bytes(row.key): bytes(row.timing) for row in rows(path)}


def told(place, name: str) -> list:
    return [record.get(name) for record in place.last.records()]


def falsify(path) -> None:
    with Store(path) as store:
        row = store.rows()[1]
        row.timing.cycles += 1
        store.put(row)


def test_workers_begin_with_the_clients_launches_and_tell_new_ones(filled, cluster):
    here = numbers(filled.store)
    filled.store.unlink()
    assert filled.go("three", mode="hybrid", farm=cluster.farm) == exit_codes.PASS, filled.printed
    assert told(filled, "store_hits").count(0) in (1, 2), "the first case of each worker"
    assert told(filled, "launches") == [filled.launches] * 3
    assert numbers(filled.store) == here and len(here) > 3
    before = cluster.served()
    assert filled.go("three", mode="hybrid", farm=cluster.farm) == exit_codes.PASS
    assert min(told(filled, "store_hits")) >= len(filled.launches) > 3 and told(filled, "sampled") == [0] * 3
    assert told(filled, "launches") == [filled.launches] * 3
    new = {digest: count for digest, count in cluster.served().items() if before.get(digest) != count}
    assert list(new.values()) == [1], "the store, once for all workers of this machine, and nothing else"


def test_a_sample_that_differs_on_a_worker_empties_the_clients_store(filled, cluster, monkeypatch):
    falsify(filled.store)
    monkeypatch.setenv("PRESIL_STORE_SAMPLE", "1")
    assert filled.go("one", mode="hybrid", farm=cluster.farm) == exit_codes.MISMATCH
    wrong = filled.found()["a"]
    assert wrong["status"] == "failed" and "the timing store has" in wrong["message"] and wrong["bundles"]
    assert numbers(filled.store) == {}


def test_a_launch_with_other_numbers_fails_its_case_and_empties_the_store(filled, cluster, monkeypatch):
    """Such as one that another process has put there meanwhile: workers began without it."""
    falsify(filled.store)
    monkeypatch.setattr(ClientStore, "_copy", lambda self: None)
    assert filled.go("one", mode="hybrid", farm=cluster.farm) == exit_codes.MISMATCH
    wrong = filled.found()["a"]
    assert wrong["status"] == "failed" and "one of the two is wrong" in wrong["message"], wrong
    assert "the store was emptied" in wrong["message"] and numbers(filled.store) == {}


def test_a_store_of_another_version_does_not_go(filled, cluster):
    with sqlite3.connect(filled.store) as database:
        database.execute("PRAGMA user_version = 77")
    assert filled.go("one", mode="hybrid", farm=cluster.farm) == exit_codes.USAGE
    assert "another version of Presil" in filled.errors and "PRESIL_STORE" in filled.errors
    assert not filled.last.records(), "nothing was run"


@pytest.mark.parametrize("way, text", [("torn", "damaged"), ("version", "another version of Presil")])
def test_what_comes_back_wrong_is_refused(filled, tmp_path, way, text):
    before, store = numbers(filled.store), ClientStore(pytest.fail)
    came = tmp_path / "came"
    came.write_bytes(store.begin.read_bytes())
    with sqlite3.connect(came) as database:
        database.execute(f"PRAGMA user_version = {77 if way == 'version' else 1}")
    data = came.read_bytes()
    data = data[: len(data) * 2 // 3] if way == "torn" else data
    ended = Ended(None, tmp_path, tmp_path / "log", 0.0, 1.0, 0, host="far")
    store.take(ended, "", data)
    assert "can't be kept" in ended.lost and "far" in ended.lost and text in ended.lost
    assert numbers(filled.store) == before
    store.close()


def test_a_worker_tells_each_launch_once(filled, tmp_path):
    """None of the client's, and a new one not with every case that follows."""
    client = ClientStore(pytest.fail)
    worker = WorkerStore(tmp_path / "worker", client.begin)
    ask = lambda name: worker.new(client.program, {}, tmp_path / name)
    assert ask("nothing") == ("", b"")
    with Store(worker.file) as store:
        row = store.rows()[0]
        row.key[0] ^= 1
        store.put(row)
    why, data = ask("new")
    (tmp_path / "came").write_bytes(data)
    assert not why and list(numbers(tmp_path / "came")) == [bytes(row.key)]
    assert ask("again") == ("", b"")
    why, data = ask("new")
    assert "exists" in why and not data, "and why it can't"
    client.close()
