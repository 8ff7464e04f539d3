/* SPDX-License-Identifier: Apache-2.0 */
/* Activations in layouts of the chip's own, at a chip of paper: what is converted, counted, and whose bytes hold. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "layouts_fixture.h"
#include "presil_capture.h"

static void a_chain_stays_packed(void **state) {
    (void)state;
    presil_device *d = open_mapped();
    const presil_daddr a = block(d, BYTES), b = block(d, BYTES), c = block(d, BYTES);
    fill(d, a, 5);
    reports_begin(d);
    EXPECT_OK(neg(d, "in=b,out=b", a, b));
    EXPECT_OK(neg(d, "in=b,out=b", b, c));
    EXPECT_OK(neg(d, "in=b,out=b", c, b));
    EXPECT_OK(presil_host_access(d, NULL, 0));
    converted(d, 1, 0);
    assert_int_equal(reports[0].conversions, 1);
    assert_int_equal(reports[0].conversion_bytes, BYTES + 64);
    assert_int_equal(reports[1].conversions + reports[2].conversions, 0);
    EXPECT_OK(presil_host_access(d, host(d, b), BYTES));
    converted(d, 0, 1);
    holds(d, b, 5, -1);
    EXPECT_OK(presil_device_synchronize(d)); /* and c */
    converted(d, 0, 1);
    holds(d, c, 5, 1);
    EXPECT_OK(presil_device_synchronize(d));
    converted(d, 0, 0);

    EXPECT_OK(neg(d, "in=b,out=b", a, b)); /* a: the host may have written it */
    EXPECT_OK(neg(d, "", b, c));           /* as it lies */
    EXPECT_OK(neg(d, "in=b", b, a));       /* both sides of b hold */
    EXPECT_OK(presil_host_access(d, NULL, 0));
    converted(d, 1, 1);
    EXPECT_OK(neg(d, "in=x", b, c)); /* in another layout, from the strided side */
    EXPECT_OK(neg(d, "in=x,out=x", c, a));
    EXPECT_OK(neg(d, "in=b", a, c)); /* from x to b */
    EXPECT_OK(presil_device_synchronize(d));
    converted(d, 3, 1);
    holds(d, c, 5, 1);
    EXPECT_OK(presil_free(d, a)), EXPECT_OK(presil_free(d, b)), EXPECT_OK(presil_free(d, c));
    closed(d);
}

static void the_host_writes(void **state) {
    (void)state;
    presil_device *d = open_mapped();
    const presil_daddr a = block(d, BYTES), b = block(d, BYTES);
    fill(d, a, 1);
    EXPECT_OK(neg(d, "in=b", a, b));
    EXPECT_OK(presil_device_synchronize(d));
    fill(d, a, 2);
    EXPECT_OK(neg(d, "in=b", a, b));
    EXPECT_OK(presil_device_synchronize(d));
    holds(d, b, 2, -1);
    EXPECT_OK(neg(d, "in=b", a, b));
    while (!presil_stream_query(d, NULL)) {}
    fill(d, a, 3);
    EXPECT_OK(neg(d, "in=b", a, b));
    EXPECT_OK(presil_host_access(d, host(d, a), 2));
    fill(d, a, 4);
    EXPECT_OK(neg(d, "in=b", a, b));
    EXPECT_OK(presil_device_synchronize(d));
    holds(d, b, 4, -1);
    converted(d, 5, 0);

    EXPECT_OK(neg(d, "out=b", a, b)); /* written over in part: what is left is kept */
    int16_t *buffer = calloc(COUNT, 2);
    EXPECT_OK(presil_copy_to_device(d, NULL, (presil_daddr){b.value + 20}, buffer, 40, PRESIL_COPY_DIRECT));
    EXPECT_OK(presil_device_synchronize(d));
    converted(d, 0, 1);
    assert_true(host(d, b)[9] == -(4 + 27) && host(d, b)[10] == 0 && host(d, b)[30] == -(4 + 90));
    EXPECT_OK(neg(d, "out=b", a, b)); /* and as a whole: never converted */
    EXPECT_OK(presil_copy_to_device(d, NULL, b, buffer, BYTES, PRESIL_COPY_DIRECT));
    EXPECT_OK(neg(d, "in=b", b, a));
    EXPECT_OK(presil_device_synchronize(d));
    converted(d, 1, 0);
    assert_true(host(d, b)[9] == 0 && host(d, a)[9] == 0);
    EXPECT_OK(presil_free(d, a)), EXPECT_OK(presil_free(d, b));
    free(buffer);
    closed(d);
}

