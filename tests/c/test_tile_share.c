/* SPDX-License-Identifier: Apache-2.0 */
/* What is planned once is shared, however long; what is kept is bounded in bytes; shared commands do at other addresses
 * all that a plan's own do. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "tile_fixture.h"

enum { M = 70, N = 50, K = 90, PAGE = 4096 };

static presil_tensor matrix(uint64_t at, uint32_t dtype, int64_t rows, int64_t columns) {
    return (presil_tensor){
        .data = {at}, .dtype = dtype, .ndim = 3, .shape = {1, rows, columns}, .stride = {rows * columns, columns, 1}};
}

typedef struct {
    uint32_t compute, dtype;
    int64_t m, k, n;
    uint32_t tiling;
} product;

static presil_plan *plan_at(fixture *f, const product *p, uint64_t a, uint64_t b, uint64_t out) {
    presil_error_buffer e = {f->text, sizeof f->text};
    const presil_matmul_desc d = {.size = sizeof d,
                                  .compute = p->compute,
                                  .a = matrix(a, p->dtype, p->m, p->k),
                                  .b = matrix(b, p->dtype, p->k, p->n),
                                  .out = matrix(out, PRESIL_FP32, p->m, p->n),
                                  .tiling = p->tiling};
    presil_plan *plan = NULL;
    if (chip_plan_matmul(f->chip, &d, &plan, &e)) fail_msg("%s", f->text);
    return plan;
}

static uint64_t page_of(fixture *f, uint64_t bytes) {
    return (fixture_alloc(f, bytes + PAGE) + PAGE - 1) & ~(uint64_t)(PAGE - 1);
}

/* ---- counted, not timed */
static void long_lists_are_planned_once(void **state) {
    (void)state;
    static const product products[] = {{PRESIL_COMPUTE_BF16, PRESIL_BF16, 1, 4096, 4096, 0},
                                       {PRESIL_COMPUTE_FP32, PRESIL_FP32, 1, 4096, 4096, 0},
                                       {PRESIL_COMPUTE_BF16, PRESIL_BF16, 128, 768, 3072, 0},
                                       {PRESIL_COMPUTE_FP32, PRESIL_FP32, 3, 100000, 5, 0}};
    fixture f;
    fixture_open(&f, "base", 0);
    size_t longest = 0;
    for (size_t i = 0; i < sizeof products / sizeof *products; i++) {
        presil_plan *first = plan_at(&f, &products[i], 0x110000000, 0x210000000, 0x310000000);
        const chip_template_figures before = chip_templates();
        if (first->count > longest) longest = first->count;
        for (uint64_t at = 1; at <= 50; at++) {
            presil_plan *again = plan_at(&f, &products[i], 0x110000000 + at * PAGE, 0x210000000, 0x310000000);
            assert_ptr_equal(again->list, first->list);
            assert_int_equal(again->signature, first->signature);
            chip_plan_free(again);
        }
        assert_int_equal(chip_templates().planned, before.planned);
        assert_int_equal(chip_templates().recalled, before.recalled + 50);
        chip_plan_free(first);
    }
    assert_true(longest > 1000);
    fixture_close(&f);
}

/* Another offset in the page, another shape, another tiling: none is the same problem. */
static void others_are_planned(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f, "tiny", 0);
    const product p = {PRESIL_COMPUTE_BF16, PRESIL_BF16, 30, 20, 10, 0};
    product q = p, forced = p;
    q.n = 11;
    forced.tiling = 2;
    presil_plan *plans[] = {plan_at(&f, &p, 0x110000000, 0x210000000, 0x310000000),
                            plan_at(&f, &p, 0x110000040, 0x210000000, 0x310000000),
                            plan_at(&f, &q, 0x110000000, 0x210000000, 0x310000000),
                            plan_at(&f, &forced, 0x110000000, 0x210000000, 0x310000000)};
    for (int i = 1; i < 4; i++) assert_true(plans[i]->list != plans[0]->list);
    assert_null(plans[3]->shared);
    for (int i = 0; i < 4; i++) chip_plan_free(plans[i]);
    fixture_close(&f);
}

