/* SPDX-License-Identifier: Apache-2.0 */
/* presil_kit.h and presil_kit_plan.h against brute force: which byte is which element, which ranges meet, what a window
 * covers, scales, epilogues, stored plans. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "presil_kit_plan.h"

enum { BASE = 0x10000, SPAN = 16384 };

static uint64_t state_of_random = 20261123;
static int64_t any(int64_t from, int64_t to) { /* both included */
    state_of_random = state_of_random * 6364136223846793005u + 1442695040888963407u;
    return from + (int64_t)((state_of_random >> 33) % (uint64_t)(to - from + 1));
}

/* ---- views */

static const presil_layout *const some_layout = (const presil_layout *)&state_of_random;

/* An operand of up to SPAN bytes: dense in any order of dimensions but the channels, with gaps, some upside down; or in
 * blocks of 4 channels. */
static presil_operand any_operand(int64_t bytes, bool layout) {
    presil_operand t = {.name = "output", .data = {BASE + SPAN / 2}, .ndim = 4, .layout = layout ? some_layout : NULL};
    int order[3] = {0, 1, 2};
    for (int i = 2; i > 0; i--) {
        const int k = (int)any(0, i), other = order[i];
        order[i] = order[k], order[k] = other;
    }
    for (int d = 0; d < 4; d++) t.shape[d] = any(1, d == 3 ? 9 : 4);
    int64_t step = t.shape[3] + (any(0, 1) ? any(0, 3) : 0);
    t.stride[3] = 1;
    for (int i = 0; i < 3; i++) {
        t.stride[order[i]] = any(0, 3) ? step : -step;
        step = step * t.shape[order[i]] + (any(0, 3) ? 0 : any(1, 5));
    }
    t.dtype = bytes == 4 ? PRESIL_INT32 : PRESIL_INT8;
    return t;
}

typedef struct {
    int64_t index[4];
    bool known;
} owner;

/* Which element has each byte, from the operand alone. */
static void own_all(const presil_operand *t, int64_t bytes, owner *map) {
    const int64_t *s = t->shape, blocks = (s[3] + 3) / 4;
    memset(map, 0, SPAN * sizeof *map);
    for (int64_t n = 0; n < s[0]; n++)
        for (int64_t y = 0; y < s[1]; y++)
            for (int64_t x = 0; x < s[2]; x++)
                for (int64_t c = 0; c < (t->layout ? 4 * blocks : s[3]); c++)
                    for (int64_t b = 0; b < bytes; b++) {
                        const int64_t strided = n * t->stride[0] + y * t->stride[1] + x * t->stride[2] + c;
                        const int64_t blocked = (((n * blocks + c / 4) * s[1] + y) * s[2] + x) * 4 + c % 4;
                        owner *o = &map[SPAN / 2 + (t->layout ? blocked : strided) * bytes + b];
                        assert_false(o->known);
                        *o = (owner){{n, y, x, c}, true};
                    }
}

static void every_byte_has_its_element(void **state) {
    (void)state;
    static owner map[SPAN];
    int blocked = 0, apart = 0;
    for (int round = 0; round < 400; round++) {
        const int64_t bytes = round % 3 ? 1 : 4;
        const presil_operand t = any_operand(bytes, round % 4 == 0);
        presil_kit_view v;
        assert_int_equal(presil_kit_view_of(&t, bytes, 4, &v, NULL), PRESIL_OK);
        own_all(&t, bytes, map);
        presil_kit_ranges ranges = {0};
        assert_true(presil_kit_add_view(&ranges, &v));
        presil_kit_tidy(&ranges);
        for (int64_t at = 0; at < SPAN; at++) {
            int64_t index[4];
            const uint64_t address = (uint64_t)(BASE + at);
            const bool found = presil_kit_element(&v, address, index);
            assert_int_equal(found, map[at].known);
            if (found) assert_memory_equal(index, map[at].index, sizeof index);
            assert_int_equal(presil_kit_hold(&ranges, address, 1), map[at].known);
            apart += at > 0 && at < SPAN - 1 && !map[at].known && map[at - 1].known && map[at + 1].known;
        }
        blocked += v.blocked != 0;
        free(ranges.list);
    }
    assert_true(blocked > 50 && apart > 0);
}