/* Without host_memory 2 presil_host_access() is a wait for everything; so is a reset. */
static void the_host_writes_behind_any_wait(void **state) {
    (void)state;
    presil_device *d = open_mapped();
    const presil_daddr a = block(d, BYTES), b = block(d, BYTES);
    fill(d, a, 1);
    EXPECT_OK(neg(d, "in=b", a, b));
    EXPECT_OK(presil_host_access(d, host(d, b), BYTES));
    fill(d, a, 2);
    EXPECT_OK(neg(d, "in=b", a, b));
    EXPECT_OK(presil_device_set_watchdog(d, 0)); /* it has run */
    EXPECT_OK(presil_device_reset(d));
    holds(d, b, 2, -1);
    fill(d, a, 3);
    EXPECT_OK(neg(d, "in=b", a, b));
    EXPECT_OK(presil_device_synchronize(d));
    holds(d, b, 3, -1);
    converted(d, 3, 0);
    EXPECT_OK(presil_free(d, a)), EXPECT_OK(presil_free(d, b));
    closed(d);
}

static void what_was_freed_is_nobodys(void **state) {
    (void)state;
    presil_device *d = open_mapped();
    const presil_daddr a = block(d, BYTES), b = block(d, BYTES);
    fill(d, a, 7);
    EXPECT_OK(neg(d, "out=b", a, b));
    EXPECT_OK(neg(d, "in=b,out=b", b, a));
    EXPECT_OK(presil_free(d, b)); /* before its launches run */
    const presil_daddr c = block(d, BYTES);
    assert_int_equal(c.value, b.value);
    EXPECT_OK(neg(d, "", a, c)); /* as it lies: a is converted, what was in its place isn't */
    EXPECT_OK(presil_device_synchronize(d));
    converted(d, 0, 1);
    holds(d, c, 7, -1);
    EXPECT_OK(neg(d, "out=x", a, c));
    EXPECT_OK(presil_free(d, c));
    EXPECT_OK(presil_device_synchronize(d));
    converted(d, 0, 0);
    EXPECT_OK(presil_free(d, a));
    closed(d);
}

