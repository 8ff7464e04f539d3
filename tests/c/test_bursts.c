/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bursts of any master that keeps to AXI4: served as A3.4.1 has it, or named as illegal.
 * usage: test_bursts LIBRARY | socket:PATH ...
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "burst_rig.h"

static unsigned log2_of(unsigned value) { return (unsigned)__builtin_ctz(value); }

/* One burst alone: a read has the memory's bytes on its lanes, a write changes the bytes that it strobes and no other.
 */
static void check_burst(burst_rig *r, burst b) {
    static uint8_t expected[BURST_MEMORY_BYTES];
    memcpy(expected, r->memory, sizeof expected);
    burst_apply(r, expected, &b, 1);
    burst_run(r, &b, 1);
    if (b.write) assert_int_equal(burst_answer_id(r, 0), b.id);
    if (memcmp(expected, r->memory, sizeof expected))
        fail_msg("write of %u beats, size %u, burst %u at 0x%llx", b.beats, b.size, b.kind,
                 (unsigned long long)b.address);
    for (unsigned n = 0; !b.write && n < b.beats; n++) {
        uint64_t first, end;
        burst_bytes(&b, n, &first, &end);
        const unsigned low = (unsigned)(first % r->word), high = low + (unsigned)(end - first) - 1;
        const burst_beat beat = burst_kept(r, n, low, high);
        if (beat.id != b.id || beat.response || beat.last != (n + 1 == b.beats) ||
            memcmp(beat.lanes + low, expected + (first - BURST_BASE), high - low + 1))
            fail_msg("beat %u of the read of %u beats, size %u, burst %u at 0x%llx", n, b.beats, b.size, b.kind,
                     (unsigned long long)b.address);
    }
}

static void check_both(burst_rig *r, uint64_t address, unsigned beats, unsigned size, unsigned kind) {
    r->seed = r->seed * 5 + 3;
    r->holes = r->seed >> 4 & 1;
    check_burst(r, (burst){address, beats, size, kind, burst_id(r, beats), true});
    check_burst(r, (burst){address, beats, size, kind, burst_id(r, beats + size), false});
}

static const uint64_t PAGE = 4096;

/* Every size, lengths around each limit, starts at every byte of a word, and ends at and before the page's. */
static void increments_are_served(void **state) {
    (void)state;
    static const unsigned lengths[] = {1, 2, 3, 4, 5, 8, 15, 16, 17, 31, 64, 255, 256};
    burst_rig *r = burst_open("ideal", 1, NULL);
    for (unsigned size = 0; size <= log2_of(r->word); size++) {
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
            const uint64_t bytes = UINT64_C(1) << size, span = lengths[i] * bytes;
            if (span > PAGE) continue;
            const unsigned step = lengths[i] > 17 ? r->word / 4 + 1 : 1;
            for (unsigned offset = 0; offset < r->word && offset / bytes * bytes + span <= PAGE; offset += step)
                check_both(r, BURST_BASE + PAGE + offset, lengths[i], size, BURST_INCR);
            for (unsigned offset = 0; offset < bytes; offset += bytes > 8 ? 5 : 1)
                check_both(r, BURST_BASE + 2 * PAGE - span + offset, lengths[i], size, BURST_INCR);
        }
    }
    burst_close(r);
}

/* Every start within the container, containers in the middle and at both ends of a page. */
static void wraps_are_served(void **state) {
    (void)state;
    burst_rig *r = burst_open("ideal", 1, NULL);
    for (unsigned size = 0; size <= log2_of(r->word); size++) {
        for (unsigned beats = 2; beats <= 16; beats *= 2) {
            const uint64_t bytes = UINT64_C(1) << size, span = beats * bytes;
            const uint64_t containers[] = {PAGE, PAGE + 3 * span, 2 * PAGE - span};
            for (unsigned c = 0; c < 3; c++) {
                for (unsigned start = 0; start < beats; start++)
                    check_both(r, BURST_BASE + containers[c] / span * span + start * bytes, beats, size, BURST_WRAP);
            }
        }
    }
    burst_close(r);
}

static void fixed_are_served(void **state) {
    (void)state;
    burst_rig *r = burst_open("ideal", 1, NULL);
    for (unsigned size = 0; size <= log2_of(r->word); size++) {
        for (unsigned beats = 1; beats <= 16; beats += beats < 4 ? 1 : 4) {
            for (unsigned offset = 0; offset < r->word; offset++) {
                check_both(r, BURST_BASE + PAGE + offset, beats, size, BURST_FIXED);
                if (offset % 5 == 0) check_both(r, BURST_BASE + 2 * PAGE - 1 - offset, beats, size, BURST_FIXED);
            }
        }
    }
    burst_close(r);
}

