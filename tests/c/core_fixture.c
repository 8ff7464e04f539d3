/* SPDX-License-Identifier: Apache-2.0 */
#include "core_fixture.h"

#include <stdio.h>

presil_report reports[MAX_REPORTS];
size_t report_count;
static char log_buffer[8192];

void expect_status(int found, int expected, const char *call, const char *file, int line) {
    if (found == expected) return;
    print_error("%s: %s expected, %s found: %s\n", call, presil_status_name((presil_status)expected),
                presil_status_name((presil_status)found), presil_error_text());
    _fail(file, line);
}

void expect_text(const char *part, const char *file, int line) {
    if (strstr(presil_error_text(), part)) return;
    print_error("the error text \"%s\" lacks \"%s\"\n", presil_error_text(), part);
    _fail(file, line);
}

static void on_log(void *context, const char *text) {
    (void)context;
    const size_t used = strlen(log_buffer);
    (void)snprintf(log_buffer + used, sizeof log_buffer - used, "%s\n", text);
}

const char *log_text(void) { return log_buffer; }

presil_device *open_device(presil_mode mode, const char *build) {
    const presil_device_options options = {.size = sizeof options,
                                           .mode = mode,
                                           .config = "tiny",
                                           .build = build ? build : "soft",
                                           .memory_bytes = 64u << 20};
    presil_device *device = NULL;
    log_buffer[0] = 0;
    presil_set_log(on_log, NULL);
    EXPECT_OK(presil_device_open(&options, &device));
    return device;
}

int start_device(const presil_device_options *options, presil_device **device) {
    *device = NULL;
    const int status = presil_device_open(options, device);
    return status ? status : presil_device_start(*device);
}

/* -8 ... 7: products and sums are exact in every format. */
static float element(unsigned seed, int i) {
    return (float)((int)((seed * 7919u + (unsigned)i * 2654435761u) >> 13 & 15u) - 8);
}

static uint16_t bf16(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (uint16_t)(bits >> 16);
}

matmul_buffers matmul_alloc(presil_device *device, unsigned seed) {
    matmul_buffers m;
    uint16_t a[MATMUL_N * MATMUL_N], b[MATMUL_N * MATMUL_N];
    for (int i = 0; i < MATMUL_N * MATMUL_N; i++) {
        a[i] = bf16(element(seed, i));
        b[i] = bf16(element(seed + 1, i));
    }
    EXPECT_OK(presil_alloc(device, NULL, NULL, sizeof a, &m.a));
    EXPECT_OK(presil_alloc(device, NULL, NULL, sizeof b, &m.b));
    EXPECT_OK(presil_alloc(device, NULL, NULL, MATMUL_N * MATMUL_N * sizeof(float), &m.out));
    EXPECT_OK(presil_copy_to_device(device, NULL, m.a, a, sizeof a, PRESIL_COPY_DIRECT));
    EXPECT_OK(presil_copy_to_device(device, NULL, m.b, b, sizeof b, PRESIL_COPY_DIRECT));
    EXPECT_OK(presil_device_synchronize(device));
    return m;
}

void matmul_free(presil_device *device, matmul_buffers m) {
    EXPECT_OK(presil_free(device, m.a));
    EXPECT_OK(presil_free(device, m.b));
    EXPECT_OK(presil_free(device, m.out));
}

static presil_tensor square(presil_daddr data, presil_dtype dtype) {
    return (presil_tensor){.data = data,
                           .dtype = dtype,
                           .ndim = 3,
                           .shape = {1, MATMUL_N, MATMUL_N},
                           .stride = {MATMUL_N * MATMUL_N, MATMUL_N, 1}};
}

presil_matmul_desc matmul_desc(const matmul_buffers *m) {
    return (presil_matmul_desc){.size = sizeof(presil_matmul_desc),
                                .compute = PRESIL_COMPUTE_BF16,
                                .a = square(m->a, PRESIL_BF16),
                                .b = square(m->b, PRESIL_BF16),
                                .out = square(m->out, PRESIL_FP32)};
}

int matmul_enqueue(presil_device *device, presil_stream *stream, const matmul_buffers *m) {
    const presil_matmul_desc desc = matmul_desc(m);
    return presil_matmul(device, stream, &desc);
}

void matmul_check(presil_device *device, const matmul_buffers *m, unsigned seed) {
    float out[MATMUL_N * MATMUL_N];
    EXPECT_OK(presil_copy_to_host(device, NULL, out, m->out, sizeof out, PRESIL_COPY_DIRECT));
    EXPECT_OK(presil_device_synchronize(device));
    for (int i = 0; i < MATMUL_N; i++) {
        for (int j = 0; j < MATMUL_N; j++) {
            float sum = 0;
            for (int k = 0; k < MATMUL_N; k++)
                sum += element(seed, i * MATMUL_N + k) * element(seed + 1, k * MATMUL_N + j);
            if (out[i * MATMUL_N + j] != sum)
                fail_msg("out[%d, %d] is %g, %g expected", i, j, (double)out[i * MATMUL_N + j], (double)sum);
        }
    }
}

static void on_report(void *context, const presil_report *report) {
    (void)context;
    if (report_count < MAX_REPORTS) reports[report_count++] = *report;
}

void reports_begin(presil_device *device) {
    report_count = 0;
    presil_set_report(device, on_report, NULL);
}

uint32_t random32(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}
