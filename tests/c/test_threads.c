/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Four threads on one device: launches; recording, merging, saving and replaying; packing weights and convolving with
 * them; and one that cancels, resets, changes modes and looks at everything. Whatever says OK has the right values.
 * In this process, and through a socket. PRESIL_THREADS_SECONDS: how long, both together (default 3); 60 under
 * ThreadSanitizer (stage c-threads), which finds the races.
 * PRESIL_FUZZ_SEED: of what the fourth does.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include "core_fixture.h"
#include "presil_image.h"
#include "socket_fixture.h"

enum { ARENA = 16384, STEP = 4096, CHANNELS = 8, PIXELS = 4, OUTPUTS = CHANNELS * PIXELS };

static presil_device *device;
static atomic_bool stop;
static atomic_uint upsets; /* odd while the device is reset: what was queued is dropped, and nobody is told */
static atomic_ulong launches, replays, packings, checked, cancelled;
static pthread_mutex_t failure_lock = PTHREAD_MUTEX_INITIALIZER;
static char failure[512];

static void fail_with(const char *what, int status) {
    (void)pthread_mutex_lock(&failure_lock);
    if (!*failure) (void)snprintf(failure, sizeof failure, "%s: %d: %s", what, status, presil_error_text());
    (void)pthread_mutex_unlock(&failure_lock);
    atomic_store(&stop, true);
}

/* True: go on. A cancelled launch is in order; anything else is not. */
static bool good(const char *what, int status) {
    if (status == PRESIL_OK) return true;
    if (status == PRESIL_ECANCELLED)
        (void)atomic_fetch_add(&cancelled, 1);
    else
        fail_with(what, status);
    return false;
}

static bool same(const char *what, const float *found, const float *expected, int count, unsigned upset) {
    if (upset % 2 || upset != atomic_load(&upsets)) return false;
    (void)atomic_fetch_add(&checked, 1);
    for (int i = 0; i < count; i++) {
        if (found[i] == expected[i]) continue;
        (void)pthread_mutex_lock(&failure_lock);
        if (!*failure)
            (void)snprintf(failure, sizeof failure, "%s: element %d is %g, %g expected", what, i, (double)found[i],
                           (double)expected[i]);
        (void)pthread_mutex_unlock(&failure_lock);
        atomic_store(&stop, true);
    }
    return true;
}

static bool fetch(presil_stream *stream, void *to, presil_daddr from, uint64_t bytes) {
    return good("copy", presil_copy_to_host(device, stream, to, from, bytes, PRESIL_COPY_DIRECT)) &&
           good("synchronize", presil_stream_synchronize(device, stream));
}

/* a · a of small integers, as the device has it, from a launch that nobody disturbs. */
typedef struct {
    presil_stream *stream;
    matmul_buffers m;
    float expected[MATMUL_N * MATMUL_N];
} product;

static product product_new(unsigned seed) {
    product p = {.m = matmul_alloc(device, seed)};
    EXPECT_OK(presil_stream_create(device, 0, &p.stream));
    EXPECT_OK(matmul_enqueue(device, NULL, &p.m));
    EXPECT_OK(presil_copy_to_host(device, NULL, p.expected, p.m.out, sizeof p.expected, PRESIL_COPY_DIRECT));
    EXPECT_OK(presil_device_synchronize(device));
    matmul_check(device, &p.m, seed);
    return p;
}

static void *launches_of(void *context) {
    product *p = context;
    float found[MATMUL_N * MATMUL_N];
    while (!atomic_load(&stop)) {
        const unsigned upset = atomic_load(&upsets);
        static const float nothing[MATMUL_N * MATMUL_N];
        bool ok = good("copy",
                       presil_copy_to_device(device, p->stream, p->m.out, nothing, sizeof nothing, PRESIL_COPY_DIRECT));
        ok = ok && good("matmul", matmul_enqueue(device, p->stream, &p->m));
        if (fetch(p->stream, found, p->m.out, sizeof found) && ok)
            (void)same("a launch", found, p->expected, MATMUL_N * MATMUL_N, upset);
        (void)atomic_fetch_add(&launches, 1);
    }
    return NULL;
}