/* ---- bytes */
static void bytes_are_bounded(void **state) {
    (void)state;
    enum { MOST = 200000, SHAPES = 60 };
    fixture f;
    fixture_open(&f, "tiny", 0);
    const chip_template_figures before = chip_templates();
    chip_templates_limit(MOST);
    assert_true(chip_templates().bytes <= MOST);
    product p = {PRESIL_COMPUTE_BF16, PRESIL_BF16, 30, 20, 10, 0};
    presil_plan *kept = plan_at(&f, &p, 0x110000000, 0x210000000, 0x310000000);
    const presil_desc first = kept->list[0];
    const uint64_t evicted = chip_templates().evicted;
    for (p.m = 31; p.m < 31 + SHAPES; p.m++) {
        chip_plan_free(plan_at(&f, &p, 0x110000000, 0x210000000, 0x310000000));
        assert_true(chip_templates().bytes <= MOST);
    }
    assert_true(chip_templates().templates > 2 && chip_templates().templates < SHAPES);
    assert_true(chip_templates().evicted > evicted);
    /* The newest is there, the oldest is not; a plan of it keeps what it shares. */
    const uint64_t planned = chip_templates().planned;
    p.m = 30 + SHAPES;
    chip_plan_free(plan_at(&f, &p, 0x110000000, 0x210000000, 0x310000000));
    assert_int_equal(chip_templates().planned, planned);
    p.m = 30;
    presil_plan *anew = plan_at(&f, &p, 0x110000000, 0x210000000, 0x310000000);
    assert_int_equal(chip_templates().planned, planned + 1);
    assert_true(anew->list != kept->list);
    assert_memory_equal(&kept->list[0], &first, sizeof first);
    assert_memory_equal(anew->list, kept->list, kept->count * sizeof *kept->list);
    /* Used again and again, it stays though others come. */
    for (p.n = 11; p.n < 11 + SHAPES; p.n++) {
        const product used = {PRESIL_COMPUTE_BF16, PRESIL_BF16, 30, 20, 10, 0};
        chip_plan_free(plan_at(&f, &p, 0x110000000, 0x210000000, 0x310000000));
        presil_plan *again = plan_at(&f, &used, 0x110000000, 0x210000000, 0x310000000);
        assert_ptr_equal(again->list, anew->list);
        chip_plan_free(again);
    }
    chip_plan_free(anew);
    chip_plan_free(kept);
    /* One that is larger than its share is not kept, and drives nobody out. */
    const chip_template_figures full = chip_templates();
    const product large = {PRESIL_COMPUTE_FP32, PRESIL_FP32, 4 * M, K, 2 * N, 0};
    presil_plan *plan = plan_at(&f, &large, 0x110000000, 0x210000000, 0x310000000);
    assert_in_range(plan->count * sizeof *plan->list, MOST / 4, MOST);
    assert_null(plan->shared);
    assert_int_equal(chip_templates().bytes, full.bytes);
    chip_plan_free(plan);
    chip_templates_limit(0);
    assert_int_equal(chip_templates().bytes, 0);
    assert_int_equal(chip_templates().templates, 0);
    chip_templates_limit(before.most_bytes);
    fixture_close(&f);
}

/* ---- shared commands are as good as a plan's own */
typedef struct {
    fixture f;
    presil_plan *shared, *own;
    uint64_t out;
} pair;

static const product small = {PRESIL_COMPUTE_FP32, PRESIL_FP32, M, K, N, 0};

/* A plan whose operands have all moved, each otherwise; and a copy that shares nothing. */
static void pair_open(pair *p, const char *config) {
    fixture *f = &p->f;
    fixture_open(f, config, 7);
    f->used = 0;
    chip_plan_free(plan_at(f, &small, 0x7000000000, 0x7100000000, 0x7200000000));
    const uint64_t b = page_of(f, K * N * 4), a = page_of(f, M * K * 4);
    p->out = page_of(f, M * N * 4);
    fixture_fill(f, a, M * K, PRESIL_FP32);
    fixture_fill(f, b, K * N, PRESIL_FP32);
    p->shared = plan_at(f, &small, a, b, p->out);
    p->own = plan_at(f, &small, a, b, p->out);
    assert_non_null(p->shared->shared);
    assert_true(chip_plan_own(p->own));
    assert_null(p->own->shared);
    assert_memory_not_equal(p->own->list, p->shared->list, p->own->count * sizeof *p->own->list);
}

