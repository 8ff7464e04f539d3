# SPDX-License-Identifier: Apache-2.0
"""The command queue where random programs don't get: long rings, engines that want one token, stalls, first errors."""

from itertools import combinations

import pytest
from oracle.layout import encode, to_bytes

from bench import chip as chips
from bench.chip import Chip, Error, library

LOOPS = dict(n0=1, n1=1, n2=1, n3=1)
RING, DATA = 0x100_0000, 0x4000


def cheap(kind, **fields):
    """A descriptor of one step."""
    one = {
        "LOAD": dict(LOOPS, chunk_bytes=4, word_bytes=4, row_bytes=4, addr=DATA),
        "STORE": dict(LOOPS, chunk_bytes=4, word_bytes=4, addr=DATA + 64),
        "MATRIX": dict(first=1, nx=1, ny=1, sx=1, sy=1, kx=1, ky=1, ncb=1, idx=1, idy=1),
        "EPILOGUE": dict(rows=1, out_type=3),
        "NOP": {},
        "VECTOR": {},
    }[kind]
    return to_bytes(encode(kind, **{**one, **fields}))


@pytest.fixture(params=["tiny", "odd"])
def chip(request):
    """With a monitor of the bus: a breach of its rules ends the simulation."""
    with Chip(library(request.param), options="monitor=1") as out:
        out.set_memory_model("ideal", 1)
        out.set_ring(RING, 6)
        out.write("IRQ_ENABLE", 3)
        yield out


def ring_bell(chip, *descriptors):
    chip.put(list(descriptors), chip.head)
    chip.head += len(descriptors)
    chip.write("RING_TAIL", chip.head)


def done(chip, cycles=20_000):
    reason, _ = chip.wait(cycles)
    assert reason == chips.IRQ and chip.read("IRQ_STATUS") == chips.DONE_IRQ, chip.state()
    chip.write("IRQ_CLEAR", 3)


def test_more_than_65536_descriptors(chip):
    """One ring of 2^16 entries, filled while the chip empties it; an error's index counts all of them."""
    chip.set_ring(RING, 16)
    raw, bad, total = cheap("NOP"), 66_666, 70_000
    chip.put([raw] * (1 << 16), 0)
    chip.write("RING_TAIL", 1 << 16)
    while chip.read("RING_HEAD") < 50_000:
        assert chip.wait(5_000)[0] != chips.IRQ
    chip.put([cheap("NOP", isa=3) if i == bad else raw for i in range(1 << 16, total)], 1 << 16)
    chip.write("RING_TAIL", total)
    assert chip.wait(500_000)[0] == chips.IRQ
    assert chip.error() == Error("VERSION", bad, 0)


@pytest.mark.parametrize("pair", list(combinations(("LOAD", "MATRIX", "EPILOGUE", "STORE"), 2)), ids="-".join)
def test_two_engines_want_one_token(chip, pair):
    """Both wait before the token is given, once: one of them gets it, the other when it is given again."""
    giver = next(name for name in ("MATRIX", "EPILOGUE", "STORE", "LOAD") if name not in pair)
    first = 4 * ("LOAD", "MATRIX", "EPILOGUE", "STORE").index(giver)
    # The giver waits for its own second token, so that the others surely wait when the first one comes.
    ring_bell(
        chip, *(cheap(name, wait=1 << first + 1) for name in pair), cheap(giver, signal=4), cheap(giver, signal=2)
    )
    assert chip.wait(5_000, 1_000)[0] == chips.HUNG
    waiting = [e for e in range(4) if chip.read(f"WAIT_MASK{e}")]
    assert len(waiting) == 1, chip.state()
    assert chip.read(f"WAIT_TOKENS{first // 4}") == 1 << 16, "the token is taken once; the third is there"
    ring_bell(chip, cheap(giver, signal=2))
    done(chip)