static void tensors_that_share_bytes(void **state) {
    (void)state;
    presil_device *d = open_mapped();
    const presil_daddr a = block(d, 2 * BYTES);
    const presil_daddr shifted = {a.value + 10};
    fill(d, a, 9);
    EXPECT_OK(neg(d, "in=b,out=b", a, shifted)); /* two blocks would not be what shares bytes */
    EXPECT_OK(presil_host_access(d, NULL, 0));
    converted(d, 0, 0);
    fill(d, a, 9);
    EXPECT_OK(neg(d, "in=b,out=b", a, a)); /* in place */
    EXPECT_OK(presil_device_synchronize(d));
    converted(d, 1, 1);
    holds(d, a, 9, -1);

    const presil_daddr b = block(d, 2 * BYTES), half = {b.value + BYTES / 2};
    memset(host(d, b), 0, 2 * BYTES);
    EXPECT_OK(neg(d, "out=b", a, b));
    EXPECT_OK(neg(d, "out=b", a, half)); /* over the second half of it */
    EXPECT_OK(presil_device_synchronize(d));
    converted(d, 0, 2);
    for (int i = 0; i < COUNT / 2; i++) assert_int_equal(host(d, b)[i], 9 + 3 * i);
    holds(d, half, 9, 1);
    EXPECT_OK(neg(d, "out=b", a, b));
    EXPECT_OK(neg(d, "", a, b)); /* over all of it: never converted */
    EXPECT_OK(neg(d, "out=x", a, b));
    EXPECT_OK(neg(d, "out=b", a, b)); /* likewise, in another layout */
    EXPECT_OK(presil_device_synchronize(d));
    converted(d, 0, 1);
    presil_operand spread = view("output", b, false);
    spread.shape[0] = ROWS / 2, spread.stride[0] = 2 * COLUMNS; /* every other row */
    presil_operand top = view("input", a, false);
    top.shape[0] = ROWS / 2;
    EXPECT_OK(neg(d, "out=b", a, b));
    EXPECT_OK(negate(d, "in=x,out=b", top, spread));
    EXPECT_OK(presil_device_synchronize(d));
    converted(d, 1, 2); /* rows 0, 2, 4 are new, the others stay */
    assert_int_equal(host(d, b)[2 * COLUMNS], -host(d, a)[COLUMNS]);
    assert_int_equal(host(d, b)[COLUMNS], -host(d, a)[COLUMNS]);
    EXPECT_OK(negate(d, "in=b,out=b", view("input", b, true), view("output", a, true)));
    EXPECT_OK(negate(d, "in=b", view("input", a, true), view("output", b, false)));
    EXPECT_OK(presil_device_synchronize(d));
    for (int y = 0; y < ROWS; y++) /* both turned: the same place; the last one, by rows */
        for (int x = 0; x < COLUMNS; x++) assert_int_equal(host(d, b)[y * COLUMNS + x], -host(d, a)[x * ROWS + y]);
    presil_memory_stats s = {.size = sizeof s};
    presil_memory_empty_cache(d);
    EXPECT_OK(presil_memory_get_stats(d, &s));
    assert_int_equal(s.active_blocks, 2); /* none of ours */
    EXPECT_OK(presil_free(d, a)), EXPECT_OK(presil_free(d, b));
    closed(d);
}

static void launches_that_fail(void **state) {
    (void)state;
    presil_device *d = open_mapped();
    const presil_daddr a = block(d, BYTES), b = block(d, BYTES), c = block(d, BYTES);
    fill(d, a, 3), fill(d, b, 1000);
    static const char *const labels[] = {"out=b,fail", "out=b,hang"};
    static const int statuses[] = {PRESIL_EBUS, PRESIL_EHUNG};
    for (int i = 0; i < 2; i++) {
        EXPECT_OK(neg(d, "out=b", a, c));
        EXPECT_OK(neg(d, labels[i], a, b));
        EXPECT_STATUS(presil_device_synchronize(d), statuses[i]);
        EXPECT_OK(presil_device_synchronize(d));
        converted(d, 0, 1); /* c; b is whatever it was */
        holds(d, c, 3, -1);
    }
    EXPECT_OK(neg(d, "out=b", a, b));
    EXPECT_OK(neg(d, "in=b,out=b", b, c));
    presil_device_cancel(d); /* before they run */
    EXPECT_STATUS(presil_device_synchronize(d), PRESIL_ECANCELLED);
    EXPECT_OK(presil_device_synchronize(d));
    converted(d, 0, 0);
    holds(d, c, 3, -1);
    EXPECT_OK(neg(d, "in=b,out=b", c, b));
    EXPECT_OK(presil_device_reset(d)); /* memory is kept, and which side holds it */
    EXPECT_OK(neg(d, "in=b,out=b", c, b));
    EXPECT_OK(presil_host_access(d, NULL, 0));
    EXPECT_OK(presil_device_reset(d));
    EXPECT_OK(presil_device_synchronize(d));
    holds(d, b, 3, 1);
    EXPECT_OK(presil_free(d, a)), EXPECT_OK(presil_free(d, b)), EXPECT_OK(presil_free(d, c));
    closed(d);
}