static void pair_close(pair *p) {
    chip_plan_free(p->shared);
    chip_plan_free(p->own);
    fixture_close(&p->f);
}

static void same_plan(const presil_plan *a, const presil_plan *b) {
    const char *differs = fixture_difference(a, b);
    if (differs) fail_msg("they have other %s", differs);
}

static void execute(fixture *f, const presil_plan *plan) {
    presil_error_buffer e = {f->text, sizeof f->text};
    presil_executor_memory m = {
        .size = sizeof m, .base = {FIXTURE_BASE}, .bytes = FIXTURE_BYTES, .host = f->memory, .threads = 1};
    if (presil_chip_entry()->execute(f->chip, plan, &m, &e)) fail_msg("%s", f->text);
}

static void same_bytes(void **state) {
    (void)state;
    static const char *const configs[] = {"tiny", "odd", "base", "wide"};
    for (int c = 0; c < 4; c++) {
        pair p;
        pair_open(&p, configs[c]);
        static uint8_t want[M * N * 4];
        uint8_t *got = fixture_host(&p.f, p.out);
        execute(&p.f, p.own);
        memcpy(want, got, sizeof want);
        memset(got, 0xa5, sizeof want);
        execute(&p.f, p.shared);
        assert_memory_equal(got, want, sizeof want);
        if (chip_prove(p.shared, p.f.text, sizeof p.f.text)) fail_msg("%s", p.f.text);
        pair_close(&p);
    }
}

/* A command that is moved with the wrong operand, or not at all. */
static void wrong_moves_are_found(void **state) {
    (void)state;
    pair p;
    pair_open(&p, "tiny");
    for (uint32_t i = OPERAND_INPUT; i < CHIP_OPERANDS; i++) {
        const uint64_t saved = p.shared->shift[i];
        if (i == OPERAND_PACKED || i == OPERAND_PARAMETERS || i == OPERAND_RESIDUAL) continue;
        p.shared->shift[i] += PAGE;
        if (!chip_prove(p.shared, p.f.text, sizeof p.f.text)) fail_msg("operand %u: nothing is found", i);
        assert_non_null(strstr(p.f.text, "none that the plan declares"));
        p.shared->shift[i] = saved;
    }
    if (chip_prove(p.shared, p.f.text, sizeof p.f.text)) fail_msg("%s", p.f.text);
    pair_close(&p);
}

/* Where they were planned, operands are apart; moved over one another, what is stored is read. */
static void order_where_it_is(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f, "tiny", 0);
    presil_plan *apart = plan_at(&f, &small, 0x110000000, 0x210000000, 0x310000000),
                *over = plan_at(&f, &small, 0x110000000, 0x210000000, 0x110002000);
    assert_ptr_equal(apart->list, over->list);
    assert_int_equal(chip_check_order(apart, 0, apart->count, f.text, sizeof f.text), 0);
    assert_int_equal(chip_check_order(over, 0, over->count, f.text, sizeof f.text), -1);
    assert_non_null(strstr(f.text, "too early"));
    chip_plan_free(apart);
    chip_plan_free(over);
    fixture_close(&f);
}

