/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory model's options, and the monitor of the bus, seen by a master of bursts.
 * usage: test_memory_model LIBRARY | socket:PATH ...
 */
#include <stdio.h>
#include <string.h>

#include "burst_rig.h"

enum { PAGE = 4096, SINGLES = 16 };

static unsigned whole(const burst_rig *r) { return (unsigned)__builtin_ctz(r->word); }

static unsigned longest(const burst_rig *r) { return r->word < 16 ? 256 : PAGE / r->word; }

/* Sixteen bursts of one beat, or one of many. */
static unsigned many(const burst_rig *r, burst *all, bool write, bool singles) {
    const unsigned count = singles ? SINGLES : 1;
    for (unsigned i = 0; i < count; i++)
        all[i] = (burst){BURST_BASE + PAGE * (i + 1u) % BURST_MEMORY_BYTES,
                         singles ? 1 : longest(r),
                         whole(r),
                         BURST_INCR,
                         1,
                         write};
    return count;
}

static uint64_t cycles_of(burst_rig *r, const char *model, bool write, bool singles) {
    burst all[SINGLES];
    const unsigned count = many(r, all, write, singles);
    uint64_t total = 0;
    burst_model(r, model, 5);
    r->launches = 0;
    for (unsigned round = 0; round < 16; round++) {
        burst_run(r, all, count);
        total += r->cycles;
    }
    return total;
}

/*
 * The mean cost of a transfer that nothing else holds up, in cycles: 1 / (share of free cycles); bursty: a cycle and,
 * half of the time, what is left of the block; delayed: half of 1 to 32 more. Bounds are wide: it is a few hundred
 * draws.
 */
static void profiles_hold_their_channel(void **state) {
    (void)state;
    static const struct {
        const char *name;
        double low, high;
    } profiles[] = {
        {"sparse", 1.08, 1.25}, {"heavy", 3.4, 4.8}, {"starved", 22, 45}, {"bursty", 1.5, 5}, {"delayed", 12, 22}};
    static const struct {
        const char *channel;
        bool write, singles;
    } channels[] = {
        {"ar", false, true}, {"r", false, false}, {"aw", true, true}, {"w", true, false}, {"b", true, true}};
    char model[64];
    burst_rig *r = burst_open("ideal", 5, NULL);
    for (unsigned c = 0; c < 5; c++) {
        const unsigned transfers = 16 * (channels[c].singles ? SINGLES : longest(r));
        const uint64_t plain = cycles_of(r, "ideal", channels[c].write, channels[c].singles);
        (void)snprintf(model, sizeof model, "ideal,%s=none", channels[c].channel);
        assert_int_equal(cycles_of(r, model, channels[c].write, channels[c].singles), plain);
        for (unsigned i = 0; i < 5; i++) {
            (void)snprintf(model, sizeof model, "ideal,%s=%s", channels[c].channel, profiles[i].name);
            const uint64_t cycles = cycles_of(r, model, channels[c].write, channels[c].singles);
            const double cost = 1 + ((double)cycles - (double)plain) / transfers;
            /* Of single beats some delays pass while other channels move. */
            const double low = channels[c].singles ? (profiles[i].low - 1) / 3 : profiles[i].low;
            if (cost < low || cost > profiles[i].high) fail_msg("%s: %.2f cycles a transfer", model, cost);
            assert_int_equal(cycles_of(r, model, channels[c].write, channels[c].singles), cycles);
            const uint64_t other = cycles_of(r, model, !channels[c].write, channels[c].singles);
            assert_int_equal(other, cycles_of(r, "ideal", !channels[c].write, channels[c].singles));
        }
    }
    burst_close(r);
}