/* Rows of 6 bytes apart, columns of 4: neither lies within the other. */
static void strides_that_do_not_nest(void **state) {
    (void)state;
    const presil_operand t = {"output", {BASE}, PRESIL_INT8, 4, {1, 3, 2, 1}, {64, 4, 6, 1}, NULL, NULL, 0};
    presil_kit_view v;
    int64_t index[4];
    assert_int_equal(presil_kit_view_of(&t, 1, 4, &v, NULL), PRESIL_OK);
    for (int64_t i = 0; i < 6; i++) {
        assert_true(presil_kit_element(&v, (uint64_t)(BASE + i / 2 * 4 + i % 2 * 6), index));
        assert_true(index[1] == i / 2 && index[2] == i % 2);
    }
    assert_false(presil_kit_element(&v, BASE + 12, index));
}

static void views_that_are_refused(void **state) {
    (void)state;
    const presil_operand good = {"x", {BASE}, PRESIL_INT8, 4, {1, 2, 3, 4}, {24, 12, 4, 1}, NULL, NULL, 0};
    presil_kit_view v;
    assert_int_equal(presil_kit_view_of(&good, 1, 16, &v, NULL), PRESIL_OK);
    for (int i = 0; i < 8; i++) {
        presil_operand t = good;
        char text[128] = "";
        presil_error_buffer error = {text, sizeof text};
        if (i == 0) t.ndim = 3;
        if (i == 1) t.shape[2] = 0;
        if (i == 2) t.shape[1] = INT64_C(1) << 31;
        if (i == 3) t.stride[1] = INT64_C(1) << 31;
        if (i == 4) t.stride[3] = 2;
        if (i == 5) t.stride[2] = INT64_MIN;
        if (i == 6) t.shape[0] = 2, t.stride[0] = INT64_C(1) << 62; /* 4 bytes of that would be 0 */
        if (i == 7) t.layout = some_layout, t.shape[1] = t.shape[2] = INT32_MAX;
        assert_int_equal(presil_kit_view_of(&t, 4, 16, &v, &error), PRESIL_EUNSUPPORTED);
        assert_true(text[0] == 'x');
    }
    presil_operand thin = good; /* of one channel, its stride means nothing */
    thin.shape[3] = 1, thin.stride[3] = 77;
    assert_int_equal(presil_kit_view_of(&thin, 1, 16, &v, NULL), PRESIL_OK);
    presil_operand blocks = good; /* nearly 2 GiB of 16 channels */
    blocks.layout = some_layout, blocks.shape[1] = 1 << 13, blocks.shape[2] = (1 << 14) - 1;
    assert_int_equal(presil_kit_view_of(&blocks, 1, 16, &v, NULL), PRESIL_OK);
    assert_int_equal(v.block, (INT64_C(1) << 31) - (1 << 17));
    blocks.shape[2]++;
    assert_int_equal(presil_kit_view_of(&blocks, 1, 16, &v, NULL), PRESIL_EUNSUPPORTED);
}

static void ranges_meet_where_bytes_do(void **state) {
    (void)state;
    int met = 0;
    for (int round = 0; round < 500; round++) {
        presil_kit_ranges r[2] = {{0}, {0}};
        bool has[2][256] = {{false}}, share = false;
        for (int side = 0; side < 2; side++) {
            for (int64_t i = any(0, 6); i > 0; i--) {
                const int64_t from = any(0, 200), bytes = any(1, 20);
                assert_true(presil_kit_add(&r[side], (uint64_t)(BASE + from), (uint64_t)bytes));
                memset(&has[side][from], true, (size_t)bytes);
            }
            presil_kit_tidy(&r[side]);
        }
        for (int i = 0; i < 256; i++) share = share || (has[0][i] && has[1][i]);
        assert_int_equal(presil_kit_meet(&r[0], &r[1]), share);
        met += share;
        free(r[0].list);
        free(r[1].list);
    }
    assert_true(met > 50 && met < 450);
}