static void parts_of_shared_plans(void **state) {
    (void)state;
    pair p;
    pair_open(&p, "tiny");
    presil_error_buffer e = {p.f.text, sizeof p.f.text};
    presil_plan *from[2], *made[2];
    same_plan(p.shared, p.own);
    for (uint64_t n = 1; n <= p.own->count; n += 7) {
        int status[2];
        for (int i = 0; i < 2; i++) status[i] = chip_prefix(p.f.chip, i ? p.own : p.shared, n, NULL, &made[i], &e);
        assert_int_equal(status[0], status[1]);
        if (status[0]) continue;
        same_plan(made[0], made[1]);
        for (int i = 0; i < 2; i++) chip_plan_free(made[i]);
    }
    uint8_t *keep[2];
    for (int i = 0; i < 2; i++) {
        keep[i] = malloc(p.own->count);
        memset(keep[i], 1, p.own->count);
        keep[i][p.own->count / 2] = 0;
        assert_int_equal(chip_subset(p.f.chip, i ? p.own : p.shared, keep[i], &made[i], &e), PRESIL_OK);
    }
    assert_memory_equal(keep[0], keep[1], p.own->count);
    same_plan(made[0], made[1]);
    for (int i = 0; i < 2; i++) {
        chip_plan_free(made[i]);
        free(keep[i]);
        from[0] = from[1] = i ? p.own : p.shared;
        assert_int_equal(chip_merge(p.f.chip, (const presil_plan *const *)from, 2, NULL, &made[i], &e), PRESIL_OK);
    }
    same_plan(made[0], made[1]);
    for (int i = 0; i < 2; i++) chip_plan_free(made[i]);
    pair_close(&p);
}

static void images_of_shared_plans(void **state) {
    (void)state;
    pair p;
    pair_open(&p, "tiny");
    presil_error_buffer e = {p.f.text, sizeof p.f.text};
    uint64_t bytes = 0, room;
    assert_int_equal(chip_save(p.own, (presil_daddr){FIXTURE_BASE}, NULL, &bytes, &e), PRESIL_OK);
    uint8_t *image = malloc(bytes), *other = malloc(bytes);
    room = bytes;
    assert_int_equal(chip_save(p.own, (presil_daddr){FIXTURE_BASE}, image, &room, &e), PRESIL_OK);
    assert_int_equal(chip_save(p.shared, (presil_daddr){FIXTURE_BASE}, other, &room, &e), PRESIL_OK);
    assert_memory_equal(image, other, bytes);
    char text[2][128];
    for (uint64_t at = p.out; at < p.out + 64; at += 4) {
        for (int i = 0; i < 2; i++)
            (void)chip_plan_describe(i ? p.own : p.shared, (presil_daddr){at}, text[i], sizeof text[i]);
        assert_string_equal(text[0], text[1]);
        assert_non_null(strstr(text[0], "(STORE)"));
    }
    free(image);
    free(other);
    pair_close(&p);
}

/* ---- several threads plan, and evict what others use */
static void *plan_many(void *context) {
    fixture *f = context;
    char text[128];
    for (uint32_t i = 0; i < 400; i++) {
        product p = {PRESIL_COMPUTE_BF16, PRESIL_BF16, 1 + i % 23, 20, 10, 0};
        presil_error_buffer e = {text, sizeof text};
        const presil_matmul_desc d = {.size = sizeof d,
                                      .compute = p.compute,
                                      .a = matrix(0x110000000 + (uint64_t)i * PAGE, p.dtype, p.m, p.k),
                                      .b = matrix(0x210000000, p.dtype, p.k, p.n),
                                      .out = matrix(0x310000000, PRESIL_FP32, p.m, p.n)};
        presil_plan *plan = NULL;
        if (chip_plan_matmul(f->chip, &d, &plan, &e) || chip_prove(plan, text, sizeof text)) return context;
        chip_plan_free(plan);
    }
    return NULL;
}

static void threads_share(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f, "tiny", 0);
    const chip_template_figures before = chip_templates();
    chip_templates_limit(60000);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, plan_many, &f), 0);
    for (int i = 0; i < 4; i++) {
        void *failed = NULL;
        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
    }
    assert_true(chip_templates().evicted > before.evicted);
    assert_true(chip_templates().bytes <= 60000);
    chip_templates_limit(before.most_bytes);
    fixture_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(long_lists_are_planned_once),
                                       cmocka_unit_test(others_are_planned),
                                       cmocka_unit_test(bytes_are_bounded),
                                       cmocka_unit_test(same_bytes),
                                       cmocka_unit_test(wrong_moves_are_found),
                                       cmocka_unit_test(order_where_it_is),
                                       cmocka_unit_test(parts_of_shared_plans),
                                       cmocka_unit_test(images_of_shared_plans),
                                       cmocka_unit_test(threads_share)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