static void the_devices_memory_is_lost(void **state) {
    (void)state;
    for (uint32_t host_memory = 1; host_memory <= 2; host_memory++) {
        presil_device *d = open_paper("twin,apart", PRESIL_MODE_RTL, host_memory, 64u << 20);
        const presil_daddr a = block(d, BYTES), b = block(d, BYTES), c = block(d, BYTES);
        fill(d, a, 5);
        EXPECT_OK(neg(d, "out=b", a, b));
        EXPECT_OK(presil_host_access(d, NULL, 0));
        EXPECT_OK(neg(d, "fail", a, c));
        assert_int_equal(setenv("PRESIL_PAPER", "twin,apart,lose", 1), 0);
        if (host_memory == 1) { /* the host has it all, b packed */
            EXPECT_STATUS(presil_host_access(d, NULL, 0), PRESIL_EBUS);
            EXPECT_OK(presil_device_synchronize(d));
            converted(d, 0, 1);
            holds(d, b, 5, -1);
        } else { /* b was there alone */
            EXPECT_STATUS(presil_host_access(d, NULL, 0), PRESIL_EDEAD);
            EXPECT_TEXT("load everything again");
        }
        assert_int_equal(setenv("PRESIL_PAPER", "twin,apart", 1), 0);
        EXPECT_OK(presil_device_reset(d));
        fill(d, a, 6);
        EXPECT_OK(neg(d, "in=x,out=b", a, b));
        EXPECT_OK(presil_device_synchronize(d));
        holds(d, b, 6, -1);
        EXPECT_OK(presil_free(d, a)), EXPECT_OK(presil_free(d, b)), EXPECT_OK(presil_free(d, c));
        closed(d);
    }
}

static void what_never_ran_changes_nothing(void **state) {
    (void)state;
    presil_device *d = open_mapped();
    const presil_daddr a = block(d, BYTES), b = block(d, 2 * BYTES), half = {b.value + BYTES / 2};
    fill(d, a, 7);
    EXPECT_OK(neg(d, "out=b", a, b));
    EXPECT_OK(neg(d, "fail", a, a));
    assert_int_equal(setenv("PRESIL_PAPER", "twin,broken", 1), 0);
    EXPECT_STATUS(presil_host_access(d, NULL, 0), PRESIL_EDEAD);
    EXPECT_OK(neg(d, "out=b", a, half));
    EXPECT_STATUS(presil_host_access(d, NULL, 0), PRESIL_EDEAD);
    assert_int_equal(setenv("PRESIL_PAPER", "twin", 1), 0);
    EXPECT_OK(presil_device_reset(d));
    EXPECT_OK(presil_device_synchronize(d));
    converted(d, 0, 1);
    holds(d, b, 7, -1);
    EXPECT_OK(presil_free(d, a)), EXPECT_OK(presil_free(d, b));
    closed(d);
}

static void what_the_chip_wrote_instead_is_shown(void **state) {
    (void)state;
    presil_device *d = open_paper("twin", PRESIL_MODE_VERIFY, 0, 64u << 20);
    const presil_daddr a = block(d, BYTES), b = block(d, BYTES);
    fill(d, a, 2), fill(d, b, 1000);
    EXPECT_OK(neg(d, "out=b,refuse", a, b));
    EXPECT_STATUS(presil_device_synchronize(d), PRESIL_EMISMATCH);
    EXPECT_OK(presil_device_synchronize(d));
    holds(d, b, 2, -1);
    EXPECT_OK(presil_free(d, a)), EXPECT_OK(presil_free(d, b));
    closed(d);
}

/* Another thread, while an operator whose tensors have their blocks is on its way into the queue. */
static presil_device *emptied;
static presil_daddr taken;
static void empty(void) {
    presil_memory_empty_cache(emptied);
    taken = block(emptied, BYTES);
}