def test_doorbell_adds_to_a_stalled_launch(chip):
    """Queue and start stage of LOAD are full and wait; what wakes them comes with later doorbells."""
    ring_bell(chip, *[cheap("LOAD", wait=1 << 4)] * 7)
    assert chip.wait(3_000)[0] != chips.IRQ
    head = chip.read("RING_HEAD")
    assert 4 <= head <= 6, "queues are four deep"
    chip.queue_reset()
    ring_bell(chip, *[cheap("LOAD", wait=1 << 4)] * 3)
    for _ in range(3):
        assert chip.wait(500)[0] != chips.IRQ, "done with descriptors that wait"
        ring_bell(chip, cheap("MATRIX", signal=1))
    done(chip)


def test_ring_error_on_a_stalled_queue(chip):
    ring_bell(chip, cheap("LOAD"), *[cheap("STORE", wait=1)] * 6)
    assert chip.wait(3_000)[0] != chips.IRQ
    head = chip.read("RING_HEAD")
    chip.write("RING_TAIL", head + 65)
    assert chip.wait(3_000)[0] == chips.IRQ
    assert chip.error() == Error("RING", head, 0)
    chip.queue_reset()
    ring_bell(chip, cheap("LOAD", signal=1), cheap("STORE", wait=1))
    done(chip)


@pytest.mark.parametrize("code", ["FIELD", "VERSION", "OPCODE"])
def test_first_error_wins(chip, code):
    """A LOAD whose answer, an error, comes 300 cycles after the next descriptor is refused; and answers that come while
    the chip drains."""
    chip.set_memory_model("latency=300", 1)
    outside = [cheap("LOAD", addr=255 << 32 | i * 64) for i in range(3)]
    broken = {"FIELD": cheap("EPILOGUE", rows=0), "VERSION": cheap("NOP", isa=0), "OPCODE": cheap("VECTOR")}[code]
    ring_bell(chip, *outside, broken)
    assert chip.wait(5_000)[0] == chips.IRQ
    assert chip.error() == Error(code, 3, 0)
    chip.wait(1_000)
    assert chip.error() == Error(code, 3, 0)
    chip.queue_reset()
    ring_bell(chip, *outside, cheap("NOP"))
    assert chip.wait(5_000)[0] == chips.IRQ
    assert chip.error() == Error("READ_BUS", 0, 0xFF_0000_0000)


@pytest.mark.parametrize("engine", ["LOAD", "MATRIX", "EPILOGUE", "STORE"])
def test_token_overflow(chip, engine):
    """255 tokens are in order, and gone at the next launch; the 256th is an error with its index, however many are
    under way behind it."""
    chip.set_ring(RING, 9)
    ring_bell(chip, *[cheap(engine, signal=8)] * 255)
    done(chip, 100_000)
    ring_bell(chip, *[cheap(engine, signal=8)] * 255)
    done(chip, 100_000)
    ring_bell(chip, cheap("NOP"), *[cheap(engine, signal=8)] * (256 + 9))
    assert chip.wait(100_000)[0] == chips.IRQ
    assert chip.error() == Error("TOKEN_OVERFLOW", 510 + 256, 0)


def failing(c):
    """{name: (descriptor, error's code, its address)}: one step each."""
    word, words = c.word_bytes, c.banks * c.bank_words
    end = words * word
    return {
        "decode": (cheap("EPILOGUE", rows=0), "FIELD", 0),
        "read": (cheap("LOAD", addr=0xFF_0000_1000), "READ_BUS", 0xFF_0000_1000),
        "write": (cheap("STORE", addr=0xFE_0000_2000), "WRITE_BUS", 0xFE_0000_2000),
        "LOAD": (cheap("LOAD", sp_base=end + word, row_bytes=0), "SPAD_RANGE", end + word),
        "columns": (
            cheap("LOAD", transpose=1, esize_log2=2, sp_base=end + 6 * word, row_bytes=0),
            "SPAD_RANGE",
            end + 6 * word,
        ),
        "weights": (cheap("MATRIX", wgt_base=words + 2), "SPAD_RANGE", end + 2 * word),
        "activations": (cheap("MATRIX", act_base=words + 3, lim_x=1, lim_y=1), "SPAD_RANGE", end + 3 * word),
        "EPILOGUE": (cheap("EPILOGUE", out_base=end + 4 * word), "SPAD_RANGE", end + 4 * word),
        "parameters": (cheap("EPILOGUE", param_base=words + 7, bias_en=1), "SPAD_RANGE", end + 7 * word),
        "STORE": (cheap("STORE", sp_base=end + 5 * word), "SPAD_RANGE", end + 5 * word),
    }


