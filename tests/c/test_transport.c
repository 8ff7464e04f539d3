/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulator transport on the stub chip (tests/rtl/presil_stub_top.sv).
 * usage: test_transport FAST_LIB CHECK_LIB TRACE_LIB: the whole suite runs on each library.
 */
#define _GNU_SOURCE
#include "transport_rig.h"

/* ---- */

static void exports_one_symbol(void **state) {
    (void)state;
    void *library = dlopen(library_path, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(library);
    assert_non_null(dlsym(library, "presil_transport_entry"));
    static const char *const hidden[] = {"vl_fatal", "_Z8vl_fatalPKciS0_S0_", "_ZN9Verilated3t_sE", "presil_sim_printf",
                                         "_Z22Vchip___024root___evalP14Vchip___024root"};
    for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++) assert_null(dlsym(library, hidden[i]));
    dlclose(library);
}

static void says_what_it_is(void **state) {
    (void)state;
    assert_int_equal(ops->size, sizeof *ops);
    assert_int_equal(ops->abi, PRESIL_TRANSPORT_ABI);
    rig *r = rig_open(NULL, 1);
    presil_transport_info info = {.size = sizeof info};
    assert_int_equal(ops->info(r->t, &info), 0);
    assert_string_equal(info.chip, "stub");
    assert_string_equal(info.config, "stub");
    assert_int_equal(info.clock_mhz, 500);
    assert_int_equal(info.size, sizeof info);
    assert_true(strspn(info.rtl, "0123456789abcdef") == 64 && strlen(info.rtl) == 64);
    assert_true(strspn(info.library, "0123456789abcdef") == 40 && strlen(info.library) == 40);
    presil_transport_info older = {.size = offsetof(presil_transport_info, rtl), .rtl = "kept"};
    assert_int_equal(ops->info(r->t, &older), 0); /* a caller of before */
    assert_string_equal(older.rtl, "kept");
    assert_string_equal(older.chip, "stub");
    assert_true(info.capabilities & PRESIL_CAP_CLOCKED);
    assert_true(info.capabilities & PRESIL_CAP_MAPS);
    assert_int_equal(!!(info.capabilities & PRESIL_CAP_TRACE), library_path == library_names[2]);
    presil_region region;
    assert_int_equal(ops->region(r->t, 0, &region), 0);
    assert_int_equal(region.base.value, BASE);
    assert_int_equal(region.bytes, MEMORY_BYTES);
    *(volatile uint8_t *)region.host = 0x5a;
    assert_int_equal(r->memory[0], 0x5a);
    assert_int_equal(ops->region(r->t, 1, &region), PRESIL_TRANSPORT_EINVAL);
    rig_close(r);
}

static void refuses_bad_options(void **state) {
    (void)state;
    static const char *const models[] = {"latency=0",  "fast",       "stall=2",     "latency",
                                         "bursts=257", "latency=1x", "ideal,ideal", "default,colour=3"};
    char error[256];
    presil_transport *t = NULL;
    presil_transport_options o = {
        .size = sizeof o, .abi = PRESIL_TRANSPORT_ABI, .memory_fd = -1, .memory_bytes = MEMORY_BYTES};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        o.memory_model = models[i];
        assert_int_equal(ops->open(&o, &t, error, sizeof error), PRESIL_TRANSPORT_EINVAL);
        assert_null(t);
        assert_non_null(strstr(error, "memory model"));
    }
    o.memory_model = NULL;
    o.memory_bytes = 4095;
    assert_int_equal(ops->open(&o, &t, error, sizeof error), PRESIL_TRANSPORT_EINVAL);
    o.memory_bytes = MEMORY_BYTES;
    o.options = "speed=11";
    assert_int_equal(ops->open(&o, &t, error, sizeof error), PRESIL_TRANSPORT_EINVAL);
    o.options = NULL;
    o.abi = PRESIL_TRANSPORT_ABI + 1;
    assert_int_equal(ops->open(&o, &t, error, sizeof error), PRESIL_TRANSPORT_EINVAL);
    o.abi = PRESIL_TRANSPORT_ABI;
    assert_int_equal(ops->open(&o, &t, error, sizeof error), 0); /* memory of its own */
    ops->close(t);
    ops->close(NULL);
}

