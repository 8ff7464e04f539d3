/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two matrices multiplied on the chip, in C, without Python: allocate, copy, matmul, copy back, compare with a plain
 * loop. usage: matmul [--transport inproc|socket:PATH] [M N K] [rtl|model|verify]     (default 64 48 100 rtl; the
 * simulator library is searched as presil.h says)
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "presil.h"

static uint64_t cycles;

static void on_report(void *context, const presil_report *r) {
    (void)context;
    cycles += r->cycles;
    if (r->cycles)
        (void)printf("%s: %llu cycles, %.1f %% of the array's peak\n", r->label, (unsigned long long)r->cycles,
                     100.0 * (double)(r->macs * r->passes) / (double)(r->cycles * r->peak_macs_per_cycle));
}

static int failed(int status, const char *what) {
    if (status != PRESIL_OK)
        (void)fprintf(stderr, "matmul: %s: %s: %s\n", what, presil_status_name((presil_status)status),
                      presil_error_text());
    return status != PRESIL_OK;
}

/* a, b, out on the device; false after a message. */
static int multiply(presil_device *device, const float *a, const float *b, float *out, int64_t m, int64_t n,
                    int64_t k) {
    presil_daddr da, db, dout;
    uint64_t na = (uint64_t)(m * k) * 4, nb = (uint64_t)(k * n) * 4, nout = (uint64_t)(m * n) * 4;
    if (failed(presil_alloc(device, NULL, NULL, na, &da), "alloc") ||
        failed(presil_alloc(device, NULL, NULL, nb, &db), "alloc") ||
        failed(presil_alloc(device, NULL, NULL, nout, &dout), "alloc")) {
        return 0;
    }
    const presil_matmul_desc desc = {
        .size = sizeof desc,
        .compute = PRESIL_COMPUTE_FP32,
        .label = "matmul",
        .a = {.data = da, .dtype = PRESIL_FP32, .ndim = 3, .shape = {1, m, k}, .stride = {m * k, k, 1}},
        .b = {.data = db, .dtype = PRESIL_FP32, .ndim = 3, .shape = {1, k, n}, .stride = {k * n, n, 1}},
        .out = {.data = dout, .dtype = PRESIL_FP32, .ndim = 3, .shape = {1, m, n}, .stride = {m * n, n, 1}}};
    int ok = !failed(presil_copy_to_device(device, NULL, da, a, na, PRESIL_COPY_DIRECT), "copy") &&
             !failed(presil_copy_to_device(device, NULL, db, b, nb, PRESIL_COPY_DIRECT), "copy") &&
             !failed(presil_matmul(device, NULL, &desc), "matmul") &&
             !failed(presil_copy_to_host(device, NULL, out, dout, nout, PRESIL_COPY_DIRECT), "copy") &&
             !failed(presil_stream_synchronize(device, NULL), "run");
    ok &= !failed(presil_free(device, da), "free") && !failed(presil_free(device, db), "free") &&
          !failed(presil_free(device, dout), "free");
    return ok;
}

/* Largest |difference| to the loop, as a share of the sum of |products|. */
static double worst_error(const float *a, const float *b, const float *out, int64_t m, int64_t n, int64_t k) {
    double worst = 0;
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n; j++) {
            double sum = 0, magnitude = 0;
            for (int64_t l = 0; l < k; l++) {
                double p = (double)a[i * k + l] * (double)b[l * n + j];
                sum += p;
                magnitude += fabs(p);
            }
            double error = fabs((double)out[i * n + j] - sum) / (magnitude > 0 ? magnitude : 1);
            if (!(error <= worst)) worst = error;
        }
    }
    return worst;
}

int main(int argc, char **argv) {
    int64_t m = 64, n = 48, k = 100;
    presil_device_options options = {.size = sizeof options, .mode = PRESIL_MODE_RTL};
    if (argc >= 3 && !strcmp(argv[1], "--transport")) {
        options.transport = argv[2];
        argc -= 2;
        argv += 2;
    }
    if (argc >= 4) m = atoll(argv[1]), n = atoll(argv[2]), k = atoll(argv[3]);
    if (argc == 2 || argc == 5) {
        const char *mode = argv[argc - 1];
        options.mode = !strcmp(mode, "model")    ? PRESIL_MODE_MODEL
                       : !strcmp(mode, "verify") ? PRESIL_MODE_VERIFY
                                                 : PRESIL_MODE_RTL;
    }
    if (m < 1 || n < 1 || k < 1) {
        (void)fprintf(stderr, "usage: matmul [--transport TRANSPORT] [M N K] [rtl|model|verify]\n");
        return 2;
    }
    float *a = malloc((size_t)(m * k) * 4), *b = malloc((size_t)(k * n) * 4), *out = malloc((size_t)(m * n) * 4);
    presil_device *device;
    if (!a || !b || !out || failed(presil_device_open(&options, &device), "open")) return 1;
    presil_set_report(device, on_report, NULL);
    uint32_t seed = 1;
    for (int64_t i = 0; i < m * k; i++) a[i] = (float)((seed = seed * 1664525u + 1013904223u) >> 8) / 8388608.0f - 1.0f;
    for (int64_t i = 0; i < k * n; i++) b[i] = (float)((seed = seed * 1664525u + 1013904223u) >> 8) / 8388608.0f - 1.0f;
    int status = 1;
    if (multiply(device, a, b, out, m, n, k)) {
        double error = worst_error(a, b, out, m, n, k);
        status = error <= 0x1p-21 ? 0 : 1; /* docs/numerics.md section 6 */
        (void)printf("%lld x %lld x %lld: largest error %.3g of the sum of |products|: %s\n", (long long)m,
                     (long long)n, (long long)k, error, status ? "WRONG" : "right");
    }
    presil_device_close(device);
    free(a);
    free(b);
    free(out);
    return status;
}