static void blocks_go_there_and_back(void **state) {
    (void)state;
    static int32_t strided[SPAN], back[SPAN], packed[SPAN];
    for (int round = 0; round < 100; round++) {
        presil_operand t = any_operand(4, true);
        for (int d = 0; d < 4; d++) t.stride[d] = t.stride[d] < 0 ? -t.stride[d] : t.stride[d];
        for (int i = 0; i < SPAN; i++) strided[i] = (int32_t)any(1, INT32_MAX), back[i] = -1;
        memset(packed, -1, sizeof packed);
        presil_kit_blocked_pack(&t, 4, 4, strided, packed);
        presil_kit_blocked_unpack(&t, 4, 4, packed, back);
        const int64_t *s = t.shape, blocks = (s[3] + 3) / 4;
        assert_int_equal(presil_kit_blocked_bytes(&t, 4, 4), s[0] * blocks * s[1] * s[2] * 4 * 4);
        int64_t elements = 0, written = 0;
        for (int64_t i = 0; i < s[0] * blocks * s[1] * s[2] * 4; i++) {
            const int64_t c = i / (s[1] * s[2] * 4) % blocks * 4 + i % 4, n = i / (s[1] * s[2] * 4 * blocks);
            const int64_t y = i / (s[2] * 4) % s[1], x = i / 4 % s[2];
            const int64_t at = n * t.stride[0] + y * t.stride[1] + x * t.stride[2] + c;
            assert_int_equal(packed[i], c < s[3] ? strided[at] : 0);
            if (c < s[3]) assert_int_equal(back[at], strided[at]);
            elements += c < s[3];
        }
        for (int i = 0; i < SPAN; i++) written += back[i] != -1;
        assert_int_equal(written, elements);
    }
}

/* ---- windows and epilogues */

typedef struct {
    presil_op op;
    presil_operand in, out, weight, inputs[3];
    presil_attribute attributes[8];
    int64_t values[8][2];
    presil_step steps[4];
} question;

static void begin(question *q, uint32_t kind) {
    *q = (question){.op = {.size = sizeof q->op, .kind = kind}};
    q->inputs[0] = (presil_operand){"input", {BASE}, PRESIL_INT8, 4, {1, 9, 11, 4}, {396, 44, 4, 1}, NULL, NULL, 0};
    q->inputs[1] = q->inputs[0];
    q->inputs[1].name = kind == PRESIL_OP_CONV ? "weight" : "residual";
    q->inputs[1].shape[1] = 3, q->inputs[1].shape[2] = 2;
    q->op.inputs = q->inputs, q->op.input_count = 2;
    q->op.attributes = q->attributes, q->op.steps = q->steps;
}
static void set(question *q, const char *name, int64_t a, int64_t b) {
    const uint32_t i = q->op.attribute_count++;
    q->values[i][0] = a, q->values[i][1] = b;
    q->attributes[i] = (presil_attribute){.name = name, .count = 2, .integers = q->values[i]};
}

static void windows_are_read(void **state) {
    (void)state;
    question q;
    presil_kit_window w;
    begin(&q, PRESIL_OP_CONV);
    assert_int_equal(presil_kit_read_window(&q.op, 0, &w, NULL), PRESIL_OK);
    assert_true(w.kernel[0] == 3 && w.kernel[1] == 2 && w.stride[1] == 1 && w.groups == 1 && w.divisor == 1);
    begin(&q, PRESIL_OP_POOL_AVERAGE);
    set(&q, "kernel", 4, 5);
    assert_int_equal(presil_kit_read_window(&q.op, 0, &w, NULL), PRESIL_OK);
    assert_true(w.stride[0] == 4 && w.stride[1] == 5 && w.divisor == 20);
    set(&q, "padding", 1, 0);
    assert_int_equal(presil_kit_read_window(&q.op, 0, &w, NULL), PRESIL_OK);
    set(&q, "count_include_pad", 0, 0); /* windows at the edge would have another divisor */
    assert_int_equal(presil_kit_read_window(&q.op, 0, &w, NULL), PRESIL_EUNSUPPORTED);
    set(&q, "divisor", 7, 0);
    assert_int_equal(presil_kit_read_window(&q.op, 0, &w, NULL), PRESIL_EUNSUPPORTED);
    assert_int_equal(presil_kit_read_window(&q.op, PRESIL_KIT_DIVISOR, &w, NULL), PRESIL_OK);
    assert_true(w.divisor == 7 && w.zero_point == 0);
    set(&q, "zero_point", -3, 0);
    assert_int_equal(presil_kit_read_window(&q.op, ~(uint32_t)PRESIL_KIT_ZERO_POINT, &w, NULL), PRESIL_EUNSUPPORTED);
    assert_int_equal(presil_kit_read_window(&q.op, PRESIL_KIT_DIVISOR | PRESIL_KIT_ZERO_POINT, &w, NULL), PRESIL_OK);
    assert_int_equal(w.zero_point, -3);
    q.op.output_count = 2; /* nobody knows the second */
    assert_int_equal(presil_kit_read_window(&q.op, ~0u, &w, NULL), PRESIL_EUNSUPPORTED);
}