/* A function of (seed, launch): not of what was before, not of the other. */
static void pressure_repeats(void **state) {
    (void)state;
    burst_rig *r = burst_open("pressure=heavy", 1, NULL);
    burst all[SINGLES];
    const unsigned count = many(r, all, false, true);
    uint64_t cycles[2][8];
    unsigned different = 0;
    for (unsigned seed = 0; seed < 2; seed++) {
        burst_model(r, "pressure=delayed,r=bursty,reorder=1", seed);
        for (unsigned launch = 8; launch-- > 0;) {
            r->launches = launch;
            burst_run(r, all, count);
            cycles[seed][launch] = r->cycles;
            different += cycles[seed][launch] != cycles[0][7];
        }
        for (unsigned launch = 0; launch < 8; launch++) {
            r->launches = launch;
            burst_run(r, all, count);
            assert_int_equal(r->cycles, cycles[seed][launch]);
        }
    }
    assert_true(different >= 8); /* of 15 */
    burst_close(r);
}

/* A write and a read of the same bytes, sent together: the read comes last to its data, and before the write's B. */
static void writes_are_committed_at_b(void **state) {
    (void)state;
    burst_rig *r = burst_open("default", 1, NULL);
    static const struct {
        const char *model;
        bool seen;
    } cases[] = {{"default", true}, {"commit=w", true}, {"commit=b", false}, {"commit=b,reorder=1", false}};
    for (unsigned i = 0; i < 4; i++) {
        for (unsigned odd = 0; odd < 2; odd++) {
            const unsigned size = odd ? whole(r) / 2 : whole(r), beats = 16;
            const burst all[] = {{BURST_BASE + PAGE, beats, size, odd ? BURST_WRAP : BURST_INCR, 1, true},
                                 {BURST_BASE + PAGE, beats, size, odd ? BURST_WRAP : BURST_INCR, 1, false}};
            uint8_t before[16 * BURST_MAX_WORD], after[16 * BURST_MAX_WORD];
            const size_t bytes = (size_t)beats << size;
            burst_model(r, cases[i].model, i);
            r->seed += 91;
            memcpy(before, r->memory + PAGE, bytes);
            burst_run(r, all, 2);
            memcpy(after, r->memory + PAGE, bytes);
            assert_memory_not_equal(before, after, bytes);
            for (unsigned round = 0; round < 2; round++) {
                const uint8_t *want = cases[i].seen || round ? after : before;
                for (unsigned n = 0; n < beats; n++) {
                    const unsigned low = (n << size) % r->word;
                    const burst_beat beat = burst_kept(r, n, low, low + (1u << size) - 1);
                    assert_memory_equal(beat.lanes + low, want + ((size_t)n << size), (size_t)1 << size);
                }
                burst_run(r, all + 1, 1); /* behind the B: sees it */
            }
        }
    }
    burst_close(r);
}

/* What was not given B at a reset is not there, and the log has what is, strobed bytes only. */
static void commits_are_logged(void **state) {
    (void)state;
    burst_rig *r = burst_open("commit=b,response=50", 1, NULL);
    const burst b = {BURST_BASE + PAGE + 1, 3, 0, BURST_INCR, 1, true};
    const presil_write_range *ranges;
    size_t count;
    r->seed = 4;
    assert_int_equal(burst_ops()->write_log(r->t, 1), 0);
    burst_run(r, &b, 1);
    assert_int_equal(burst_ops()->write_log_fetch(r->t, &ranges, &count), 0);
    assert_int_equal(count, 1);
    assert_int_equal(ranges[0].base.value, b.address);
    assert_int_equal(ranges[0].bytes, 3);
    presil_write_time time = {.size = sizeof time};
    assert_int_equal(burst_ops()->write_times(r->t, (presil_daddr){b.address + 2}, &time), 0);
    assert_in_range(time.last_cycle, 50, 50 + 20); /* at B, not at W */
    assert_int_equal(time.first_cycle, time.last_cycle);
    assert_int_equal(burst_ops()->write_times(r->t, (presil_daddr){b.address + 3}, &time), PRESIL_TRANSPORT_EINVAL);
    uint8_t before[4];
    memcpy(before, r->memory + PAGE + 1, 3);
    r->seed = 99;
    burst_start(r, &b, 1);
    presil_wait w = {.size = sizeof w, .deadline_cycles = 30}; /* its data are taken, B is not there */
    assert_int_equal(burst_ops()->wait(r->t, &w), 0);
    assert_int_equal(w.reason, PRESIL_WAIT_DEADLINE);
    assert_int_equal(burst_ops()->reset(r->t), 0);
    assert_memory_equal(before, r->memory + PAGE + 1, 3);
    assert_int_equal(burst_ops()->write_log_fetch(r->t, &ranges, &count), 0);
    assert_int_equal(count, 0);
    burst_run(r, &b, 1);
    assert_memory_not_equal(before, r->memory + PAGE + 1, 3);
    burst_close(r);
}