static void registers_hold_and_answer(void **state) {
    (void)state;
    rig *r = rig_open(NULL, 1);
    assert_int_equal(get(r, STUB_ID), STUB_ID_VALUE);
    assert_int_equal(get(r, STUB_WORD), WORD);
    put(r, STUB_SRC_LO, 0x12345678);
    put(r, STUB_DST_LO, 0x9abcdef0);
    assert_int_equal(get(r, STUB_SRC_LO), 0x12345678);
    assert_int_equal(get(r, STUB_DST_LO), 0x9abcdef0);
    uint32_t value = 77;
    assert_int_equal(ops->read32(r->t, 0x200, &value), PRESIL_TRANSPORT_EBUS);
    assert_non_null(strstr(ops->last_error(r->t), "SLVERR"));
    assert_int_equal(value, 77);
    assert_int_equal(ops->write32(r->t, 0x200, 1), PRESIL_TRANSPORT_EBUS);
    assert_int_equal(ops->read32(r->t, 2, &value), PRESIL_TRANSPORT_EINVAL);
    assert_int_equal(ops->read32(r->t, 0x1000, &value), PRESIL_TRANSPORT_EINVAL);
    /* An access takes the same cycles whenever it is made, and whoever asks for how many. */
    static const uint32_t offsets[] = {STUB_ID, STUB_SRC_LO, STUB_WORD, 0x200};
    uint32_t values[4] = {7, 7, 7, 7};
    uint64_t before, between, after;
    assert_non_null(ops->read32_many);
    ops->cycles(r->t, &before);
    assert_int_equal(ops->read32_many(r->t, offsets, 3, values), 0);
    ops->cycles(r->t, &after);
    assert_int_equal(after - before, 6);
    assert_true(values[0] == STUB_ID_VALUE && values[1] == 0x12345678 && values[2] == WORD && values[3] == 7);
    values[0] = 7;
    assert_int_equal(ops->read32_many(r->t, offsets, 4, values), PRESIL_TRANSPORT_EBUS);
    assert_non_null(strstr(ops->last_error(r->t), "read of register 0x200: answered SLVERR"));
    assert_int_equal(values[0], 7);
    assert_int_equal(ops->read32_many(r->t, (const uint32_t[]){STUB_ID, 3}, 2, values), PRESIL_TRANSPORT_EINVAL);
    assert_int_equal(ops->read32_many(r->t, offsets, 0, values), 0);
    ops->cycles(r->t, &before);
    put(r, STUB_SRC_LO, 1);
    ops->cycles(r->t, &between);
    (void)get(r, STUB_SRC_LO);
    ops->cycles(r->t, &after);
    assert_int_equal(between - before, 2);
    assert_int_equal(after - between, 2);
    rig_close(r);
}

static void memory_is_checked_and_shared(void **state) {
    (void)state;
    rig *r = rig_open_with(NULL, 1, "map=0");
    presil_region region;
    presil_transport_info info = {.size = sizeof info};
    ops->region(r->t, 0, &region);
    ops->info(r->t, &info);
    assert_null(region.host);
    assert_false(info.capabilities & PRESIL_CAP_MAPS);
    uint8_t in[5] = {1, 2, 3, 4, 5}, out[5] = {0};
    assert_int_equal(ops->mem_write(r->t, (presil_daddr){BASE + 7}, in, 5), 0);
    assert_memory_equal(r->memory + 7, in, 5);
    assert_int_equal(ops->mem_read(r->t, (presil_daddr){BASE + 7}, out, 5), 0);
    assert_memory_equal(out, in, 5);
    assert_int_equal(ops->mem_write(r->t, (presil_daddr){BASE + MEMORY_BYTES - 4}, in, 5), PRESIL_TRANSPORT_EBUS);
    assert_int_equal(ops->mem_read(r->t, (presil_daddr){BASE - 1}, out, 1), PRESIL_TRANSPORT_EBUS);
    assert_int_equal(ops->mem_read(r->t, (presil_daddr){UINT64_MAX}, out, 2), PRESIL_TRANSPORT_EBUS);
    assert_int_equal(ops->sync_for_device(r->t, (presil_daddr){BASE}, MEMORY_BYTES), 0);
    assert_int_equal(ops->sync_for_host(r->t, (presil_daddr){BASE}, MEMORY_BYTES + 1), PRESIL_TRANSPORT_EBUS);
    (void)copy(r, 0, TO, FROM, 33);
    rig_close(r);
}

