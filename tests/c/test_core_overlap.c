/* SPDX-License-Identifier: Apache-2.0 */
/* Copies on the device whose source and target overlap: as memmove, by every path, in every mode. */
#include <stdlib.h>
#include "core_fixture.h"

enum { SPACE = 1 << 20 };

static uint8_t before[SPACE], after[SPACE], expected[SPACE];

static void expect_moved(presil_device *d, presil_daddr at, uint64_t to, uint64_t from, uint64_t bytes,
                         presil_copy_path path) {
    for (int i = 0; i < SPACE; i++) before[i] = (uint8_t)(((unsigned)i * 2654435761u) >> 13);
    memcpy(expected, before, SPACE);
    memmove(expected + to, before + from, bytes);
    EXPECT_OK(presil_copy_to_device(d, NULL, at, before, SPACE, PRESIL_COPY_DIRECT));
    EXPECT_OK(
        presil_copy_on_device(d, NULL, (presil_daddr){at.value + to}, (presil_daddr){at.value + from}, bytes, path));
    EXPECT_OK(presil_copy_to_host(d, NULL, after, at, SPACE, PRESIL_COPY_DIRECT));
    EXPECT_OK(presil_device_synchronize(d));
    size_t wrong = 0;
    for (int i = 0; i < SPACE; i++) wrong += after[i] != expected[i];
    if (wrong)
        fail_msg("%zu bytes are wrong: %llu bytes from %llu to %llu, path %d", wrong, (unsigned long long)bytes,
                 (unsigned long long)from, (unsigned long long)to, (int)path);
}

static void overlapping_copies(void **state) {
    (void)state;
    static const int64_t distances[] = {1, 63, 4096, 40000, 300000, -1, -64, -4097, -40000};
    static const uint64_t sizes[] = {100, 70000, 600001};
    for (int kind = 0; kind < 3; kind++) {
        presil_device *d = open_device(kind ? PRESIL_MODE_RTL : PRESIL_MODE_MODEL, kind == 2 ? "nomap" : NULL);
        presil_daddr at;
        EXPECT_OK(presil_alloc(d, NULL, NULL, SPACE, &at));
        for (size_t i = 0; i < sizeof distances / sizeof *distances; i++) {
            for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
                const uint64_t from = distances[i] < 0 ? (uint64_t)-distances[i] + 5 : 5,
                               to = from + (uint64_t)distances[i];
                expect_moved(d, at, to, from, sizes[k], PRESIL_COPY_DIRECT);
                expect_moved(d, at, to, from, sizes[k], PRESIL_COPY_DMA);
            }
        }
        EXPECT_OK(presil_free(d, at));
        presil_device_close(d);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(overlapping_copies)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