def test_two_errors_at_once(chip):
    """Every pair of errors, with one delayed until they meet: what is told is one of them, whole, and both are told
    at some delay if any delay can turn them."""
    kinds = failing(chip.config)
    for one, other in combinations(kinds, 2):
        told = set()
        for first, second in ((one, other), (other, one)):
            for delay in range(0, 24, 1 if "read" in (first, second) or "write" in (first, second) else 2):
                chip.queue_reset()
                between = [cheap("NOP")] * (delay // 2)
                chip.set_memory_model(f"latency={1 + delay % 12},response={1 + delay}", 1)
                ring_bell(chip, kinds[first][0], *between, kinds[second][0])
                assert chip.wait(5_000)[0] == chips.IRQ, f"{first}, {second}: {chip.state()}"
                whole = (
                    Error(kinds[first][1], 0, kinds[first][2]),
                    Error(kinds[second][1], 1 + len(between), kinds[second][2]),
                )
                error = chip.error()
                assert error in whole, f"{first}, {second}, delay {delay}: {error}"
                told.add(first if error == whole[0] else second)
        assert told == {one, other}, f"{one}, {other}: only {told}"


def test_no_address_bit_is_lost(chip):
    """SPAD_RANGE at words whose low bits would be inside, and at the first one outside; the last one inside is in
    order."""
    c = chip.config
    word, words = c.word_bytes, c.banks * c.bank_words
    wide = [words, *((1 << bit) + words - 1 - bit for bit in range(words.bit_length(), 32 - word.bit_length() + 1))]
    narrow = [w for w in wide if w < 65536 - c.cells]
    column = dict(transpose=1, row_bytes=0)
    cases = [
        *((cheap("LOAD", sp_base=w * word, row_bytes=0, signal=5), w) for w in wide),
        *((cheap("LOAD", sp_base=w * word, **column, signal=5), w) for w in wide),
        *((cheap("STORE", sp_base=w * word, signal=5), w) for w in wide),
        *((cheap("MATRIX", wgt_base=w), w) for w in narrow),
        *((cheap("MATRIX", act_base=w, lim_x=1, lim_y=1), w) for w in narrow),
        *((cheap("EPILOGUE", param_base=w, scale_en=1), w) for w in narrow),
        *((cheap("EPILOGUE", out_base=w * word), w) for w in wide),
        *((cheap("EPILOGUE", res_base=w * word, res_en=1, out_type=2, res_type=2), w) for w in wide),
    ]
    for raw, w in cases:
        chip.queue_reset()
        ring_bell(chip, cheap("NOP"), raw)
        assert chip.wait(5_000)[0] == chips.IRQ, f"word {w:#x}"
        assert chip.error() == Error("SPAD_RANGE", 1, w * word), f"word {w:#x}"
        # The word went nowhere, so that neither LOAD nor STORE is complete.
        assert chip.read("WAIT_TOKENS0") == chip.read("WAIT_TOKENS3") == 0, f"word {w:#x}"
    chip.queue_reset()
    last = dict(sp_base=(words - 1) * word)
    ring_bell(chip, cheap("LOAD", **last), cheap("LOAD", **last, **column), cheap("STORE", **last))
    done(chip)
    ring_bell(chip, cheap("MATRIX", wgt_base=words - c.cells), cheap("MATRIX", act_base=words - 1, lim_x=1, lim_y=1))
    done(chip)


def test_loads_behind_an_epilogue(chip):
    """An epilogue that writes one bank holds the LOADs behind it: each still gives its token."""
    c = chip.config
    word, rows, count = c.word_bytes, min(64, c.acc_rows), 40
    blocked = cheap("LOAD", sp_base=0, row_bytes=0, signal=1)
    chip.set_ring(RING, 8)
    for conv in (0, 1):
        loads = [cheap("LOAD", sp_base=0, row_bytes=0, signal=1, conv=conv * (i % 3 == 0)) for i in range(count)]
        ring_bell(
            chip,
            cheap("MATRIX", ny=rows, signal=1),
            cheap("EPILOGUE", rows=rows, out_base=c.banks * word, out_pitch=c.banks * word, wait=1 << 4),
            *loads,
            *[cheap("STORE", wait=1)] * (count - 1),
            cheap("STORE", wait=1, signal=1),
            blocked,
        )
        done(chip, 50_000)


@pytest.mark.parametrize("conv", [0, 1])
def test_loads_crowd_behind_an_epilogue_that_pauses(chip, conv):
    """An epilogue that writes one bank pauses for a cycle whenever MATRIX reads a row: LOADs of a word each close up
    behind it, as many as LOAD can hold, and each still gives the tokens that are its own."""
    c = chip.config
    bank, signals = c.banks * c.word_bytes, [i % 15 + 1 for i in range(40)]
    word = dict(row_bytes=0, chunk_bytes=4, sp_base=0, conv=conv)
    chip.set_ring(RING, 8)
    for ahead in range(1, 13):  # words that go before the crowd
        ring_bell(
            chip,
            cheap("MATRIX", first=1, nx=1, ncb=60, wgt_base=1),
            *[cheap("EPILOGUE", rows=c.acc_rows - 8, acc_base=8, out_type=0, out_base=bank, out_pitch=bank)] * 5,
            cheap("LOAD", **word, n0=ahead, signal=15),
            *[cheap("LOAD", **word, signal=s) for s in signals],
        )
        done(chip, 50_000)
        given = [1 + sum(s >> k & 1 for s in signals) for k in range(4)]
        assert chip.read("WAIT_TOKENS0").to_bytes(4, "little") == bytes(given), f"{ahead} words ahead"


def test_words_of_one_address_stay_in_order(chip):
    """Behind an epilogue that writes their bank words of LOAD may pass each other, but not those of one address: the
    last one stays. Lengths of the epilogue, so that it ends at either of two that would change places."""
    c, chunks, to = chip.config, 2, DATA + 4096
    bank, pattern = c.banks * c.word_bytes, bytes(range(1, 4 * chunks + 1))
    chip.memory_write(DATA, pattern)
    for rows in range(20, 36):
        chip.memory_write(to, bytes(4))
        words = dict(n0=chunks, n1=2, step0=4, ss0=0, ss1=c.word_bytes, row_bytes=4 * chunks, sp_base=0)
        ring_bell(
            chip,
            *[cheap("EPILOGUE", rows=rows, out_type=0, out_base=bank, out_pitch=bank)] * 3,
            cheap("LOAD", **words, signal=1),
            cheap("STORE", addr=to, wait=1),
        )
        done(chip)
        assert chip.memory_read(to, 4) == pattern[-4:], f"{rows} rows"


@pytest.mark.parametrize("log2", [17, 18, 24, 31])
def test_a_ring_is_of_65536_entries_at_most(chip, log2):
    chip.set_ring(RING, log2)
    chip.write("RING_TAIL", 1)
    assert chip.wait(5_000)[0] == chips.IRQ and chip.error() == Error("RING", 0, 0)


@pytest.mark.parametrize("back", [1, 2, 5])
def test_a_tail_does_not_go_back(chip, back):
    """A doorbell behind an earlier one, of a launch that waits; one with the same tail again is in order."""
    ring_bell(chip, *[cheap("LOAD", wait=1 << 4)] * 16)
    assert chip.wait(3_000)[0] != chips.IRQ
    head = chip.read("RING_HEAD")
    assert head + 5 < 16
    chip.write("RING_TAIL", 16)
    assert chip.wait(3_000)[0] != chips.IRQ
    chip.write("RING_TAIL", 16 - back)
    assert chip.wait(5_000)[0] == chips.IRQ and chip.error() == Error("RING", head, 0)


def test_a_load_is_over_when_all_its_words_are_there(chip):
    """Its last word goes to another bank than the one before, which waits for an epilogue: it does not pass it, for
    with it goes the token."""
    c, to = chip.config, DATA + 4096
    bank = c.banks * c.word_bytes
    for turn in range(1, 6):
        chip.memory_write(DATA, bytes([turn]) * 8)
        ring_bell(
            chip,
            *[cheap("EPILOGUE", rows=c.acc_rows, out_type=0, out_base=bank, out_pitch=bank)] * 2,
            cheap("LOAD", n0=2, step0=4, ss0=c.word_bytes, row_bytes=8, sp_base=0, signal=1),
            cheap("STORE", addr=to, wait=1),
        )
        done(chip)
        assert chip.memory_read(to, 4) == bytes([turn]) * 4


def test_at_most_128_write_bursts(chip):
    """200 bursts whose answers, errors, come long after the 128th: the error is the first one's, whose address no
    later burst has taken the place of."""
    chip.set_memory_model("response=4000,bursts=256", 1)
    ring_bell(chip, cheap("STORE", addr=0xFE_0000_2000, n1=200, ds1=4096))
    assert chip.wait(20_000)[0] == chips.IRQ
    assert chip.error() == Error("WRITE_BUS", 0, 0xFE_0000_2000)


def test_an_error_changes_no_beat_that_waits(chip):
    """A beat of STORE waits for WREADY when a descriptor is refused: it stays as it is until it is taken."""
    chip.memory_write(DATA, b"\xff" * 64)
    chip.set_ring(RING, 8)
    for nops in range(0, 120, 3):
        chip.set_memory_model("w=starved", 1)
        stores = [cheap("STORE", addr=DATA + 4096 * i) for i in range(4)]
        ring_bell(chip, *stores, *[cheap("NOP")] * nops, cheap("NOP", isa=0))
        assert chip.wait(20_000)[0] == chips.IRQ
        assert chip.error() == Error("VERSION", len(stores) + nops, 0)
        chip.queue_reset()


def test_an_error_of_a_column_names_its_descriptor(chip):
    """A transposing LOAD whose last column is outside the scratchpad, while the next one's rows come in already."""
    c = chip.config
    word, words = c.word_bytes, c.banks * c.bank_words
    columns = dict(transpose=1, n1=4, ds1=word, row_bytes=word, chunk_bytes=word, sw=word)
    for behind in range(1, 5):
        chip.queue_reset()
        bad = cheap("LOAD", **columns, sp_base=(words - word + 1) * word)
        ring_bell(chip, bad, *[cheap("LOAD", **columns)] * behind)
        assert chip.wait(5_000)[0] == chips.IRQ
        assert chip.error() == Error("SPAD_RANGE", 0, words * word)


def test_a_beat_stays_until_its_last_word_is_taken(chip):
    """Rows of one beat whose words go to a bank that an epilogue is writing stand still, while the bus has more."""
    c, rows, to = chip.config, 64, DATA + 0x1000
    word, bank = c.word_bytes, c.banks * c.word_bytes
    count = rows * word // 4
    source = bytes(i * 37 % 251 for i in range(rows * word))
    chip.memory_write(DATA, source)
    one = dict(word_bytes=4, chunk_bytes=word, n1=rows, ds1=word, sw=bank, ss1=word // 4 * bank)
    for ahead in range(0, 24, 3):
        chip.memory_write(to, bytes(len(source)))
        ring_bell(
            chip,
            cheap("LOAD", **one, row_bytes=word, signal=1),
            *[cheap("NOP")] * ahead,
            *[cheap("EPILOGUE", rows=5, out_type=0, out_base=count * bank, out_pitch=bank)] * 12,
            cheap("STORE", **one, addr=to, wait=1),
        )
        done(chip)
        assert chip.memory_read(to, len(source)) == source, f"{ahead} ahead"


@pytest.mark.parametrize("kind", [(0, 1), (1, 2), (5, 2), (2, 4)])
def test_a_residual_may_end_with_the_scratchpad(chip, kind):
    """Where the output's row has more words than the residual's, none is read behind the residual's last one."""
    c, (res_type, size) = chip.config, kind
    end = c.banks * c.bank_words * c.word_bytes
    words = -(-c.cells * size // c.word_bytes)
    for out_type in (0, 1, 2, 3, 5):
        last = end - words * c.word_bytes
        ring_bell(chip, cheap("EPILOGUE", res_en=1, res_type=res_type, res_base=last, out_type=out_type))
        done(chip)