typedef struct {
    bool reordered, interleaved, answers_reordered;
} order;

/* Of the IDs of order_of, which one. */
static unsigned which(const burst_rig *r, uint32_t id, unsigned ids) {
    unsigned n = 0;
    while (n < ids && burst_id(r, n) != id) n++;
    assert_true(n < ids);
    return n;
}

/* Eight reads and eight writes of 4 beats, of four IDs (two where an ID has one bit). Each ID's are in order: looked at
 * here. The bus is slow enough for bursts to wait beside each other. */
static order order_of(burst_rig *r, const char *option, uint64_t seed) {
    const unsigned ids = r->id_bits == 1 ? 2 : 4;
    char model[128];
    (void)snprintf(model, sizeof model, "bytes=%u,latency=20,response=9,b=delayed%s", r->word / 4, option);
    burst all[16];
    order found = {0};
    for (unsigned i = 0; i < 16; i++)
        all[i] = (burst){
            BURST_BASE + PAGE * (i % 8) + (i < 8 ? 0 : 2048), 4, whole(r), BURST_INCR, burst_id(r, i % ids), i >= 8};
    burst_model(r, model, seed);
    r->launches = 7;
    burst_run(r, all, 16);
    unsigned beats_of[4] = {0}, last = 0, answers_of[4] = {0};
    bool ended = true;
    for (unsigned k = 0; k < 32; k++) {
        const burst_beat beat = burst_kept(r, k, 0, r->word - 1);
        const unsigned id = which(r, beat.id, ids), n = beats_of[id]++, i = id + n / 4 * ids;
        assert_true(i < 8);
        assert_memory_equal(beat.lanes, r->memory + PAGE * i + n % 4 * r->word, r->word);
        assert_int_equal(beat.last, n % 4 == 3);
        found.reordered |= i < last;
        found.interleaved |= i != last && !ended;
        last = i;
        ended = beat.last;
    }
    for (unsigned k = 0; k < 8; k++) {
        const unsigned id = which(r, burst_answer_id(r, k), ids);
        assert_true(answers_of[id]++ < 8 / ids);
        found.answers_reordered |= id != k % ids;
    }
    return found;
}

static void order_is_free_between_ids_only(void **state) {
    (void)state;
    burst_rig *r = burst_open("default", 1, NULL);
    order plain = {0}, reordered = {0}, interleaved = {0};
    for (uint64_t seed = 0; seed < 6; seed++) {
        const order a = order_of(r, "", seed);
        const order b = order_of(r, ",reorder=1", seed);
        const order c = order_of(r, ",interleave=1", seed);
        const order again = order_of(r, ",interleave=1", seed);
        assert_memory_equal(&c, &again, sizeof c);
        plain.reordered |= a.reordered, plain.interleaved |= a.interleaved,
            plain.answers_reordered |= a.answers_reordered;
        reordered.reordered |= b.reordered, reordered.interleaved |= b.interleaved,
            reordered.answers_reordered |= b.answers_reordered;
        interleaved.reordered |= c.reordered, interleaved.interleaved |= c.interleaved,
            interleaved.answers_reordered |= c.answers_reordered;
    }
    assert_false(plain.reordered || plain.interleaved || plain.answers_reordered);
    assert_true(reordered.reordered && !reordered.interleaved && reordered.answers_reordered);
    assert_true(interleaved.reordered && interleaved.interleaved && interleaved.answers_reordered);
    burst_close(r);
}