static void what_a_chip_did_not_say_it_can_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int64_t value;
        uint32_t can;
    } more[] = {{"dilation", 2, PRESIL_KIT_DILATION},
                {"input_dilation", 2, PRESIL_KIT_INPUT_DILATION},
                {"groups", 2, PRESIL_KIT_GROUPS},
                {"pad_value", 3, PRESIL_KIT_PAD_VALUE}};
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        question q;
        presil_kit_window w;
        begin(&q, PRESIL_OP_CONV);
        set(&q, "padding", 0, 1);
        set(&q, more[i].name, more[i].value, 1);
        assert_int_equal(presil_kit_read_window(&q.op, ~more[i].can, &w, NULL), PRESIL_EUNSUPPORTED);
        assert_int_equal(presil_kit_read_window(&q.op, more[i].can, &w, NULL), PRESIL_OK);
        set(&q, "transposed", 1, 1); /* nobody knows it */
        assert_int_equal(presil_kit_read_window(&q.op, ~0u, &w, NULL), PRESIL_EUNSUPPORTED);
    }
    static const struct {
        const char *name;
        int64_t value;
    } senseless[] = {{"kernel", 0}, {"stride", 0}, {"dilation", -1}, {"stride", INT64_MAX}, {"padding", INT64_MIN}};
    question q;
    presil_kit_window w;
    for (size_t i = 0; i < sizeof senseless / sizeof *senseless; i++) {
        begin(&q, PRESIL_OP_POOL_AVERAGE);
        set(&q, senseless[i].name, 1, senseless[i].value);
        assert_int_equal(presil_kit_read_window(&q.op, ~0u, &w, NULL), PRESIL_EUNSUPPORTED);
    }
    begin(&q, PRESIL_OP_CONV);
    set(&q, "kernel", 3, 2); /* of pools alone */
    assert_int_equal(presil_kit_read_window(&q.op, ~0u, &w, NULL), PRESIL_EUNSUPPORTED);
    begin(&q, PRESIL_OP_POOL_MAX);
    set(&q, "divisor", 2, 2); /* of averages alone */
    assert_int_equal(presil_kit_read_window(&q.op, ~0u, &w, NULL), PRESIL_EUNSUPPORTED);
    begin(&q, PRESIL_OP_SOFTMAX);
    assert_int_equal(presil_kit_read_window(&q.op, ~0u, &w, NULL), PRESIL_EUNSUPPORTED);
}

/* Every tap of every window, one by one. */
static void windows_cover_their_taps(void **state) {
    (void)state;
    int fitted = 0;
    for (int round = 0; round < 2000; round++) {
        presil_kit_view in = {.shape = {1, any(1, 9), any(1, 9), 1}}, out = {.shape = {1, any(1, 5), any(1, 5), 1}};
        presil_kit_window w;
        bool fits = true;
        for (int d = 0; d < 2; d++) {
            w.kernel[d] = any(1, 3), w.stride[d] = any(1, 3), w.padding[d] = any(0, 2), w.dilation[d] = any(1, 2);
            const int64_t last = (out.shape[d + 1] - 1) * w.stride[d] + (w.kernel[d] - 1) * w.dilation[d];
            fits = fits && last < in.shape[d + 1] + 2 * w.padding[d];
        }
        assert_int_equal(presil_kit_window_fits(&w, &in, &out, NULL), fits ? PRESIL_OK : PRESIL_EUNSUPPORTED);
        fitted += fits;
        for (int d = 0; d < 2 && fits; d++) {
            const int64_t from = any(0, out.shape[d + 1] - 1), count = any(1, out.shape[d + 1] - from);
            int64_t lowest = INT64_MAX, highest = -1, first, past;
            for (int64_t o = from; o < from + count; o++) {
                for (int64_t k = 0; k < w.kernel[d]; k++) {
                    const int64_t at = o * w.stride[d] - w.padding[d] + k * w.dilation[d];
                    if (at < 0 || at >= in.shape[d + 1]) continue;
                    lowest = presil_kit_least(lowest, at);
                    highest = presil_kit_most(highest, at);
                }
            }
            presil_kit_under(&w, &in, d, from, count, &first, &past);
            assert_true(first >= 0 && first < past && past <= in.shape[d + 1]);
            if (highest >= 0) assert_true(first <= lowest && past > highest);
            const bool gaps = w.dilation[d] > 1 || w.stride[d] > w.kernel[d];
            if (highest >= 0 && !gaps) assert_true(first == lowest && past == highest + 1);
        }
    }
    assert_true(fitted > 200);
    const presil_kit_view two = {.shape = {2, 1, 1, 1}}, one = {.shape = {1, 1, 1, 1}};
    const presil_kit_window w = {{1, 1}, {1, 1}, {0, 0}, {1, 1}, {1, 1}, 1, 0, 1, 0};
    assert_int_equal(presil_kit_window_fits(&w, &two, &one, NULL), PRESIL_EUNSUPPORTED);
}