/* In the region's first and last bytes, and outside: DECERR, zeros, nothing written, the byte in bus_fault(). */
static void bounds_hold_for_odd_bursts(void **state) {
    (void)state;
    burst_rig *r = burst_open("ideal", 1, NULL);
    static uint8_t before[BURST_MEMORY_BYTES];
    const uint64_t end = BURST_BASE + BURST_MEMORY_BYTES;
    const unsigned whole = log2_of(r->word);
    check_both(r, BURST_BASE + 1, 3, 0, BURST_INCR);
    check_both(r, end - 1, 1, 0, BURST_INCR);
    check_both(r, end - 1, 16, 0, BURST_FIXED);
    check_both(r, end - 2 * r->word, 2, whole, BURST_WRAP);
    const burst outside[] = {{BURST_BASE - 1, 1, 0, BURST_INCR, 1, false},
                             {end + 1, 4, whole, BURST_INCR, 1, false},
                             {end + 3, 2, 0, BURST_FIXED, 1, true},
                             {BURST_BASE - 2, 2, 0, BURST_WRAP, 1, true}};
    memcpy(before, r->memory, sizeof before);
    for (unsigned i = 0; i < 4; i++) {
        burst_run(r, &outside[i], 1);
        presil_bus_fault fault;
        assert_int_equal(burst_ops()->bus_fault(r->t, &fault), 0);
        assert_true(fault.valid && fault.is_write == outside[i].write);
        assert_int_equal(fault.address.value, outside[i].address >> outside[i].size << outside[i].size);
        if (outside[i].write) {
            assert_int_equal(burst_answer(r, 0), 3);
        } else {
            const burst_beat beat = burst_kept(r, 0, 0, r->word - 1);
            assert_int_equal(beat.response, 3);
            for (unsigned lane = 0; lane < r->word; lane++) assert_int_equal(beat.lanes[lane], 0);
        }
        assert_memory_equal(before, r->memory, sizeof before);
    }
    burst_close(r);
}

/* The beat that holds the byte, be it narrow, and no other. */
static void faults_hit_their_beat(void **state) {
    (void)state;
    burst_rig *r = burst_open("ideal", 1, NULL);
    const burst narrow = {BURST_BASE + PAGE + 1, 4, 1, BURST_INCR, 1, false};
    const burst wrap = {BURST_BASE + PAGE + 4, 4, 1, BURST_WRAP, 1, false};
    burst write = narrow;
    write.write = true;
    assert_int_equal(burst_ops()->inject(r->t, "slverr@0x80001005"), 0);
    for (unsigned i = 0; i < 2; i++) {
        const burst *b = i ? &wrap : &narrow;
        burst_run(r, b, 1);
        for (unsigned n = 0; n < 4; n++) {
            uint64_t first, end;
            burst_bytes(b, n, &first, &end);
            const bool hit = first <= BURST_BASE + PAGE + 5 && BURST_BASE + PAGE + 5 < end;
            assert_int_equal(burst_kept(r, n, 0, 3).response, hit ? 2 : 0);
        }
    }
    uint8_t expected[8];
    memcpy(expected, r->memory + PAGE, 8);
    r->seed = 77;
    for (unsigned n = 0; n < 4; n++) {
        uint64_t first, end;
        burst_bytes(&write, n, &first, &end);
        for (uint64_t at = first; at < end && n != 2; at++)
            expected[at - BURST_BASE - PAGE] = burst_data(r, n, (unsigned)(at % r->word));
    }
    burst_run(r, &write, 1);
    assert_int_equal(burst_answer(r, 0), 2);
    assert_memory_equal(expected, r->memory + PAGE, 8);
    burst_close(r);
}