/*
 * By hand, with docs/simulation.md and the chip's header; s is the edge of the start, L latency, R response.
 * N <= 16 beats: AR at s+1; R beats at s+1+L ... s+L+N =: e; AW at e+1; W beats at e+2 ... e+1+N; B at e+1+N+R; done at
 * the next edge: L + 2N + R + 2 cycles. With half a beat a cycle, beats are two edges apart: e = s+1+L+2(N-1), last W
 * at e+2+2(N-1): L + 4N + R. 32 beats: R beats flow until the first W can go, at e+2 with e = s+L+16 the last R of the
 * first burst. Then 16 writes and 15 reads alternate, one a cycle, to e+32; AW at e+33, W to e+49: L + R + 66. Without
 * a bandwidth limit W follows at e+2 ... e+17, AW at e+18, W to e+34: L + R + 51.
 */
static void cycles_are_as_calculated(void **state) {
    (void)state;
    static const struct {
        const char *model;
        uint32_t beats, latency, response, rest;
    } cases[] = {{NULL, 1, 100, 40, 2 + 2},
                 {NULL, 16, 100, 40, 32 + 2},
                 {"default", 7, 100, 40, 14 + 2},
                 {"latency=1", 5, 1, 40, 10 + 2},
                 {"latency=9,response=3", 16, 9, 3, 32 + 2},
                 {"ideal", 16, 1, 1, 32 + 2},
                 {"bytes=8", 16, 100, 40, 64},
                 {"latency=20,response=5,bytes=8", 3, 20, 5, 12},
                 {NULL, 32, 100, 40, 66},
                 {"latency=50", 32, 50, 40, 66},
                 {"bytes=0", 32, 100, 40, 51},
                 {"ideal", 32, 1, 1, 51}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rig *r = rig_open(cases[i].model, i);
        assert_int_equal(copy(r, i, TO, FROM, cases[i].beats), cases[i].latency + cases[i].response + cases[i].rest);
        rig_close(r);
    }
}

/* With a short latency a long copy is bound by bandwidth: read and write of a beat take two slots of the bus, or with
 * half of it four. */
static void long_copies_share_the_bandwidth(void **state) {
    (void)state;
    rig *r = rig_open("latency=1,response=1", 1);
    const uint32_t beats = 2000, whole = copy(r, 0, TO, FROM, beats);
    assert_in_range(whole, 2 * beats, 2 * beats + beats / 4);
    assert_int_equal(ops->set_memory_model(r->t, "latency=1,response=1,bytes=8", 1), 0);
    assert_in_range(copy(r, 0, TO, FROM, beats), 4 * beats, 4 * beats + beats / 2);
    assert_int_equal(ops->set_memory_model(r->t, "ideal", 1), 0);
    assert_in_range(copy(r, 0, TO, FROM, beats), beats, whole * 3 / 4);
    rig_close(r);
}

static void cycles_do_not_depend_on_history(void **state) {
    (void)state;
    static const uint32_t shapes[] = {1, 16, 17, 100, 333};
    uint32_t want[5];
    rig *r = rig_open("stall=0.2", 42);
    for (size_t i = 0; i < 5; i++) want[i] = copy(r, 100 + i, TO, FROM, shapes[i]);
    for (size_t n = 0; n < 20; n++) {
        const size_t i = (n * 3 + n / 5) % 5;
        for (size_t k = 0; k < n; k++) (void)get(r, STUB_ID); /* shifts the clock */
        assert_int_equal(copy(r, 100 + i, TO, FROM, shapes[i]), want[i]);
    }
    assert_int_equal(ops->reset(r->t), 0);
    assert_int_equal(copy(r, 103, TO + 4096, FROM + 4096, shapes[3]), want[3]);
    rig_close(r);
    rig *other = rig_open("stall=0.2", 42);
    for (size_t i = 5; i-- > 0;) assert_int_equal(copy(other, 100 + i, TO, FROM, shapes[i]), want[i]);
    rig_close(other);
}