static void epilogues_in_their_order(void **state) {
    (void)state;
    static const presil_step scale = {.kind = PRESIL_STEP_SCALE, .input = PRESIL_NO_OPERAND, .scale = 0.5f};
    static const presil_step add = {.kind = PRESIL_STEP_ADD, .input = 1, .scale = 3, .zero_point = -4};
    static const presil_step quantize = {PRESIL_STEP_QUANTIZE, PRESIL_NO_OPERAND, 0, 0, 0, 7, -300, 99, {0}};
    static const presil_step clamp = {.kind = PRESIL_STEP_CLAMP, .input = PRESIL_NO_OPERAND};
    const presil_step *const good[] = {&scale, &add, &quantize};
    question q;
    presil_kit_epilogue e;
    begin(&q, PRESIL_OP_POOL_MAX);
    for (int i = 0; i < 3; i++) q.steps[q.op.step_count++] = *good[i];
    assert_int_equal(presil_kit_read_epilogue(&q.op, INT8_MIN, INT8_MAX, &e, NULL), PRESIL_OK);
    assert_true(e.scale == 0.5 && e.residual == &q.inputs[1] && e.residual_scale == 3.0 && e.residual_zero == -4);
    assert_true(e.zero_point == 7 && e.low == INT8_MIN && e.high == 99);
    const presil_step *const bad[][2] = {{&quantize, &add}, {&add, &scale},         {&add, &add},
                                         {&clamp, NULL},    {&quantize, &quantize}, {&scale, &scale}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        begin(&q, PRESIL_OP_POOL_MAX);
        for (int k = 0; k < 2 && bad[i][k]; k++) q.steps[q.op.step_count++] = *bad[i][k];
        assert_int_equal(presil_kit_read_epilogue(&q.op, INT8_MIN, INT8_MAX, &e, NULL), PRESIL_EUNSUPPORTED);
    }
    for (int i = 0; i < 5; i++) { /* an operand that isn't there; by channel; bounds */
        begin(&q, PRESIL_OP_POOL_MAX);
        q.op.step_count = 1;
        q.steps[0] = i == 0 ? add : i == 1 ? scale : quantize;
        if (i == 0) q.steps[0].input = 2;
        if (i == 1) q.steps[0].input = 0;
        if (i == 2) q.steps[0].zero_point = 128;
        if (i == 3) q.steps[0].int_high = -129;
        if (i == 4) q.steps[0] = add, q.steps[0].zero_point = -129;
        assert_int_equal(presil_kit_read_epilogue(&q.op, INT8_MIN, INT8_MAX, &e, NULL), PRESIL_EUNSUPPORTED);
    }
}

