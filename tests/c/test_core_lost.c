/* SPDX-License-Identifier: Apache-2.0 */
/* What a cancel, a reset or a failed transfer must not lose unnoticed: packed weights, and copies between devices. */
#include <pthread.h>
#include <stdlib.h>
#include "core_fixture.h"

enum { CHANNELS = 8, PIXELS = 4, OUTPUTS = CHANNELS * PIXELS };

/* A kernel of one position, factor times the unit matrix; and pixels to apply it to. */
typedef struct {
    presil_daddr input, output;
    float values[OUTPUTS], weight[CHANNELS * CHANNELS];
    presil_weights_desc desc;
    presil_weights *weights;
    presil_device *device;
    int created;
} scaling;

static void scaling_begin(scaling *s, presil_device *d, float factor) {
    *s = (scaling){.device = d, .created = 1};
    for (int i = 0; i < OUTPUTS; i++) s->values[i] = (float)(i % 11 - 5);
    for (int i = 0; i < CHANNELS * CHANNELS; i++) s->weight[i] = i % (CHANNELS + 1) == 0 ? factor : 0;
    s->desc = (presil_weights_desc){.size = sizeof s->desc,
                                    .compute = PRESIL_COMPUTE_BF16,
                                    .weight = s->weight,
                                    .weight_dtype = PRESIL_FP32,
                                    .groups = 1,
                                    .shape = {CHANNELS, CHANNELS, 1, 1},
                                    .stride = {CHANNELS, 1, 1, 1},
                                    .dilation = {1, 1},
                                    .input_dilation = {1, 1}};
    EXPECT_OK(presil_alloc(d, NULL, NULL, sizeof s->values, &s->input));
    EXPECT_OK(presil_alloc(d, NULL, NULL, sizeof s->values, &s->output));
    EXPECT_OK(presil_copy_to_device(d, NULL, s->input, s->values, sizeof s->values, PRESIL_COPY_DIRECT));
    EXPECT_OK(presil_device_synchronize(d));
}

static int scaling_launch(const scaling *s) {
    presil_tensor t = {
        .dtype = PRESIL_FP32, .ndim = 4, .shape = {1, 1, PIXELS, CHANNELS}, .stride = {OUTPUTS, OUTPUTS, CHANNELS, 1}};
    presil_conv2d_desc c = {
        .size = sizeof c, .input = t, .output = t, .weights = s->weights, .stride = {1, 1}, .dilation = {1, 1}};
    c.input.data = s->input;
    c.output.data = s->output;
    return presil_conv2d(s->device, NULL, &c);
}

static void scaling_check(const scaling *s, float factor) {
    float got[OUTPUTS];
    EXPECT_OK(scaling_launch(s));
    EXPECT_OK(presil_copy_to_host(s->device, NULL, got, s->output, sizeof got, PRESIL_COPY_DIRECT));
    EXPECT_OK(presil_device_synchronize(s->device));
    for (int i = 0; i < OUTPUTS; i++) assert_true(got[i] == factor * s->values[i]);
}

static void scaling_end(scaling *s) {
    presil_weights_destroy(s->weights);
    EXPECT_OK(presil_free(s->device, s->input));
    EXPECT_OK(presil_free(s->device, s->output));
}

/* The device is busy with the launch that is reported: the packed bytes are queued, and then everything is cancelled.
 */
static void create_and_cancel(void *context, const presil_report *report) {
    scaling *s = context;
    (void)report;
    if (s->created != 1) return;
    s->created = s->weights ? presil_weights_update(s->weights, &s->desc)
                            : presil_weights_create(s->device, &s->desc, &s->weights);
    presil_device_cancel(s->device);
}

static void cancelling_keeps_packed_weights(void **state) {
    (void)state;
    static const char *const builds[] = {"soft", "nomap"};
    for (int b = 0; b < 3; b++) {
        presil_device *d = open_device(b ? PRESIL_MODE_RTL : PRESIL_MODE_MODEL, builds[b == 2]);
        scaling s;
        scaling_begin(&s, d, 3);
        presil_set_report(d, create_and_cancel, &s);
        for (int round = 0; round < 2; round++) { /* created, then changed */
            s.created = 1;
            EXPECT_OK(presil_nop(d, NULL));
            const int cancelled = presil_device_synchronize(d);
            assert_int_equal(s.created, PRESIL_OK);
            scaling_check(&s, round ? -7 : 3);
            assert_int_equal(cancelled, PRESIL_OK); /* nothing else was queued */
            for (int i = 0; i < CHANNELS; i++) s.weight[i * (CHANNELS + 1)] = -7;
        }
        presil_set_report(d, NULL, NULL);
        scaling_end(&s);
        presil_device_close(d);
    }
}