/* Two beats, in one row of a bank or in two, are what docs/dram.md says apart; the same at every launch, whatever was
 * before; a write's response waits for the DRAM. DDR4 of the chip's clock, 8 KiB a row of a group's bank. */
static void a_dram_has_open_rows(void **state) {
    (void)state;
    enum { CL = 22, RCD = 22, RP = 22, RAS = 52, ROW = 32768, NEAR = 256, BURST = 4, CWL = 16, WR = 24 };
    static const char model[] = "ddr4-3200,clock=1600,banks=1";
    burst_rig *r = burst_open(model, 1, NULL);
    const int data = BURST * (r->word > 64 ? (int)r->word / 64 : 1); /* of a beat: an atom has 64 bytes */
    burst both[] = {{BURST_BASE, 1, whole(r), BURST_INCR, 1, false}, {BURST_BASE, 1, whole(r), BURST_INCR, 1, false}};
    uint64_t one = 0, hit = 0;
    for (unsigned round = 0; round < 3; round++) {
        burst_run(r, both, 1);
        assert_true(!round || r->cycles == one);
        one = r->cycles;
        both[1].address = BURST_BASE + NEAR;
        burst_run(r, both, 2);
        assert_true(!round || r->cycles == hit);
        hit = r->cycles;
        both[1].address = BURST_BASE + ROW; /* the second ACT waits for tRAS and tRP, the first one's was at 0 */
        burst_run(r, both, 2);
        assert_int_equal(r->cycles - one, RAS + RP);
    }
    assert_in_range(hit - one, 1, 8); /* tCCD_L, less the cycle between the requests */
    burst_model(r, "default,latency=100,response=40", 1);
    burst_run(r, both, 1);
    assert_int_equal((int)one - (int)r->cycles, RCD + CL + data + 20 - 100);
    both[0].write = true;
    burst_run(r, both, 1);
    const uint64_t plain = r->cycles;
    burst_model(r, model, 1);
    burst_run(r, both, 1);
    assert_int_equal((int)r->cycles - (int)plain, RCD + CWL + data + 20 - 40);
    burst_close(r);
}

/* Data of many bursts, odd ones too, with a port that is fuller than what it holds, and behind a reset. */
static void a_dram_changes_no_bit(void **state) {
    (void)state;
    static const char *const models[] = {"hbm2-2000", "lpddr4-3200,reorder=1", "lpddr5-6400,bursts=1",
                                         "ddr4-2400,interleave=1,commit=b"};
    burst_rig *r = burst_open("default", 1, NULL);
    for (unsigned m = 0; m < 4; m++) {
        burst all[SINGLES];
        for (unsigned i = 0; i < SINGLES; i++)
            all[i] = (burst){BURST_BASE + PAGE * (i % 8) + r->word * i,
                             4,
                             i % 3 ? whole(r) : 0,
                             i % 4 == 1 ? BURST_WRAP : BURST_INCR,
                             burst_id(r, i % 2),
                             i >= 8};
        for (unsigned i = 8; i < SINGLES; i++) all[i].address += UINT64_C(8) * PAGE;
        burst_model(r, models[m], m);
        uint8_t want[BURST_MEMORY_BYTES];
        uint64_t cycles = 0;
        for (unsigned round = 0; round < 2; round++) {
            memcpy(want, r->memory, sizeof want);
            burst_apply(r, want, all + 8, 8);
            burst_run(r, all, SINGLES);
            assert_memory_equal(r->memory, want, sizeof want);
            assert_true(!round || r->cycles == cycles);
            cycles = r->cycles;
            burst_start(r, all, SINGLES);
            presil_wait w = {.size = sizeof w, .deadline_cycles = 30};
            assert_int_equal(burst_ops()->wait(r->t, &w), 0);
            assert_int_equal(burst_ops()->reset(r->t), 0);
            r->launches = 1;
            r->seed++;
        }
    }
    burst_close(r);
}