/* As the reference: what met no float, and is not quantized, wraps around. */
static void sums_without_bounds_are_refused(void **state) {
    (void)state;
    static const struct {
        uint32_t kind;
        int32_t lowest;
        int steps; /* SCALE 1, ADD 2, QUANTIZE 4 */
        float scale;
        int status;
    } cases[] = {{PRESIL_OP_CONV, INT8_MIN, 0, 0, PRESIL_EUNSUPPORTED},
                 {PRESIL_OP_CONV, INT8_MIN, 1, 1, PRESIL_OK},
                 {PRESIL_OP_CONV, INT8_MIN, 2, 1, PRESIL_EUNSUPPORTED},
                 {PRESIL_OP_CONV, INT8_MIN, 2, 0.5f, PRESIL_OK},
                 {PRESIL_OP_CONV, INT8_MIN, 4, 0, PRESIL_OK},
                 {PRESIL_OP_CONV, INT32_MIN, 0, 0, PRESIL_OK},
                 {PRESIL_OP_CONV, INT32_MIN, 2, 1, PRESIL_EUNSUPPORTED},
                 {PRESIL_OP_POOL_MAX, INT8_MIN, 0, 0, PRESIL_OK},
                 {PRESIL_OP_POOL_MAX, INT8_MIN, 2, 1, PRESIL_EUNSUPPORTED},
                 {PRESIL_OP_POOL_MAX, INT8_MIN, 6, 1, PRESIL_OK},
                 {PRESIL_OP_POOL_AVERAGE, INT8_MIN, 2, 1, PRESIL_OK}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        question q;
        presil_kit_epilogue e;
        begin(&q, cases[i].kind);
        for (uint32_t kind = 0; kind < 3; kind++) {
            const uint32_t kinds[] = {PRESIL_STEP_SCALE, PRESIL_STEP_ADD, PRESIL_STEP_QUANTIZE};
            if (!(cases[i].steps >> kind & 1)) continue;
            q.steps[q.op.step_count++] = (presil_step){.kind = kinds[kind],
                                                       .input = kind == 1 ? 1 : PRESIL_NO_OPERAND,
                                                       .scale = cases[i].scale,
                                                       .int_low = -100,
                                                       .int_high = 100};
        }
        const int32_t highest = cases[i].lowest == INT8_MIN ? INT8_MAX : INT32_MAX;
        assert_int_equal(presil_kit_read_epilogue(&q.op, cases[i].lowest, highest, &e, NULL), cases[i].status);
    }
}

static void scales_are_exact(void **state) {
    (void)state;
    int32_t m;
    uint32_t s;
    for (int round = 0; round < 20000; round++) {
        const float scale = ldexpf((float)any(-(1 << 24), 1 << 24), (int)any(-60, -10));
        if (!presil_kit_multiplier(scale, 16, 79, &m, &s)) {
            assert_true(fabsf(scale) >= 32767.0f);
            continue;
        }
        assert_true(s >= 16 && s <= 79 && ldexp(m, -(int)s) == (double)scale);
    }
    static const double never[] = {32768.0, 1e30, INFINITY, -INFINITY, NAN};
    for (int i = 0; i < 5; i++) assert_false(presil_kit_multiplier(never[i], 16, 79, &m, &s));
    assert_true(presil_kit_multiplier(1e-30, 16, 79, &m, &s) && s == 79 && m == 0);
    assert_true(presil_kit_multiplier(1 - 0x1p-40, 16, 79, &m, &s) && ldexp(m, -(int)s) == 1.0);
}

/* ---- plans: a command reads 8 bytes, and writes 4 */

typedef struct {
    uint32_t from[2], to[2], size, note;
} command;

static uint32_t addresses(const void *c, uint32_t *w) {
    w[0] = 0, w[1] = 2;
    return ((const command *)c)->size ? 2 : 0;
}
static uint64_t wide(const uint32_t *at) { return (uint64_t)at[1] << 32 | at[0]; }
static bool inside(const presil_plan *p, const void *command_at) {
    const command *c = command_at;
    return !c->size || (presil_kit_hold(&p->reads, wide(c->from), 8) && presil_kit_hold(&p->writes, wide(c->to), 4));
}
static const presil_kit_commands of = {"test v1", sizeof(command), 20, 1, addresses, inside, false};

static presil_plan *plan_at(uint64_t base, uint32_t count, uint32_t note) {
    presil_plan *p = presil_kit_plan_new(&of, "some plan", NULL);
    assert_non_null(p);
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t from = base + 64 * i, to = base + 0x1000 + 4 * i;
        command *c = presil_kit_plan_command(p);
        *c = (command){{(uint32_t)from, (uint32_t)(from >> 32)}, {(uint32_t)to, (uint32_t)(to >> 32)}, 8, note};
        assert_true(presil_kit_add(&p->reads, from, 8) && presil_kit_add(&p->writes, to, 4));
    }
    p->out = presil_kit_flat(base + 0x1000, 4 * count);
    p->macs = 10, p->estimate = 20;
    assert_int_equal(presil_kit_plan_done(p, NULL), PRESIL_OK);
    return p;
}