static void blocks_of_an_operator_that_is_planned_stay(void **state) {
    (void)state;
    presil_device *d = emptied = open_mapped();
    void *chip = dlopen(getenv("PRESIL_PAPER_CHIP"), RTLD_NOW | RTLD_NOLOAD);
    assert_non_null(chip);
    void (**planning)(void) = (void (**)(void))dlsym(chip, "paper_planning");
    assert_non_null(planning);
    const presil_daddr a = block(d, BYTES), b = block(d, BYTES);
    fill(d, a, 4);
    *planning = empty;
    EXPECT_OK(neg(d, "in=b,out=x", a, b));
    *planning = NULL;
    EXPECT_OK(presil_host_access(d, NULL, 0));
    fill(d, taken, 70);
    EXPECT_OK(presil_device_synchronize(d));
    holds(d, b, 4, -1), holds(d, taken, 70, 1);
    converted(d, 1, 1);
    EXPECT_OK(presil_free(d, a)), EXPECT_OK(presil_free(d, b)), EXPECT_OK(presil_free(d, taken));
    (void)dlclose(chip);
    closed(d);
}

/* What a listener is told that the launch reads: the packed bytes, in place. */
static uint64_t told_at;
static int16_t told_first;
static int told(void *context, const presil_capture_launch *launch, const presil_capture_bytes *reads) {
    (void)context, (void)launch;
    told_at = reads->at[0].base.value;
    memcpy(&told_first, reads->host + (told_at - reads->base.value), sizeof told_first);
    return 1;
}
static const char *told_end(void *context, const presil_capture_launch *launch, const presil_report *report,
                            const presil_capture_bytes *writes) {
    (void)context, (void)launch, (void)report, (void)writes;
    return NULL;
}

static void listeners_see_what_is_read(void **state) {
    (void)state;
    presil_device *d = open_mapped();
    const presil_daddr a = block(d, BYTES), b = block(d, BYTES);
    fill(d, a, 6);
    const presil_capture_ops ops = {.size = sizeof ops, .begin = told, .end = told_end};
    EXPECT_OK(presil_set_capture(d, &ops, NULL));
    EXPECT_OK(neg(d, "in=x", a, b));
    EXPECT_OK(presil_device_synchronize(d));
    assert_int_not_equal(told_at, a.value);
    assert_int_equal(told_first, 6 ^ 0x5555);
    EXPECT_OK(presil_set_capture(d, NULL, NULL));
    EXPECT_OK(presil_free(d, a)), EXPECT_OK(presil_free(d, b));
    closed(d);
}

static void blocks_give_way(void **state) {
    (void)state;
    presil_device *d = open_paper("twin", PRESIL_MODE_RTL, 0, (1u << 20) + 64 * PAGE);
    presil_memory_stats s = {.size = sizeof s};
    EXPECT_OK(presil_memory_get_stats(d, &s));
    const presil_daddr a = block(d, BYTES), b = block(d, BYTES);
    fill(d, a, 8);
    EXPECT_OK(neg(d, "in=b,out=b", a, b));
    const presil_daddr rest = block(d, s.capacity - 2 * PAGE); /* all of it */
    converted(d, 1, 1);
    EXPECT_OK(neg(d, "in=b,out=b", b, a)); /* no room: as they lie */
    EXPECT_OK(presil_device_synchronize(d));
    converted(d, 0, 0);
    holds(d, b, 8, -1), holds(d, a, 8, 1);
    presil_daddr more;
    EXPECT_STATUS(presil_alloc(d, NULL, NULL, PAGE, &more), PRESIL_ENOMEM);
    EXPECT_OK(presil_free(d, a)), EXPECT_OK(presil_free(d, b)), EXPECT_OK(presil_free(d, rest));
    closed(d);
}

