/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "fuzz.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *test_name, *budget_what = "nothing";
static uint64_t seed, state, cases;
static double seconds_allowed, seconds_began, seconds_most;
static uint64_t bytes_most;

/* ---- host memory: of this program's own calls, the C library's are not seen */
static int64_t bytes_now, bytes_began, bytes_allowed = INT64_MAX;

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *old, size_t bytes);
void __real_free(void *old);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);
void __wrap_free(void *old);

static void failed(const char *text) {
    /* stderr may be hushed */
    (void)dprintf(STDERR_FILENO, "%s: %s\n  while: %s\n  replay: PRESIL_FUZZ_SEED=%llu PRESIL_FUZZ_CASES=%llu (%s)\n",
                  test_name, text, budget_what, (unsigned long long)seed, (unsigned long long)cases, test_name);
    abort();
}

static void over(int64_t used) {
    char text[96];
    const int64_t allowed = bytes_allowed;
    bytes_allowed = INT64_MAX;
    (void)snprintf(text, sizeof text, "%lld bytes of host memory, %lld allowed", (long long)used, (long long)allowed);
    failed(text);
}

/* Before it is asked for: a sanitizer ends the program over a size that can't be had. */
static size_t wanted(size_t bytes) {
    if (bytes_allowed != INT64_MAX && bytes > (uint64_t)bytes_allowed)
        over(bytes < INT64_MAX ? (int64_t)bytes : INT64_MAX);
    return bytes;
}

static void *counted(void *p) {
    const int64_t now = __atomic_add_fetch(&bytes_now, (int64_t)malloc_usable_size(p), __ATOMIC_RELAXED);
    const int64_t used = now - bytes_began;
    if (used > (int64_t)bytes_most) bytes_most = (uint64_t)used;
    if (used > bytes_allowed) over(used);
    return p;
}

void *__wrap_malloc(size_t bytes) { return counted(__real_malloc(wanted(bytes))); }
void *__wrap_calloc(size_t count, size_t bytes) { return counted(__real_calloc(count, wanted(bytes))); }

void __wrap_free(void *old) {
    (void)__atomic_sub_fetch(&bytes_now, (int64_t)malloc_usable_size(old), __ATOMIC_RELAXED);
    __real_free(old);
}

void *__wrap_realloc(void *old, size_t bytes) {
    const int64_t before = (int64_t)malloc_usable_size(old);
    void *p = __real_realloc(old, wanted(bytes));
    if (!p) return NULL;
    (void)__atomic_sub_fetch(&bytes_now, before, __ATOMIC_RELAXED);
    return counted(p);
}

/* ---- processor time */
static double processor_seconds(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

void fuzz_budget(const char *what, double seconds, uint64_t bytes) {
    budget_what = what;
    seconds_allowed = seconds;
    seconds_began = processor_seconds();
    bytes_began = __atomic_load_n(&bytes_now, __ATOMIC_RELAXED);
    bytes_allowed = (int64_t)bytes;
}

void fuzz_within_budget(void) {
    const double used = processor_seconds() - seconds_began;
    bytes_allowed = INT64_MAX;
    if (used > seconds_most) seconds_most = used;
    if (used <= seconds_allowed) return;
    char text[96];
    (void)snprintf(text, sizeof text, "%.3f s of processor time, %.3f allowed", used, seconds_allowed);
    failed(text);
}

/* ---- numbers */
static uint64_t from_environment(const char *name, uint64_t otherwise) {
    const char *text = getenv(name);
    return text && *text ? strtoull(text, NULL, 0) : otherwise;
}

uint64_t fuzz_begin(const char *name, uint64_t otherwise) {
    test_name = name;
    seed = from_environment("PRESIL_FUZZ_SEED", 1);
    cases = from_environment("PRESIL_FUZZ_CASES", otherwise);
    state = seed * 0x9e3779b97f4a7c15u + 1;
    seconds_most = 0;
    bytes_most = 0;
    (void)printf("%s: PRESIL_FUZZ_SEED=%llu PRESIL_FUZZ_CASES=%llu\n", name, (unsigned long long)seed,
                 (unsigned long long)cases);
    return cases;
}

void fuzz_progress(uint64_t done) {
    if (done % 100000) return;
    (void)printf("%s: %llu cases done\n", test_name, (unsigned long long)done);
    (void)fflush(stdout);
}

void fuzz_end(void) {
    (void)printf("%s: at most %.4f s of processor time and %.2f MiB of host memory at a time\n", test_name,
                 seconds_most, (double)bytes_most / (1 << 20));
}

uint32_t fuzz_random(void) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) ^ (uint32_t)(state >> 61);
}

uint32_t fuzz_below(uint32_t n) { return fuzz_random() % n; }

void fuzz_bend(uint8_t *at, uint64_t bytes) {
    static const uint64_t interesting[] = {0,          1,          2,           0x7f,           0xff,
                                           0x7fff,     0x8000,     0xffff,      0x10000,        0x7fffffff,
                                           0x80000000, 0xffffffff, 0x100000000, 0x7fffffffffff, INT64_MAX,
                                           1ull << 63, UINT64_MAX, 0xff00ff00ff};
    for (uint32_t n = 1 + fuzz_below(4); n && bytes; n--) {
        const uint64_t place = ((uint64_t)fuzz_random() << 31 ^ fuzz_random()) % bytes;
        const uint64_t width = 1ull << fuzz_below(4);
        if (fuzz_below(3) == 0 || width > bytes - place)
            at[place] ^= (uint8_t)(1u << fuzz_below(8));
        else if (fuzz_below(4) == 0)
            at[place] = (uint8_t)fuzz_random();
        else
            memcpy(at + place / width * width, &interesting[fuzz_below(sizeof interesting / sizeof *interesting)],
                   width);
    }
}