typedef struct {
    uint8_t bytes[512];
    size_t count;
} told;

static void add(void *context, const void *bytes, size_t count) {
    told *t = context;
    assert_true(count <= sizeof t->bytes - t->count);
    memcpy(t->bytes + t->count, bytes, count);
    t->count += count;
}

static bool same_timing(const presil_plan *a, const presil_plan *b) {
    told t[2] = {0};
    assert_int_equal(presil_kit_timing(NULL, a, add, &t[0]), PRESIL_OK);
    assert_int_equal(presil_kit_timing(NULL, b, add, &t[1]), PRESIL_OK);
    return memcmp(t, t + 1, sizeof *t) == 0;
}

static void signatures_are_of_what_takes_time(void **state) {
    (void)state;
    presil_plan *p[] = {plan_at(0x7fff1000, 5, 1), plan_at(0x100000000, 5, 2), plan_at(0x100000040, 5, 1),
                        plan_at(0x100000000, 4, 1)};
    assert_int_equal(p[0]->signature, p[1]->signature); /* other pages, another note */
    assert_int_not_equal(p[0]->signature, p[2]->signature);
    assert_int_not_equal(p[0]->signature, p[3]->signature);
    assert_true(same_timing(p[0], p[1]) && !same_timing(p[0], p[2]) && !same_timing(p[0], p[3]));
    presil_kit_commands each = of; /* doorbells between them */
    each.apart = true;
    p[1]->of = &each;
    assert_false(same_timing(p[0], p[1]));
    const uint64_t before = p[3]->signature;
    ((command *)presil_kit_command(p[3], 3))->size++;
    assert_int_equal(presil_kit_plan_done(p[3], NULL), PRESIL_OK);
    assert_int_not_equal(p[3]->signature, before);
    for (int i = 0; i < 4; i++) presil_kit_plan_free(p[i]);
}

static void stored_plans_come_back(void **state) {
    (void)state;
    enum { BYTES = 0x2000 };
    const presil_daddr first = {0x100000000}, second = {0x23000};
    presil_plan *p = plan_at(first.value, 5, 9), *moved = plan_at(second.value, 5, 9), *back = NULL;
    uint64_t size = 0;
    p->out.data = first.value; /* what is stored of it is 0 */
    assert_int_equal(presil_kit_save(p, first, NULL, &size, NULL), PRESIL_OK);
    uint8_t *stored = calloc(1, size + 1), *bent = malloc(size);
    size--;
    assert_int_equal(presil_kit_save(p, first, stored, &size, NULL), PRESIL_EINVAL);
    assert_int_equal(presil_kit_save(p, first, stored, &size, NULL), PRESIL_OK);
    assert_int_equal(presil_kit_load(&of, stored, size, second, BYTES, &back, NULL), PRESIL_OK);
    assert_int_equal(back->count, 5);
    assert_memory_equal(back->commands, moved->commands, 5 * sizeof(command));
    assert_int_equal(back->reads.count, 5);
    assert_memory_equal(back->reads.list, moved->reads.list, 5 * sizeof *back->reads.list);
    assert_memory_equal(back->writes.list, moved->writes.list, sizeof *back->writes.list);
    assert_true(back->macs == 10 && back->estimate == 20 && back->signature == p->signature);
    assert_string_equal(back->label, "some plan");
    char text[64];
    assert_true(presil_kit_describe(&back->out, second.value + 6, text, sizeof text) > 0);
    assert_string_equal(text, "output [6]");
    presil_kit_plan_free(back);
    assert_int_equal(presil_kit_load(&of, stored, size, second, 0x1010, &back, NULL), PRESIL_EINVAL);
    presil_kit_commands newer = of;
    newer.magic[6]++;
    assert_int_equal(presil_kit_load(&newer, stored, size, second, BYTES, &back, NULL), PRESIL_EINVAL);
    assert_int_equal(presil_kit_load(&of, stored, size + 1, second, BYTES, &back, NULL), PRESIL_EINVAL);
    presil_kit_head head, huge;
    memcpy(&head, stored, sizeof head);
    for (int i = 0; i < 3; i++) { /* each number is one that a view may have; all together are not */
        huge = head;
        if (i == 0) huge.out.shape[0] = INT32_MAX, huge.out.stride[0] = (INT64_C(1) << 40) - 1;
        if (i == 1) huge.out.shape[2] = INT32_MAX, huge.out.stride[2] = 1 - (INT64_C(1) << 40);
        if (i == 2) huge.out.shape[3] = INT32_MAX, huge.out.channels = 1, huge.out.block = (INT64_C(1) << 40) - 1;
        memcpy(stored, &huge, sizeof huge);
        assert_int_equal(presil_kit_load(&of, stored, size, second, BYTES, &back, NULL), PRESIL_EINVAL);
    }
    memcpy(stored, &head, sizeof head);
    for (uint64_t cut = 0; cut < size; cut++)
        assert_int_equal(presil_kit_load(&of, stored, cut, second, BYTES, &back, NULL), PRESIL_EINVAL);
    int taken = 0;
    for (uint64_t bit = 0; bit < 8 * size; bit++) { /* whatever is taken touches only what it says, within its memory */
        memcpy(bent, stored, size);
        bent[bit / 8] ^= (uint8_t)(1 << bit % 8);
        if (presil_kit_load(&of, bent, size, second, BYTES, &back, NULL)) continue;
        taken++;
        for (uint32_t i = 0; i < back->count; i++) assert_true(inside(back, presil_kit_command(back, i)));
        for (uint32_t i = 0; i < back->reads.count; i++)
            assert_true(back->reads.list[i].base.value - second.value <= BYTES - back->reads.list[i].bytes);
        for (uint64_t at = second.value; at < second.value + BYTES; at += 7)
            (void)presil_kit_describe(&back->out, at, text, sizeof text);
        presil_kit_plan_free(back);
    }
    assert_in_range(taken, 100, 8 * size - 500);
    presil_kit_plan_free(p);
    presil_kit_plan_free(moved);
    free(stored);
    free(bent);
}