/* ---- random sequences against a model in which there is one form */
enum { BLOCKS = 5, ELEMENTS = 3 * PAGE / 2, STEPS = 4000 };
typedef struct {
    presil_device *d;
    presil_daddr at[BLOCKS];
    int16_t value[BLOCKS][ELEMENTS];
    bool known[BLOCKS][ELEMENTS];
    uint64_t seed;
    bool maps;
} world;

static uint32_t pick(world *w, uint32_t n) { return random32(&w->seed) % n; }

static void check(world *w, uint32_t b, uint32_t from, uint32_t count, const int16_t *found) {
    for (uint32_t i = 0; i < count; i++) {
        if (w->known[b][from + i] && found[i] != w->value[b][from + i])
            fail_msg("block %u, element %u: %d expected, %d found", b, from + i, w->value[b][from + i], found[i]);
    }
}

static void set(world *w, uint32_t b, uint32_t from, uint32_t count, int16_t *to) {
    for (uint32_t i = 0; i < count; i++) {
        to[i] = w->value[b][from + i] = (int16_t)random32(&w->seed);
        w->known[b][from + i] = true;
    }
}

static presil_operand any_view(world *w, const char *name, uint32_t b, uint32_t from, uint32_t rows, uint32_t columns,
                               bool turned) {
    return (presil_operand){.name = name,
                            .data = {w->at[b].value + 2 * from},
                            .dtype = PRESIL_INT16,
                            .ndim = 2,
                            .shape = {rows, columns},
                            .stride = {turned ? 1 : columns, turned ? rows : 1}};
}

static void step_launch(world *w) {
    static const char *const labels[] = {"",      "in=b",       "out=b",      "in=b,out=b", "in=x",
                                         "out=x", "in=x,out=b", "in=b,out=x", "in=x,out=x"};
    char label[40];
    const uint32_t a = pick(w, BLOCKS), b = (a + 1 + pick(w, BLOCKS - 1)) % BLOCKS, wish = pick(w, 9);
    /* a few shapes and places, so that tensors meet again */
    const uint32_t rows = 2 + 3 * pick(w, 2), columns = 100 * (1 + pick(w, 2)), n = rows * columns;
    const uint32_t at_a = 50 * pick(w, 4) * (1 + 9 * pick(w, 2)), at_b = pick(w, 2) ? at_a : 70 * pick(w, 4);
    const bool turned_in = strstr(labels[wish], "in=") && pick(w, 2),
               turned_out = strstr(labels[wish], "out=") && pick(w, 2), fails = pick(w, 40) == 0;
    (void)snprintf(label, sizeof label, "%s%s", labels[wish], fails ? ",fail" : "");
    const bool in_place = pick(w, 8) == 0 && turned_in == turned_out;
    const uint32_t to = in_place ? a : b, at_to = in_place ? at_a : at_b;
    EXPECT_OK(negate(w->d, label, any_view(w, "input", a, at_a, rows, columns, turned_in),
                     any_view(w, "output", to, at_to, rows, columns, turned_out)));
    int16_t result[1000];
    bool known[1000];
    for (uint32_t y = 0; y < rows; y++) {
        for (uint32_t x = 0; x < columns; x++) {
            const uint32_t from = at_a + (turned_in ? x * rows + y : y * columns + x),
                           i = turned_out ? x * rows + y : y * columns + x;
            result[i] = (int16_t)-w->value[a][from];
            known[i] = w->known[a][from] && !fails;
        }
    }
    memcpy(&w->value[to][at_to], result, 2 * n);
    memcpy(&w->known[to][at_to], known, n);
    if (fails) EXPECT_STATUS(presil_device_synchronize(w->d), PRESIL_EBUS);
}