static void a_reset_keeps_packed_weights(void **state) {
    (void)state;
    static const char *const builds[] = {"soft", "nomap"};
    for (int b = 0; b < 2; b++) {
        presil_device *d = open_device(PRESIL_MODE_RTL, builds[b]);
        matmul_buffers m = matmul_alloc(d, 1);
        scaling s;
        scaling_begin(&s, d, 5);
        EXPECT_OK(presil_inject(d, "slow")); /* would run for ever */
        for (int i = 0; i < 20; i++) EXPECT_OK(matmul_enqueue(d, NULL, &m));
        EXPECT_OK(presil_weights_create(d, &s.desc, &s.weights));
        EXPECT_OK(presil_device_reset(d));
        scaling_check(&s, 5);
        scaling_end(&s);
        matmul_free(d, m);
        presil_device_close(d);
    }
}

/* Where the bytes could not be written, nothing is computed with what lies there. */
static void weights_that_were_not_written_say_so(void **state) {
    (void)state;
    presil_device *d = open_device(PRESIL_MODE_RTL, "nomap");
    scaling s;
    scaling_begin(&s, d, 2);
    EXPECT_OK(presil_inject(d, "unwritable"));
    EXPECT_OK(presil_weights_create(d, &s.desc, &s.weights)); /* in stream order: the failure comes later */
    EXPECT_STATUS(presil_device_synchronize(d), PRESIL_EDEAD);
    EXPECT_TEXT("the link is broken");
    EXPECT_OK(presil_inject(d, NULL));
    EXPECT_OK(presil_device_reset(d));
    EXPECT_STATUS(scaling_launch(&s), PRESIL_EINVAL);
    EXPECT_TEXT("presil_weights_update");
    EXPECT_OK(presil_weights_update(s.weights, &s.desc));
    scaling_check(&s, 2);
    scaling_end(&s);
    presil_device_close(d);
}

/* ---- copies between devices */
enum { PEER_BYTES = 12 << 20 }; /* several blocks of the staging, the last not a whole one */

static uint8_t pattern(unsigned seed, size_t i) { return (uint8_t)(((unsigned)i * 2654435761u + seed * 977u) >> 13); }

typedef struct {
    presil_device *a, *b;
    presil_daddr at_a, at_b;
    uint64_t bytes;
    int status;
} peers;

static peers peers_open(const char *build, uint64_t bytes) {
    const bool model = strcmp(build, "model") == 0;
    const presil_mode mode = model ? PRESIL_MODE_MODEL : PRESIL_MODE_RTL;
    peers p = {.a = open_device(mode, model ? NULL : build), .bytes = bytes, .status = 1};
    p.b = open_device(mode, model ? NULL : build);
    EXPECT_OK(presil_alloc(p.a, NULL, NULL, bytes, &p.at_a));
    EXPECT_OK(presil_alloc(p.b, NULL, NULL, bytes, &p.at_b));
    return p;
}

static void peers_close(const peers *p) {
    EXPECT_OK(presil_free(p->a, p->at_a));
    EXPECT_OK(presil_free(p->b, p->at_b));
    presil_device_close(p->a);
    presil_device_close(p->b);
}

static void put(presil_device *d, presil_daddr to, uint64_t bytes, unsigned seed) {
    uint8_t *values = malloc(bytes);
    assert_non_null(values);
    for (size_t i = 0; i < bytes; i++) values[i] = pattern(seed, i);
    EXPECT_OK(presil_copy_to_device(d, NULL, to, values, bytes, PRESIL_COPY_DIRECT));
    EXPECT_OK(presil_device_synchronize(d));
    free(values);
}

static void expect_pattern(presil_device *d, presil_daddr from, uint64_t bytes, unsigned seed) {
    uint8_t *values = malloc(bytes);
    assert_non_null(values);
    EXPECT_OK(presil_copy_to_host(d, NULL, values, from, bytes, PRESIL_COPY_DIRECT));
    EXPECT_OK(presil_device_synchronize(d));
    size_t wrong = 0;
    for (size_t i = 0; i < bytes; i++) wrong += values[i] != pattern(seed, i);
    free(values);
    assert_int_equal(wrong, 0);
}