static void settings_are_refused_by_name(void **state) {
    (void)state;
    static const char *const bad[] = {
        "pressure=mild",        "ar=", "b=1", "commit=x", "reorder=2", "interleave=yes", "rw=none", "ddr9", "trcd=5",
        "ddr4-3200,channels=3", "cl=x"};
    burst_rig *r = burst_open("default", 1, NULL);
    for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(burst_ops()->set_memory_model(r->t, bad[i], 1), PRESIL_TRANSPORT_EINVAL);
        if (!strstr(burst_ops()->last_error(r->t), bad[i])) fail_msg("%s: %s", bad[i], burst_ops()->last_error(r->t));
    }
    burst_model(r, "ideal,pressure=heavy,ar=none,b=delayed,commit=b,reorder=1,interleave=0", 1);
    burst_close(r);
}

/* Every signal that changes, or valid that falls, while it waits for ready. */
static void the_monitor_sees_breaches(void **state) {
    (void)state;
    static const struct {
        uint32_t breach;
        const char *text;
    } cases[] = {{BREACH_ARADDR, "ARADDR changed from 0x"}, {BREACH_ARVALID, "ARVALID fell before ARREADY rose"},
                 {BREACH_AWLEN, "AWLEN changed from 0x"},   {BREACH_AWVALID, "AWVALID fell before AWREADY rose"},
                 {BREACH_WDATA, "WDATA in lane "},          {BREACH_WVALID, "WVALID fell before WREADY rose"},
                 {BREACH_WSTRB, "WSTRB of lanes "},         {BREACH_WLAST, "WLAST changed from 0x"}};
    burst_rig *r = burst_open("pressure=starved", 1, "monitor=1");
    const burst b = {BURST_BASE, 8, whole(r), BURST_INCR, 1, true};
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        burst broken = b;
        broken.write = cases[i].breach >= BREACH_AWLEN;
        burst_put(r, 0x1c, cases[i].breach);
        burst_start(r, &broken, 1);
        assert_int_equal(burst_finish(r), PRESIL_TRANSPORT_ESTOPPED);
        const char *text = burst_ops()->last_error(r->t);
        if (!strstr(text, "the chip broke the bus protocol: ") || !strstr(text, cases[i].text))
            fail_msg("expected \"%s\", found \"%s\"", cases[i].text, text);
        assert_int_equal(burst_ops()->reset(r->t), 0);
        burst_run(r, &broken, 1);
    }
    const bool always = strcmp(r->build, "dpi") == 0;
    burst_close(r);
    r = burst_open("pressure=starved", 1, "monitor=0");
    burst_put(r, 0x1c, BREACH_WDATA);
    burst_start(r, &b, 1);
    assert_int_equal(burst_finish(r), always ? PRESIL_TRANSPORT_ESTOPPED : 0);
    burst_close(r);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(profiles_hold_their_channel),    cmocka_unit_test(pressure_repeats),
        cmocka_unit_test(writes_are_committed_at_b),      cmocka_unit_test(commits_are_logged),
        cmocka_unit_test(a_dram_has_open_rows),           cmocka_unit_test(a_dram_changes_no_bit),
        cmocka_unit_test(order_is_free_between_ids_only), cmocka_unit_test(settings_are_refused_by_name),
        cmocka_unit_test(the_monitor_sees_breaches),
    };
    int failed = argc < 2;
    for (int i = 1; i < argc; i++) {
        if (!burst_library(argv[i])) return 2;
        failed += cmocka_run_group_tests_name(argv[i], tests, NULL, NULL);
    }
    return failed != 0;
}