static void step_copy(world *w) {
    static int16_t buffer[ELEMENTS];
    const uint32_t a = pick(w, BLOCKS), b = pick(w, BLOCKS), from = pick(w, ELEMENTS), to = pick(w, ELEMENTS);
    const uint32_t most = ELEMENTS - (from > to ? from : to), count = 1 + pick(w, most);
    const presil_daddr at = {w->at[a].value + 2 * from}, end = {w->at[b].value + 2 * to};
    switch (pick(w, 3)) {
    case 0:
        EXPECT_OK(presil_copy_on_device(w->d, NULL, end, at, 2 * count, PRESIL_COPY_DIRECT));
        memmove(&w->value[b][to], &w->value[a][from], 2 * count);
        memmove(&w->known[b][to], &w->known[a][from], count);
        break;
    case 1:
        EXPECT_OK(presil_host_access(w->d, NULL, 0)); /* the buffer is used again */
        set(w, a, from, count, buffer);
        EXPECT_OK(presil_copy_to_device(w->d, NULL, at, buffer, 2 * count, PRESIL_COPY_DIRECT));
        EXPECT_OK(presil_host_access(w->d, NULL, 0));
        break;
    default:
        EXPECT_OK(presil_copy_to_host(w->d, NULL, buffer, at, 2 * count, PRESIL_COPY_DIRECT));
        EXPECT_OK(presil_host_access(w->d, NULL, 0));
        check(w, a, from, count, buffer);
    }
}

static void step_host(world *w) {
    const uint32_t b = pick(w, BLOCKS), from = pick(w, ELEMENTS), count = 1 + pick(w, ELEMENTS - from);
    int16_t *at = w->maps ? host(w->d, w->at[b]) + from : NULL;
    if (!at) {
        step_copy(w);
        return;
    }
    if (pick(w, 3))
        EXPECT_OK(presil_host_access(w->d, at, 2 * count));
    else
        EXPECT_OK(presil_device_synchronize(w->d));
    check(w, b, from, count, at);
    if (pick(w, 2)) set(w, b, from, count, at);
}

static void step_block(world *w) {
    const uint32_t b = pick(w, BLOCKS);
    EXPECT_OK(presil_free(w->d, w->at[b]));
    if (pick(w, 4) == 0) EXPECT_OK(presil_device_synchronize(w->d));
    w->at[b] = block(w->d, 2 * ELEMENTS);
    memset(w->known[b], 0, sizeof w->known[b]);
}

static void step_other(world *w, bool model) {
    switch (pick(w, 4)) {
    case 0: presil_memory_empty_cache(w->d); break;
    case 1: (void)presil_stream_query(w->d, NULL); break;
    case 2: EXPECT_OK(presil_device_synchronize(w->d)); break;
    default:
        if (model) EXPECT_OK(presil_device_set_mode(w->d, (presil_mode)pick(w, 3)));
    }
}

static void play(const char *how, uint32_t host_memory, uint64_t seed) {
    world *w = calloc(1, sizeof *w);
    const bool apart = strstr(how, "apart") != NULL;
    w->d = open_paper(how, PRESIL_MODE_RTL, host_memory, 64u << 20);
    w->seed = seed;
    w->maps = !apart || host_memory;
    for (int b = 0; b < BLOCKS; b++) w->at[b] = block(w->d, 2 * ELEMENTS);
    for (int i = 0; i < STEPS; i++) {
        const uint32_t kind = pick(w, 20);
        if (kind < 12)
            step_launch(w);
        else if (kind < 15)
            step_copy(w);
        else if (kind < 18)
            step_host(w);
        else if (kind < 19)
            step_block(w);
        else
            step_other(w, true);
    }
    static int16_t all[ELEMENTS];
    for (uint32_t b = 0; b < BLOCKS; b++) {
        EXPECT_OK(presil_copy_to_host(w->d, NULL, all, w->at[b], sizeof all, PRESIL_COPY_DIRECT));
        EXPECT_OK(presil_device_synchronize(w->d));
        check(w, b, 0, ELEMENTS, all);
        EXPECT_OK(presil_free(w->d, w->at[b]));
    }
    presil_memory_stats s = {.size = sizeof s};
    EXPECT_OK(presil_memory_get_stats(w->d, &s));
    assert_true(s.packs > 100 && s.unpacks > 100);
    closed(w->d);
    free(w);
}