static void illegal_bursts_are_named(void **state) {
    (void)state;
    burst_rig *r = burst_open("ideal", 1, NULL);
    const unsigned whole = log2_of(r->word);
    const uint64_t a = BURST_BASE + PAGE;
    const struct {
        burst b;
        uint32_t breach;
        const char *text;
    } cases[] = {
        {{a, 3, 0, BURST_WRAP, 1, false}, 0, "a WRAP burst of 3 beats: expected 2, 4, 8 or 16"},
        {{a, 1, 1, BURST_WRAP, 1, false}, 0, "a WRAP burst of 1 beats"},
        {{a, 32, 0, BURST_WRAP, 1, true}, 0, "a WRAP burst of 32 beats"},
        {{a + 1, 4, 1, BURST_WRAP, 1, true}, 0, "begins in the middle of a beat: expected a multiple of 2 bytes"},
        {{a, 17, 0, BURST_FIXED, 1, false}, 0, "a FIXED burst of 17 beats: expected 16 at most"},
        {{a, 1, 0, 3, 1, false}, 0, "burst 3 is reserved"},
        {{a + PAGE - 1, 2, 0, BURST_INCR, 1, false}, 0, "crosses 4 KiB"},
        {{a + PAGE - r->word, 2, whole, BURST_INCR, 1, true}, 0, "crosses 4 KiB"},
        {{a + PAGE - 3 * r->word + 1, 4, whole, BURST_INCR, 1, false}, 0, "crosses 4 KiB"},
        {{a, 4, 0, BURST_INCR, 1, true}, BREACH_EARLY_WLAST, "WLAST is wrong"},
        {{a, 4, whole, BURST_INCR, 1, true}, BREACH_EARLY_WLAST, "WLAST is wrong"},
        {{a, 4, 1, BURST_WRAP, 1, true}, BREACH_NO_WLAST, "WLAST is wrong"},
        {{a + 1, 1, 1, BURST_INCR, 1, true}, BREACH_ALL_LANES, "WSTRB of byte lane 0 is set"},
        {{a + 2, 2, 0, BURST_FIXED, 1, true}, BREACH_ALL_LANES, "WSTRB of byte lane 0 is set"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        burst_put(r, 0x1c, cases[i].breach);
        burst_start(r, &cases[i].b, 1);
        assert_int_equal(burst_finish(r), PRESIL_TRANSPORT_ESTOPPED);
        const char *text = burst_ops()->last_error(r->t);
        if (!strstr(text, "the chip broke the bus protocol") || !strstr(text, cases[i].text))
            fail_msg("case %zu: expected \"%s\", found \"%s\"", i, cases[i].text, text);
        assert_int_equal(burst_ops()->reset(r->t), 0);
        check_both(r, a + i, 5, 0, BURST_INCR);
    }
    if (whole < 7) { /* wider than the bus */
        const burst wide = {a, 1, whole + 1, BURST_INCR, 1, false};
        burst_start(r, &wide, 1);
        assert_int_equal(burst_finish(r), PRESIL_TRANSPORT_ESTOPPED);
        assert_non_null(strstr(burst_ops()->last_error(r->t), "is wider than the bus"));
        assert_int_equal(burst_ops()->reset(r->t), 0);
    }
    burst_close(r);
}

static burst random_burst(const burst_rig *r, uint32_t draw, uint64_t room, bool write) {
    const unsigned size = (draw >> 8) % (log2_of(r->word) + 1), kind = (draw >> 16) % 3;
    const uint32_t id = burst_id(r, draw >> 28);
    unsigned beats = 1 + (draw >> 20) % (kind == BURST_FIXED ? 16 : 40);
    while (kind == BURST_INCR && (beats << size) + 32 > 2048) beats--;
    if (kind == BURST_WRAP) beats = 2u << (draw >> 20) % 4;
    const unsigned offset = kind == BURST_WRAP ? (draw >> 24) % beats << size : (draw >> 24) % 30;
    return (burst){room + offset, beats, size, kind, id, write};
}

/* All of it at once: 32 bursts of every kind, reads and writes beside each other, on a memory that holds everything up.
 */
static void mixtures_are_served(void **state) {
    (void)state;
    static const char *const models[] = {"default", "pressure=heavy", "pressure=delayed,interleave=1",
                                         "commit=b,reorder=1,stall=0.3"};
    static uint8_t expected[BURST_MEMORY_BYTES];
    uint32_t draw = 12345;
    burst_rig *r = burst_open("default", 1, NULL);
    burst_lazy(r, 100);
    for (unsigned round = 0; round < 16; round++) {
        burst_model(r, models[round % 4], round);
        burst all[32];
        for (unsigned i = 0; i < 32; i++) { /* reads below 32 KiB, writes above, each in 2 KiB of its own */
            draw = draw * 1664525 + 1013904223;
            const uint64_t room = BURST_BASE + (i % 2 ? 32768 : 0) + 2048 * (i / 2);
            all[i] = random_burst(r, draw, room, i % 2);
        }
        r->seed = draw;
        r->holes = round & 1;
        memcpy(expected, r->memory, sizeof expected);
        burst_apply(r, expected, all, 32);
        burst_run(r, all, 32);
        assert_memory_equal(expected, r->memory, sizeof expected);
        unsigned at[32] = {0}, kept = burst_get(r, 0x24), total = 0;
        for (unsigned k = 0; k < kept; k++) { /* of each ID the bursts come in the order of their requests */
            const burst_beat info = burst_kept(r, k, 0, r->word - 1);
            unsigned i = 0;
            while (i < 32 && (all[i].write || all[i].id != info.id || at[i] == all[i].beats)) i++;
            assert_true(i < 32);
            uint64_t first, end;
            burst_bytes(&all[i], at[i]++, &first, &end);
            assert_int_equal(info.last, at[i] == all[i].beats);
            assert_memory_equal(info.lanes + first % r->word, expected + (first - BURST_BASE), end - first);
        }
        for (unsigned i = 0; i < 32; i++) total += all[i].write ? 0 : all[i].beats;
        assert_int_equal(kept, total);
        assert_int_equal(burst_get(r, 0x28), 16);
    }
    burst_close(r);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(increments_are_served), cmocka_unit_test(wraps_are_served),
        cmocka_unit_test(fixed_are_served),      cmocka_unit_test(bounds_hold_for_odd_bursts),
        cmocka_unit_test(faults_hit_their_beat), cmocka_unit_test(illegal_bursts_are_named),
        cmocka_unit_test(mixtures_are_served),
    };
    int failed = argc < 2;
    for (int i = 1; i < argc; i++) {
        if (!burst_library(argv[i])) return 2;
        failed += cmocka_run_group_tests_name(argv[i], tests, NULL, NULL);
    }
    return failed != 0;
}
