/* SPDX-License-Identifier: Apache-2.0 */
/* layouts_fixture.h - a device with a chip of paper (paper_chip.c), its tensors, and what was converted. */
#ifndef PRESIL_LAYOUTS_FIXTURE_H
#define PRESIL_LAYOUTS_FIXTURE_H

#include <stdlib.h>
#include "core_fixture.h"
#include "presil_op.h"

enum { PAGE = 4096, ROWS = 6, COLUMNS = 50, COUNT = ROWS * COLUMNS, BYTES = 2 * COUNT };

static uint64_t seen[2]; /* by converted() */

static inline presil_device *open_paper(const char *how, presil_mode mode, uint32_t host_memory, uint64_t bytes) {
    seen[0] = seen[1] = 0;
    assert_int_equal(setenv("PRESIL_PAPER", how, 1), 0);
    const presil_device_options options = {.size = sizeof options,
                                           .mode = mode,
                                           .config = "paper",
                                           .library = getenv("PRESIL_PAPER_LIBRARY"),
                                           .chip_library = getenv("PRESIL_PAPER_CHIP"),
                                           .memory_bytes = bytes,
                                           .host_memory = host_memory};
    presil_device *d = NULL;
    EXPECT_OK(presil_device_open(&options, &d));
    if (mode != PRESIL_MODE_MODEL) EXPECT_OK(presil_device_start(d));
    return d;
}

static inline presil_device *open_mapped(void) { return open_paper("twin", PRESIL_MODE_RTL, 0, 64u << 20); }

static inline presil_daddr block(presil_device *d, uint64_t bytes) {
    presil_daddr at;
    EXPECT_OK(presil_alloc(d, NULL, NULL, bytes, &at));
    return at;
}

/* ROWS x COLUMNS, by rows or by columns. */
static inline presil_operand view(const char *name, presil_daddr at, bool turned) {
    return (presil_operand){.name = name,
                            .data = at,
                            .dtype = PRESIL_INT16,
                            .ndim = 2,
                            .shape = {ROWS, COLUMNS},
                            .stride = {turned ? 1 : COLUMNS, turned ? ROWS : 1}};
}

static inline int negate(presil_device *d, const char *label, presil_operand from, presil_operand to) {
    static const presil_attribute function = {.name = "function", .text = "neg"};
    const presil_op op = {.size = sizeof op,
                          .kind = PRESIL_OP_ELEMENTWISE,
                          .label = label,
                          .inputs = &from,
                          .outputs = &to,
                          .input_count = 1,
                          .output_count = 1,
                          .attributes = &function,
                          .attribute_count = 1};
    return presil_op_enqueue(d, NULL, &op);
}

static inline int neg(presil_device *d, const char *label, presil_daddr from, presil_daddr to) {
    return negate(d, label, view("input", from, false), view("output", to, false));
}

static inline int16_t *host(presil_device *d, presil_daddr at) { return presil_host_pointer(d, at, 1); }

static inline void fill(presil_device *d, presil_daddr at, int first) {
    for (int i = 0; i < COUNT; i++) host(d, at)[i] = (int16_t)(first + 3 * i);
}

static inline void holds(presil_device *d, presil_daddr at, int first, int sign) {
    for (int i = 0; i < COUNT; i++) assert_int_equal(host(d, at)[i], (int16_t)(sign * (first + 3 * i)));
}

/* Conversions since the last call. */
static inline void converted(presil_device *d, uint64_t packs, uint64_t unpacks) {
    uint64_t *before = seen;
    presil_memory_stats s = {.size = sizeof s};
    EXPECT_OK(presil_memory_get_stats(d, &s));
    if (s.packs - before[0] != packs || s.unpacks - before[1] != unpacks)
        fail_msg("%d packs and %d unpacks expected, %d and %d found", (int)packs, (int)unpacks,
                 (int)(s.packs - before[0]), (int)(s.unpacks - before[1]));
    before[0] = s.packs, before[1] = s.unpacks;
    assert_true(s.pack_bytes >= s.packs * BYTES / 2 && s.unpack_bytes >= s.unpacks * BYTES / 2);
}

static inline void closed(presil_device *d) {
    presil_memory_stats s = {.size = sizeof s};
    presil_memory_empty_cache(d); /* blocks of ours are given back, and never the user's */
    EXPECT_OK(presil_memory_get_stats(d, &s));
    assert_int_equal(s.active_blocks, 0);
    presil_device_close(d);
}

#endif