static void copy_and_cancel_source(void *context, const presil_report *report) {
    peers *p = context;
    (void)report;
    if (p->status != 1) return;
    p->status = presil_copy_peer(p->b, p->at_b, p->a, p->at_a, NULL, p->bytes);
    presil_device_cancel(p->a);
}

static void a_cancelled_source_leaves_the_target_alone(void **state) {
    (void)state;
    static const char *const builds[] = {"model", "soft", "nomap"};
    for (int i = 0; i < 3; i++) {
        peers p = peers_open(builds[i], 1 << 16);
        put(p.a, p.at_a, p.bytes, 1);
        put(p.b, p.at_b, p.bytes, 2);
        presil_set_report(p.a, copy_and_cancel_source, &p);
        EXPECT_OK(presil_nop(p.a, NULL));
        while (p.status == 1) (void)presil_stream_query(p.a, NULL);
        assert_int_equal(p.status, PRESIL_OK);
        EXPECT_STATUS(presil_device_synchronize(p.b), PRESIL_ECANCELLED);
        EXPECT_TEXT("presil_copy_peer");
        EXPECT_STATUS(presil_device_synchronize(p.a), PRESIL_ECANCELLED);
        expect_pattern(p.b, p.at_b, p.bytes, 2);
        peers_close(&p);
    }
}

static void a_source_that_cannot_be_read_fails_the_target(void **state) {
    (void)state;
    peers p = peers_open("nomap", PEER_BYTES + 5);
    put(p.a, p.at_a, p.bytes, 1);
    put(p.b, p.at_b, p.bytes, 2);
    EXPECT_OK(presil_inject(p.a, "unreadable"));
    EXPECT_OK(presil_copy_peer(p.b, p.at_b, p.a, p.at_a, NULL, p.bytes));
    EXPECT_STATUS(presil_device_synchronize(p.b), PRESIL_EDEAD);
    EXPECT_TEXT("the link is broken");
    EXPECT_STATUS(presil_device_synchronize(p.a), PRESIL_EDEAD);
    EXPECT_OK(presil_inject(p.a, NULL));
    expect_pattern(p.b, p.at_b, p.bytes, 2);
    EXPECT_OK(presil_copy_peer(p.b, p.at_b, p.a, p.at_a, NULL, p.bytes));
    expect_pattern(p.b, p.at_b, p.bytes, 1);
    peers_close(&p);
}

typedef struct {
    presil_device *to, *from;
    presil_daddr at, source;
    int status;
} direction;

static void *copy_many(void *context) {
    direction *d = context;
    for (int i = 0; i < 3 && !d->status; i++)
        d->status = presil_copy_peer(d->to, d->at, d->from, d->source, NULL, PEER_BYTES / 3);
    return NULL;
}

/* Each queue waits for the other's blocks: no circle, whatever the order. */
static void both_ways_at_once(void **state) {
    (void)state;
    static const char *const builds[] = {"soft", "nomap"};
    for (int i = 0; i < 2; i++) {
        peers p = peers_open(builds[i], PEER_BYTES);
        put(p.a, p.at_a, p.bytes, 4);
        put(p.b, p.at_b, p.bytes, 5);
        const uint64_t half = PEER_BYTES / 2;
        direction there = {p.b, p.a, {p.at_b.value + half}, p.at_a, 0},
                  back = {p.a, p.b, {p.at_a.value + half}, p.at_b, 0};
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, copy_many, &back), 0);
        (void)copy_many(&there);
        assert_int_equal(pthread_join(thread, NULL), 0);
        EXPECT_OK(there.status);
        EXPECT_OK(back.status);
        EXPECT_OK(presil_device_synchronize(p.a));
        EXPECT_OK(presil_device_synchronize(p.b));
        expect_pattern(p.b, there.at, PEER_BYTES / 3, 4);
        expect_pattern(p.a, back.at, PEER_BYTES / 3, 5);
        peers_close(&p);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cancelling_keeps_packed_weights),
        cmocka_unit_test(a_reset_keeps_packed_weights),
        cmocka_unit_test(weights_that_were_not_written_say_so),
        cmocka_unit_test(a_cancelled_source_leaves_the_target_alone),
        cmocka_unit_test(a_source_that_cannot_be_read_fails_the_target),
        cmocka_unit_test(both_ways_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