static void behind(void *c) { ((command *)c)->note = 77; }

static void merged_plans_wait(void **state) {
    (void)state;
    presil_plan *p[] = {plan_at(BASE, 2, 1), plan_at(BASE + 0x2000, 0, 1), plan_at(BASE + 0x80, 3, 1)}, *all = NULL;
    const presil_plan *const plans[] = {p[0], p[1], p[2]};
    assert_int_equal(presil_kit_merge(plans, 3, NULL, behind, &all, NULL), PRESIL_OK);
    presil_plan_info info = {.size = sizeof info};
    assert_int_equal(presil_kit_plan_info(all, &info), PRESIL_OK);
    assert_true(info.descriptors == 5 && info.macs == 30 && info.estimate == 60 && info.segments == 1);
    for (uint32_t i = 0; i < 5; i++) {
        const command *c = presil_kit_command(all, i), *was = presil_kit_command(p[i < 2 ? 0 : 2], i < 2 ? i : i - 2);
        assert_int_equal(c->note, i == 2 ? 77 : 1);
        assert_memory_equal(c, was, 20);
        assert_true(inside(all, c));
    }
    presil_kit_commands each = *all->of; /* a doorbell for each command; for a plan without commands one, too */
    each.apart = true;
    all->of = p[1]->of = &each;
    assert_true(!presil_kit_plan_info(all, &info) && info.segments == 5);
    assert_true(!presil_kit_plan_info(p[1], &info) && info.segments == 1);
    char text[64] = "x";
    assert_int_equal(presil_kit_describe(&all->out, BASE + 0x1000, text, sizeof text), 0);
    assert_string_equal(text, "");
    presil_kit_plan_free(all);
    for (int i = 0; i < 3; i++) presil_kit_plan_free(p[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_byte_has_its_element),
                                       cmocka_unit_test(strides_that_do_not_nest),
                                       cmocka_unit_test(views_that_are_refused),
                                       cmocka_unit_test(ranges_meet_where_bytes_do),
                                       cmocka_unit_test(blocks_go_there_and_back),
                                       cmocka_unit_test(windows_are_read),
                                       cmocka_unit_test(what_a_chip_did_not_say_it_can_is_refused),
                                       cmocka_unit_test(windows_cover_their_taps),
                                       cmocka_unit_test(epilogues_in_their_order),
                                       cmocka_unit_test(sums_without_bounds_are_refused),
                                       cmocka_unit_test(scales_are_exact),
                                       cmocka_unit_test(signatures_are_of_what_takes_time),
                                       cmocka_unit_test(stored_plans_come_back),
                                       cmocka_unit_test(merged_plans_wait)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