static void *replays_of(void *context) {
    product *p = context;
    float found[MATMUL_N * MATMUL_N];
    static uint8_t image[1 << 16];
    for (unsigned n = 0; !atomic_load(&stop); n++) {
        const unsigned upset = atomic_load(&upsets);
        presil_list *list = NULL;
        if (!good("record", presil_record_begin(device, p->stream))) continue;
        bool ok = good("matmul", matmul_enqueue(device, p->stream, &p->m));
        ok = good("matmul", matmul_enqueue(device, p->stream, &p->m)) && ok;
        ok = good("record", presil_record_end(device, p->stream, &list)) && ok;
        if (ok && n % 2) ok = good("merge", presil_list_merge(list, "both"));
        uint64_t bytes = sizeof image;
        if (ok && n % 3 == 0) ok = good("save", presil_list_save(list, p->m.a, image, &bytes));
        for (int i = 0; i < 3 && ok; i++) ok = good("submit", presil_list_submit(list, p->stream));
        if (fetch(p->stream, found, p->m.out, sizeof found) && ok)
            (void)same("a replay", found, p->expected, MATMUL_N * MATMUL_N, upset);
        presil_list_destroy(list);
        (void)atomic_fetch_add(&replays, 1);
    }
    return NULL;
}

/* ---- weights: a kernel of one position, a factor times the unit matrix */
typedef struct {
    presil_stream *stream;
    presil_daddr input, output;
    float values[OUTPUTS];
} pixels;

static presil_weights_desc scaling(float factor, float weight[CHANNELS * CHANNELS]) {
    for (int i = 0; i < CHANNELS * CHANNELS; i++) weight[i] = i % (CHANNELS + 1) == 0 ? factor : 0;
    return (presil_weights_desc){.size = sizeof(presil_weights_desc),
                                 .compute = PRESIL_COMPUTE_BF16,
                                 .weight = weight,
                                 .weight_dtype = PRESIL_FP32,
                                 .groups = 1,
                                 .shape = {CHANNELS, CHANNELS, 1, 1},
                                 .stride = {CHANNELS, 1, 1, 1},
                                 .dilation = {1, 1},
                                 .input_dilation = {1, 1}};
}

static int convolve(const pixels *p, const presil_weights *weights) {
    const presil_tensor t = {
        .dtype = PRESIL_FP32, .ndim = 4, .shape = {1, 1, PIXELS, CHANNELS}, .stride = {OUTPUTS, OUTPUTS, CHANNELS, 1}};
    presil_conv2d_desc c = {.size = sizeof c,
                            .input = t,
                            .output = t,
                            .weights = weights,
                            .stride = {1, 1},
                            .dilation = {1, 1},
                            .input_dilation = {1, 1}};
    c.input.data = p->input;
    c.output.data = p->output;
    return presil_conv2d(device, p->stream, &c);
}

static pixels pixels_new(void) {
    pixels p;
    for (int i = 0; i < OUTPUTS; i++) p.values[i] = (float)(i % 11 - 5);
    EXPECT_OK(presil_stream_create(device, 0, &p.stream));
    EXPECT_OK(presil_alloc(device, NULL, NULL, sizeof p.values, &p.input));
    EXPECT_OK(presil_alloc(device, NULL, NULL, sizeof p.values, &p.output));
    EXPECT_OK(presil_copy_to_device(device, NULL, p.input, p.values, sizeof p.values, PRESIL_COPY_DIRECT));
    EXPECT_OK(presil_device_synchronize(device));
    return p;
}

static void *packings_of(void *context) {
    pixels *p = context;
    float weight[CHANNELS * CHANNELS], found[OUTPUTS], expected[OUTPUTS];
    for (unsigned n = 0; !atomic_load(&stop); n++) {
        presil_weights *weights = NULL;
        presil_weights_desc desc = scaling(1, weight);
        const unsigned begun = atomic_load(&upsets);
        if (!good("weights", presil_weights_create(device, &desc, &weights))) continue;
        for (unsigned factor = 2; factor < 5; factor++) {
            const unsigned upset = atomic_load(&upsets);
            desc = scaling((float)factor, weight);
            bool ok = good("update", presil_weights_update(weights, &desc));
            ok = ok && good("conv2d", convolve(p, weights));
            for (int i = 0; i < OUTPUTS; i++) expected[i] = (float)factor * p->values[i];
            if (fetch(p->stream, found, p->output, sizeof found) && ok && begun == upset)
                (void)same("a convolution", found, expected, OUTPUTS, upset);
        }
        presil_weights_destroy(weights);
        (void)atomic_fetch_add(&packings, 1);
    }
    return NULL;
}

/* ---- the one that disturbs */
static void on_report(void *context, const presil_report *report) {
    (void)atomic_fetch_add((atomic_ulong *)context, report->cycles ? 1 : 0);
}