static void random_sequences(void **state) {
    (void)state;
    const char *given = getenv("PRESIL_TEST_SEED");
    const uint64_t seed = given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL);
    print_message("PRESIL_TEST_SEED=%llu\n", (unsigned long long)seed);
    play("twin", 0, seed);
    play("twin,apart", 0, seed + 1);
    play("twin,apart", 1, seed + 2);
    play("twin,apart", 2, seed + 3);
}

/* Mode VERIFY of a chip without an executor: packed operands are compared with the plain-C reference, too. */
static void compared_by_reference(void **state) {
    (void)state;
    for (uint32_t copies = 0; copies < 2; copies++) { /* mapped; the transport has a memory of its own */
        presil_device *d = open_paper(copies ? "apart" : "", PRESIL_MODE_VERIFY, copies, 64u << 20);
        const presil_daddr a = block(d, BYTES), b = block(d, BYTES), c = block(d, BYTES);
        fill(d, a, 5);
        reports_begin(d);
        EXPECT_OK(neg(d, "in=b,out=b", a, b));
        EXPECT_OK(neg(d, "in=b,out=t", b, c));
        EXPECT_OK(neg(d, "in=t,out=t", c, c)); /* in place */
        EXPECT_OK(neg(d, "in=t", c, b));
        EXPECT_OK(negate(d, "in=t,out=b", view("input", a, true), view("output", c, true)));
        EXPECT_OK(presil_device_synchronize(d));
        assert_int_equal(report_count, 5);
        for (size_t i = 0; i < 5; i++) assert_int_equal(reports[i].verified, 1);
        presil_verified sum = {.size = sizeof sum};
        EXPECT_OK(presil_device_get_verified(d, &sum));
        assert_int_equal(sum.compared, 5);
        presil_memory_stats s = {.size = sizeof s};
        EXPECT_OK(presil_memory_get_stats(d, &s));
        assert_int_equal(s.packs, 2);
        EXPECT_OK(presil_host_access(d, NULL, 0));
        holds(d, b, 5, 1);
        assert_int_equal(setenv("PRESIL_PAPER", copies ? "apart,wrong" : "wrong", 1), 0);
        reports_begin(d);
        EXPECT_OK(neg(d, "in=b,out=t", a, c));
        EXPECT_STATUS(presil_device_synchronize(d), PRESIL_EMISMATCH);
        EXPECT_TEXT("chip and reference differ: output [3, 0] is -4");
        EXPECT_TEXT("1 of 300 elements differ");
        assert_int_equal(reports[0].verified, 0);
        assert_int_equal(reports[0].difference_address, c.value + 300);
        EXPECT_OK(presil_free(d, a));
        EXPECT_OK(presil_free(d, b));
        EXPECT_OK(presil_free(d, c));
        closed(d);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(compared_by_reference),
                                       cmocka_unit_test(a_chain_stays_packed),
                                       cmocka_unit_test(the_host_writes),
                                       cmocka_unit_test(the_host_writes_behind_any_wait),
                                       cmocka_unit_test(what_was_freed_is_nobodys),
                                       cmocka_unit_test(tensors_that_share_bytes),
                                       cmocka_unit_test(launches_that_fail),
                                       cmocka_unit_test(the_devices_memory_is_lost),
                                       cmocka_unit_test(what_never_ran_changes_nothing),
                                       cmocka_unit_test(what_the_chip_wrote_instead_is_shown),
                                       cmocka_unit_test(blocks_of_an_operator_that_is_planned_stay),
                                       cmocka_unit_test(listeners_see_what_is_read),
                                       cmocka_unit_test(blocks_give_way),
                                       cmocka_unit_test(random_sequences)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