static void stalls_come_from_seed_and_launch(void **state) {
    (void)state;
    uint32_t by_seed[4], by_launch[4], plain;
    rig *r = rig_open(NULL, 0);
    plain = copy(r, 0, TO, FROM, 200);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(ops->set_memory_model(r->t, "stall=0.3", i), 0);
        by_seed[i] = copy(r, 7, TO, FROM, 200);
        by_launch[i] = copy(r, 1000 + i, TO, FROM, 200);
        assert_true(by_seed[i] > plain && by_launch[i] > plain);
    }
    unsigned different = 0;
    for (uint32_t i = 1; i < 4; i++)
        different += (by_seed[i] != by_seed[0] ? 1u : 0u) + (by_launch[i] != by_launch[0] ? 1u : 0u);
    assert_true(different >= 4); /* equal sums are possible, not usual */
    assert_int_equal(ops->set_memory_model(r->t, "default", 9), 0);
    assert_int_equal(copy(r, 7, TO, FROM, 200), plain);
    assert_int_equal(ops->set_memory_model(r->t, "stall=1.5", 9), PRESIL_TRANSPORT_EINVAL);
    assert_int_equal(copy(r, 8, TO, FROM, 200), plain);
    rig_close(r);
}

static void bounds_are_checked(void **state) {
    (void)state;
    rig *r = rig_open(NULL, 1);
    presil_bus_fault fault;
    uint8_t *before = malloc(MEMORY_BYTES);
    /* The second burst is outside. */
    begin_copy(r, 1, TO, BASE + MEMORY_BYTES - 256, 20, STUB_START);
    assert_int_equal(wait_for(r, (presil_wait){.deadline_cycles = 10000}).reason, PRESIL_WAIT_IRQ);
    assert_int_equal(get(r, STUB_STATUS), STUB_DONE | STUB_BUS_ERROR);
    assert_int_equal(ops->bus_fault(r->t, &fault), 0);
    assert_true(fault.valid && !fault.is_write);
    assert_int_equal(fault.address.value, BASE + MEMORY_BYTES);
    assert_in_range(fault.cycle, 100 + 16, 200);
    put(r, STUB_STATUS, STUB_DONE | STUB_BUS_ERROR);
    memcpy(before, r->memory, MEMORY_BYTES);
    begin_copy(r, 2, BASE - 4096, FROM, 3, STUB_START);
    assert_int_equal(wait_for(r, (presil_wait){.deadline_cycles = 10000}).reason, PRESIL_WAIT_IRQ);
    assert_int_equal(get(r, STUB_STATUS), STUB_DONE | STUB_BUS_ERROR);
    ops->bus_fault(r->t, &fault);
    assert_true(fault.valid && fault.is_write);
    assert_int_equal(fault.address.value, BASE - 4096);
    assert_memory_equal(before, r->memory, MEMORY_BYTES);
    put(r, STUB_STATUS, STUB_DONE | STUB_BUS_ERROR);
    (void)copy(r, 3, TO, FROM, 20);
    ops->bus_fault(r->t, &fault);
    assert_false(fault.valid);
    free(before);
    rig_close(r);
}