static void disturb(uint32_t what) {
    static const presil_mode modes[] = {PRESIL_MODE_MODEL, PRESIL_MODE_RTL, PRESIL_MODE_VERIFY};
    static atomic_ulong reported;
    presil_memory_stats stats = {.size = sizeof stats};
    presil_device_info info = {.size = sizeof info};
    presil_event *event = NULL;
    presil_daddr block = {0};
    switch (what % 12) {
    case 0: presil_device_cancel(device); break;
    case 1:
        (void)atomic_fetch_add(&upsets, 1);
        (void)good("reset", presil_device_reset(device));
        (void)atomic_fetch_add(&upsets, 1);
        break;
    case 2: (void)good("mode", presil_device_set_mode(device, modes[what / 12 % 3])); break;
    case 3: (void)good("stats", presil_memory_get_stats(device, &stats)); break;
    case 4: (void)good("info", presil_device_get_info(device, &info)); break;
    case 5:
        if (!good("event", presil_event_create(device, &event))) break;
        (void)good("record", presil_event_record(event, NULL));
        (void)presil_event_query(event);
        (void)good("event", presil_event_synchronize(event));
        presil_event_destroy(event);
        break;
    case 6:
        if (!good("alloc", presil_alloc(device, NULL, NULL, 4096 + what % 65536, &block))) break;
        (void)good("free", presil_free(device, block));
        break;
    case 7: presil_set_report(device, on_report, &reported); break;
    case 8: presil_set_report(device, NULL, NULL); break;
    case 9: (void)good("threads", presil_device_set_twin_threads(device, 1 + what / 12 % 2)); break;
    case 10: presil_memory_empty_cache(device); break;
    default: (void)good("model", presil_device_set_memory_model(device, what & 16 ? "ideal" : NULL, what)); break;
    }
}

static double now(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void run_threads(presil_device *opened) {
    const char *seconds = getenv("PRESIL_THREADS_SECONDS"), *given = getenv("PRESIL_FUZZ_SEED");
    uint64_t seed = given && *given ? strtoull(given, NULL, 0) : 1;
    const double end = now() + (seconds && *seconds ? atof(seconds) : 3) / 2;
    print_message("test_threads: PRESIL_FUZZ_SEED=%llu\n", (unsigned long long)seed);
    device = opened;
    atomic_store(&stop, false);
    atomic_store(&checked, 0);
    product first = product_new(1), second = product_new(2);
    pixels third = pixels_new();
    pthread_t threads[3];
    assert_int_equal(pthread_create(&threads[0], NULL, launches_of, &first), 0);
    assert_int_equal(pthread_create(&threads[1], NULL, replays_of, &second), 0);
    assert_int_equal(pthread_create(&threads[2], NULL, packings_of, &third), 0);
    while (now() < end && !atomic_load(&stop)) {
        disturb(random32(&seed));
        (void)usleep(random32(&seed) % 2000);
    }
    atomic_store(&stop, true);
    for (int i = 0; i < 3; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
    print_message("%lu launches, %lu recordings, %lu packings; %lu results checked, %lu cancelled\n",
                  atomic_load(&launches), atomic_load(&replays), atomic_load(&packings), atomic_load(&checked),
                  atomic_load(&cancelled));
    assert_string_equal(failure, "");
    assert_true(atomic_load(&checked) > 30 && atomic_load(&cancelled) > 0);
    presil_set_report(device, NULL, NULL);
    (void)!presil_device_reset(device);
    matmul_free(device, first.m);
    matmul_free(device, second.m);
    presil_stream_destroy(first.stream);
    presil_stream_destroy(second.stream);
    EXPECT_OK(presil_free(device, third.input));
    EXPECT_OK(presil_free(device, third.output));
    presil_stream_destroy(third.stream);
    presil_device_close(device);
    assert_string_equal(log_text(), "");
}

static void in_this_process(void **state) {
    (void)state;
    run_threads(open_device(PRESIL_MODE_RTL, "soft"));
}

/* The server's two threads are in this process too. */
static void through_a_socket(void **state) {
    (void)state;
    soft_server s;
    soft_server_name(&s);
    soft_server_start(&s, false);
    const presil_device_options options = {
        .size = sizeof options, .mode = PRESIL_MODE_RTL, .memory_bytes = 64u << 20, .transport = s.spec};
    presil_device *opened = NULL;
    EXPECT_OK(presil_device_open(&options, &opened));
    run_threads(opened);
    soft_server_stop(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(in_this_process), cmocka_unit_test(through_a_socket)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