static void faults_are_injected(void **state) {
    (void)state;
    rig *r = rig_open(NULL, 1);
    static const struct {
        const char *text;
        uint32_t status, fault;
    } cases[] = {{"slverr@0x80000035", STUB_DONE | STUB_BUS_ERROR, 0},
                 {"decerr@0x80000035", STUB_DONE | STUB_BUS_ERROR, 1},
                 {"slverr@0x8001013f", STUB_DONE | STUB_BUS_ERROR, 0},
                 {"slverr@0x80000140", STUB_DONE, 0},
                 {"slverr@0x8000ffff,decerr@0x80010140", STUB_DONE, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(ops->inject(r->t, cases[i].text), 0);
        begin_copy(r, i, TO, FROM, 20, STUB_START);
        assert_int_equal(wait_for(r, (presil_wait){.deadline_cycles = 10000}).reason, PRESIL_WAIT_IRQ);
        assert_int_equal(get(r, STUB_STATUS), cases[i].status);
        put(r, STUB_STATUS, STUB_DONE | STUB_BUS_ERROR);
        presil_bus_fault fault;
        ops->bus_fault(r->t, &fault);
        assert_int_equal(fault.valid, cases[i].fault);
    }
    assert_int_equal(ops->inject(r->t, "slverr=3"), PRESIL_TRANSPORT_EINVAL);
    assert_int_equal(ops->inject(r->t, NULL), 0);
    (void)copy(r, 9, TO, FROM, 20);
    rig_close(r);
}

static void writes_are_logged(void **state) {
    (void)state;
    rig *r = rig_open(NULL, 1);
    const presil_write_range *ranges;
    size_t count = 99;
    assert_int_equal(ops->write_log_fetch(r->t, &ranges, &count), PRESIL_TRANSPORT_EINVAL);
    assert_int_equal(ops->write_log(r->t, 1), 0);
    (void)copy(r, 0, TO + 0x8000, FROM, 40); /* across the log's chunks, out of order, adjacent and overlapping */
    (void)copy(r, 1, TO, FROM, 3);
    (void)copy(r, 2, TO + 0x8000 + 40 * WORD / 256 * 256, FROM, 16);
    (void)copy(r, 3, TO + 0x7f00, FROM, 16);
    assert_int_equal(ops->write_log_fetch(r->t, &ranges, &count), 0);
    assert_int_equal(count, 2);
    assert_int_equal(ranges[0].base.value, TO);
    assert_int_equal(ranges[0].bytes, 3 * WORD);
    assert_int_equal(ranges[1].base.value, TO + 0x7f00);
    assert_int_equal(ranges[1].bytes, 0x100 + 0x200 + 0x100);
    assert_int_equal(ops->write_log_fetch(r->t, &ranges, &count), 0);
    assert_int_equal(count, 0);
    assert_int_equal(ops->write_log(r->t, 0), 0);
    (void)copy(r, 4, TO, FROM, 3);
    rig_close(r);
}

static presil_write_time written(rig *r, uint64_t address) {
    presil_write_time time = {.size = sizeof time};
    if (ops->write_times(r->t, (presil_daddr){address}, &time)) fail_msg("write_times: %s", ops->last_error(r->t));
    return time;
}

/* By hand, as above: of N beats the k-th is written at edge s + L + N + 2 + k, for N <= 16. The wait begins two edges
 * behind the start. */
static void writes_have_their_time(void **state) {
    (void)state;
    static const struct {
        const char *model;
        uint32_t beats, latency;
    } cases[] = {{NULL, 1, 100}, {NULL, 16, 100}, {"latency=1", 5, 1}, {"latency=9,response=3", 16, 9}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const uint64_t latency = cases[i].latency, n = cases[i].beats, other = TO + 0x1000;
        rig *r = rig_open(cases[i].model, i);
        const presil_write_range *ranges;
        size_t count;
        presil_write_time time = {.size = sizeof time};
        assert_int_equal(ops->write_times(r->t, (presil_daddr){TO}, &time), PRESIL_TRANSPORT_EINVAL); /* off */
        assert_int_equal(ops->write_log(r->t, 1), 0);
        (void)copy(r, i, TO, FROM, (uint32_t)n);
        for (uint64_t byte = 0; byte < n * WORD; byte++)
            assert_int_equal(written(r, TO + byte).first_cycle, latency + n + byte / WORD);
        assert_int_equal(ops->write_times(r->t, (presil_daddr){TO + n * WORD}, &time), PRESIL_TRANSPORT_EINVAL);
        assert_int_equal(ops->write_log_fetch(r->t, &ranges, &count), 0);
        assert_int_equal(written(r, TO).last_cycle, latency + n); /* still */
        (void)copy(r, i, other, FROM, 3);                         /* what was fetched is gone with the next launch */
        assert_int_equal(ops->write_times(r->t, (presil_daddr){TO}, &time), PRESIL_TRANSPORT_EINVAL);
        (void)copy(r, i, other + 2 * WORD, FROM, 3);
        time = written(r, other + 2 * WORD);
        assert_true(time.first_launch == 0 && time.last_launch == 1);
        assert_true(time.first_cycle == latency + 3 + 2 && time.last_cycle == latency + 3);
        rig_close(r);
    }
}

static void deadlines_and_watchdog_are_exact(void **state) {
    (void)state;
    rig *r = rig_open(NULL, 1);
    begin_copy(r, 0, TO, FROM, 4, STUB_START_HANG);
    presil_wait w = wait_for(r, (presil_wait){.deadline_cycles = 12345});
    assert_int_equal(w.reason, PRESIL_WAIT_DEADLINE);
    assert_int_equal(w.cycles, 12345);
    w = wait_for(r, (presil_wait){.deadline_cycles = 100000, .hang_cycles = 4321});
    assert_int_equal(w.reason, PRESIL_WAIT_HUNG);
    assert_int_equal(w.cycles, 4321);
    const uint64_t start = wall_ns();
    w = wait_for(r, (presil_wait){.deadline_ns = 20000000});
    assert_int_equal(w.reason, PRESIL_WAIT_DEADLINE);
    assert_in_range(wall_ns() - start, 20000000, 5000000000);
    assert_int_equal(get(r, STUB_STATUS), STUB_BUSY);
    assert_int_equal(ops->reset(r->t), 0);
    assert_int_equal(get(r, STUB_STATUS), 0);
    /* The watchdog counts from the last beat: a long copy that takes more cycles than it allows is not hung. */
    begin_copy(r, 1, TO, FROM, 1000, STUB_START);
    w = wait_for(r, (presil_wait){.hang_cycles = 200});
    assert_int_equal(w.reason, PRESIL_WAIT_IRQ);
    assert_true(w.cycles > 2000);
    assert_int_equal(wait_for(r, (presil_wait){.hang_cycles = 1}).cycles, 0); /* the interrupt is still high */
    rig_close(r);
}

typedef struct {
    volatile int cancel;
    uint64_t when;
} canceller;

static void *cancel_later(void *context) {
    canceller *c = context;
    nanosleep(&(struct timespec){0, 30000000}, NULL);
    c->when = wall_ns();
    c->cancel = 1;
    return NULL;
}

static void count_progress(void *context, uint64_t cycles) {
    uint64_t *last = context;
    assert_true(cycles > last[1]);
    last[0]++;
    last[1] = cycles;
}

static void waits_can_be_cancelled(void **state) {
    (void)state;
    rig *r = rig_open(NULL, 1);
    begin_copy(r, 0, TO, FROM, 4, STUB_START_HANG);
    for (int slow = 0; slow < 2; slow++) {
        assert_int_equal(ops->inject(r->t, slow ? "slow=300000" : NULL), 0);
        canceller c = {0};
        pthread_t thread;
        pthread_create(&thread, NULL, cancel_later, &c);
        const presil_wait w = wait_for(r, (presil_wait){.cancel = &c.cancel, .deadline_ns = 5000000000u});
        const uint64_t end = wall_ns();
        pthread_join(thread, NULL);
        assert_int_equal(w.reason, PRESIL_WAIT_CANCELLED);
        assert_in_range(end - c.when, 0, 2000000000);
    }
    assert_int_equal(ops->inject(r->t, NULL), 0);
    uint64_t progress[2] = {0, 0};
    (void)wait_for(r,
                   (presil_wait){.deadline_ns = 300000000, .progress = count_progress, .progress_context = progress});
    assert_in_range(progress[0], 1, 6);
    rig_close(r);
}

static void slow_hosts_give_the_same_cycles(void **state) {
    (void)state;
    rig *r = rig_open("stall=0.1", 3);
    const uint32_t want = copy(r, 5, TO, FROM, 50);
    assert_int_equal(ops->inject(r->t, "slow=20000"), 0);
    const uint64_t start = wall_ns();
    assert_int_equal(copy(r, 5, TO, FROM, 50), want);
    assert_true(wall_ns() - start > (uint64_t)want * 15000);
    rig_close(r);
}

static void a_stopped_model_is_made_anew(void **state) {
    (void)state;
    rig *r = rig_open(NULL, 1);
    const uint32_t want = copy(r, 1, TO, FROM, 30);
    static const struct {
        uint32_t control;
        const char *inject, *text;
    } cases[] = {{STUB_FATAL, NULL, "told to fail"},
                 {STUB_STOP, NULL, "$stop"},
                 {STUB_START_HANG, "fatal@500", "injected $fatal"},
                 {STUB_START_HANG, "stop@50", "$stop"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t value;
        assert_int_equal(ops->inject(r->t, cases[i].inject), 0);
        ops->launch(r->t, 1);
        int code = ops->write32(r->t, STUB_CONTROL, cases[i].control);
        presil_wait w = {.size = sizeof w, .deadline_cycles = 1000};
        if (cases[i].inject) {
            assert_int_equal(code, 0);
            code = ops->wait(r->t, &w);
        }
        assert_int_equal(code, PRESIL_TRANSPORT_ESTOPPED);
        assert_non_null(strstr(ops->last_error(r->t), cases[i].text));
        assert_int_equal(ops->read32(r->t, STUB_ID, &value), PRESIL_TRANSPORT_ESTOPPED);
        assert_non_null(strstr(ops->last_error(r->t), cases[i].text));
        assert_int_equal(ops->wait(r->t, &w), PRESIL_TRANSPORT_ESTOPPED);
        r->memory[5] = (uint8_t)(0x40 + i);
        assert_int_equal(ops->reset(r->t), 0);
        assert_int_equal(copy(r, 1, TO, FROM, 30), want);
        assert_int_equal(r->memory[(TO - BASE) + 5], 0x40 + i);
    }
    assert_non_null(strstr(r->log, "told to fail"));
    rig_close(r);
}

/* What the chip must not do on the bus. That signals hold while they wait is looked at in the check build alone. */
static void breaches_of_the_protocol_are_found(void **state) {
    (void)state;
    rig *r = rig_open("stall=0.5", 4);
    static const struct {
        uint64_t from;
        uint32_t control;
        const char *text;
    } cases[] = {{FROM + 4096 - 128, STUB_START, "AR at 0x80000f80"},
                 {FROM, STUB_START | STUB_EARLY_WLAST, "WLAST"},
                 {FROM, STUB_START | STUB_CHANGE_AR, "ARADDR changed"}};
    const bool check = library_path == library_names[1];
    for (size_t i = 0; i < (check ? 3u : 2u); i++) {
        begin_copy(r, i, TO, cases[i].from, 40, cases[i].control);
        presil_wait w = {.size = sizeof w, .deadline_cycles = 10000};
        assert_int_equal(ops->wait(r->t, &w), PRESIL_TRANSPORT_ESTOPPED);
        assert_non_null(strstr(ops->last_error(r->t), "protocol"));
        assert_non_null(strstr(ops->last_error(r->t), cases[i].text));
        assert_int_equal(ops->reset(r->t), 0);
        (void)copy(r, i, TO, FROM, 40);
    }
    rig_close(r);
}

static void instances_are_independent(void **state) {
    (void)state;
    rig *a = rig_open("stall=0.2", 11), *b = rig_open("latency=7", 12);
    const uint32_t want_a = copy(a, 1, TO, FROM, 90), want_b = copy(b, 1, TO, FROM, 90);
    begin_copy(a, 1, TO, FROM, 90, STUB_START);
    begin_copy(b, 1, TO, FROM, 90, STUB_START);
    for (int i = 0; i < 50; i++) {
        (void)wait_for(a, (presil_wait){.deadline_cycles = 3});
        (void)wait_for(b, (presil_wait){.deadline_cycles = 5});
    }
    uint32_t value;
    assert_int_equal(wait_for(b, (presil_wait){.deadline_cycles = 100000}).reason, PRESIL_WAIT_IRQ);
    assert_int_equal(get(b, STUB_CYCLES), want_b);
    assert_int_equal(ops->write32(b->t, STUB_CONTROL, STUB_FATAL), PRESIL_TRANSPORT_ESTOPPED);
    assert_int_equal(wait_for(a, (presil_wait){.deadline_cycles = 100000}).reason, PRESIL_WAIT_IRQ);
    assert_int_equal(get(a, STUB_CYCLES), want_a);
    assert_int_equal(ops->read32(b->t, STUB_ID, &value), PRESIL_TRANSPORT_ESTOPPED);
    rig_close(b);
    put(a, STUB_STATUS, STUB_DONE);
    assert_int_equal(copy(a, 1, TO, FROM, 90), want_a);
    rig_close(a);
}

static uint64_t big_endian(const uint8_t *p) {
    uint64_t value = 0;
    for (int i = 0; i < 8; i++) value = value << 8 | p[i];
    return value;
}

/* FST begins with a header block: type 0, length 329, first and last time. A cycle is 1000 time units, its second half
 * begins at 500. */
static void traces_the_window(void **state) {
    (void)state;
    rig *r = rig_open(NULL, 1);
    char path[] = "/tmp/test_transport_XXXXXX";
    close(mkstemp(path));
    if (library_path != library_names[2]) {
        assert_int_equal(ops->trace(r->t, path, 0, 10), PRESIL_TRANSPORT_ENOSYS);
    } else {
        const uint32_t want = copy(r, 1, TO, FROM, 30);
        for (uint64_t round = 0; round < 3; round++) {
            uint64_t now;
            ops->cycles(r->t, &now);
            assert_int_equal(ops->trace(r->t, path, 50, round == 2 ? 100000 : 150), 0);
            assert_int_equal(copy(r, 1, TO, FROM, 30), want);
            if (round == 1) assert_int_equal(ops->trace(r->t, NULL, 0, 0), 0);
            if (round == 2)
                assert_int_equal(ops->write32(r->t, STUB_CONTROL, STUB_FATAL),
                                 PRESIL_TRANSPORT_ESTOPPED); /* leaves a complete file */
            uint8_t header[330] = {0};
            FILE *f = fopen(path, "rb");
            assert_int_equal(fread(header, 1, sizeof header, f), sizeof header);
            fclose(f);
            assert_int_equal(header[0], 0);
            assert_int_equal(big_endian(header + 1), 329);
            assert_int_equal(big_endian(header + 9), (now + 50) * 1000);
            if (round < 2) assert_int_equal(big_endian(header + 17), (now + 150) * 1000 + 500);
        }
        assert_int_equal(ops->reset(r->t), 0);
        assert_int_equal(ops->trace(r->t, "/nonexistent/x.fst", 0, 10), PRESIL_TRANSPORT_EINVAL);
        assert_int_equal(ops->trace(r->t, path, 9, 3), PRESIL_TRANSPORT_EINVAL);
    }
    unlink(path);
    rig_close(r);
}

int main(int argc, char **argv) {
    if (argc != 4) {
        fprintf(stderr, "usage: %s FAST_LIB CHECK_LIB TRACE_LIB\n", argv[0]);
        return 2;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exports_one_symbol),
        cmocka_unit_test(says_what_it_is),
        cmocka_unit_test(refuses_bad_options),
        cmocka_unit_test(registers_hold_and_answer),
        cmocka_unit_test(memory_is_checked_and_shared),
        cmocka_unit_test(cycles_are_as_calculated),
        cmocka_unit_test(long_copies_share_the_bandwidth),
        cmocka_unit_test(cycles_do_not_depend_on_history),
        cmocka_unit_test(stalls_come_from_seed_and_launch),
        cmocka_unit_test(bounds_are_checked),
        cmocka_unit_test(faults_are_injected),
        cmocka_unit_test(writes_are_logged),
        cmocka_unit_test(writes_have_their_time),
        cmocka_unit_test(deadlines_and_watchdog_are_exact),
        cmocka_unit_test(waits_can_be_cancelled),
        cmocka_unit_test(slow_hosts_give_the_same_cycles),
        cmocka_unit_test(a_stopped_model_is_made_anew),
        cmocka_unit_test(breaches_of_the_protocol_are_found),
        cmocka_unit_test(instances_are_independent),
        cmocka_unit_test(traces_the_window),
    };
    int failed = 0;
    for (int i = 0; i < 3; i++) library_names[i] = argv[1 + i];
    for (int i = 0; i < 3; i++) {
        library_path = library_names[i];
        void *library = dlopen(library_path, RTLD_NOW | RTLD_LOCAL);
        if (!library) {
            fprintf(stderr, "%s\n", dlerror());
            return 2;
        }
        presil_transport_entry_fn entry;
        *(void **)&entry = dlsym(library, "presil_transport_entry");
        ops = entry();
        failed += cmocka_run_group_tests_name(library_path, tests, NULL, NULL);
    }
    return failed != 0;
}
