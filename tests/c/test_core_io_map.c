/* SPDX-License-Identifier: Apache-2.0 */
/* A chip behind an IOMMU: what a launch touches is mapped before it, once; what is given back is unmapped first. */
#include <stdio.h>
#include <stdlib.h>
#include "core_fixture.h"
#include "transport_iommu.h"

static io_state io;

static void tell_io(uint64_t second) {
    char at[32];
    io = (io_state){.second = second};
    (void)snprintf(at, sizeof at, "%llx", (unsigned long long)(uintptr_t)&io);
    assert_int_equal(setenv("PRESIL_IO_STATE", at, 1), 0);
}

static presil_device *open_io(void) {
    tell_io(0);
    presil_device *d = open_device(PRESIL_MODE_RTL, "iommu");
    EXPECT_OK(presil_device_start(d));
    return d;
}

static void run_matmul(presil_device *d, matmul_buffers *m, unsigned seed) {
    EXPECT_OK(matmul_enqueue(d, NULL, m));
    matmul_check(d, m, seed);
    assert_int_equal(io.wrong, 0);
    assert_int_equal(io.unreached, 0);
}

static void blocks_are_mapped_once(void **state) {
    (void)state;
    presil_device *d = open_io();
    assert_int_equal(io.maps, 1); /* commands and the copy buffer, before the chip was reset */
    const uint64_t own = io.pages;
    matmul_buffers m = matmul_alloc(d, 5);
    assert_int_equal(io.maps, 1); /* nothing that no launch touched */
    run_matmul(d, &m, 5);
    const unsigned maps = io.maps;
    assert_true(maps > 1 && io.pages > own);
    run_matmul(d, &m, 5);
    EXPECT_OK(presil_device_reset(d));
    run_matmul(d, &m, 5);
    assert_int_equal(io.maps, maps); /* they stay, also over a reset */
    matmul_free(d, m);
    m = matmul_alloc(d, 6); /* the same pages from the cache */
    run_matmul(d, &m, 6);
    assert_int_equal(io.maps, maps);
    matmul_free(d, m);
    presil_memory_empty_cache(d);
    assert_int_equal(io.wrong, 0);
    assert_int_equal(io.pages, own);
    m = matmul_alloc(d, 7);
    run_matmul(d, &m, 7);
    assert_true(io.maps > maps);
    matmul_free(d, m);
    presil_device_close(d);
}

/* Copies through the chip, of a block larger than what is mapped of its neighbours so far. */
static void copies_and_neighbours(void **state) {
    (void)state;
    enum { BYTES = 1 << 20 };
    presil_device *d = open_io();
    presil_daddr small[4], large;
    for (int i = 0; i < 4; i++) EXPECT_OK(presil_alloc(d, NULL, NULL, 8192, &small[i]));
    EXPECT_OK(presil_copy_on_device(d, NULL, small[2], small[0], 8192, PRESIL_COPY_DMA));
    EXPECT_OK(presil_device_synchronize(d));
    assert_int_equal(io.maps, 3);
    for (int i = 0; i < 4; i++) EXPECT_OK(presil_free(d, small[i])); /* one block again, mapped in parts */
    EXPECT_OK(presil_alloc(d, NULL, NULL, BYTES, &large));
    EXPECT_OK(
        presil_copy_on_device(d, NULL, (presil_daddr){large.value + BYTES / 2}, large, BYTES / 2, PRESIL_COPY_DMA));
    EXPECT_OK(presil_device_synchronize(d));
    assert_int_equal(io.wrong, 0);
    assert_int_equal(io.unreached, 0);
    EXPECT_OK(presil_free(d, large));
    presil_memory_empty_cache(d);
    assert_int_equal(io.wrong, 0);
    presil_device_close(d);
}

static void nothing_is_punched_while_it_is_mapped(void **state) {
    (void)state;
    presil_device *d = open_io();
    presil_daddr a;
    EXPECT_OK(presil_alloc(d, NULL, NULL, 4u << 20, &a));
    uint8_t *host = presil_host_pointer(d, a, 4096);
    EXPECT_OK(presil_copy_on_device(d, NULL, (presil_daddr){a.value + 8192}, a, 4096, PRESIL_COPY_DMA));
    EXPECT_OK(presil_device_synchronize(d));
    host[0] = 0x5a;
    EXPECT_OK(presil_free(d, a));
    io.refuse_unmap = 1;
    presil_memory_empty_cache(d);
    assert_non_null(strstr(log_text(), "4194304 bytes are kept: unmapping memory from the chip"));
    assert_int_equal(host[0], 0x5a);
    io.refuse_unmap = 0;
    EXPECT_OK(presil_alloc(d, NULL, NULL, 4u << 20, &a));
    assert_ptr_equal(presil_host_pointer(d, a, 4096), host);
    EXPECT_OK(presil_free(d, a));
    presil_memory_empty_cache(d);
    assert_int_equal(io.unmaps, 1);
    assert_int_equal(io.last_unmapped_byte, 0x5a); /* still there at that time */
    assert_int_equal(host[0], 0);
    presil_device_close(d);
}

static void a_block_that_cant_be_mapped(void **state) {
    (void)state;
    presil_device *d = open_io();
    matmul_buffers m = matmul_alloc(d, 9);
    io.refuse_map = 1;
    EXPECT_OK(matmul_enqueue(d, NULL, &m));
    EXPECT_STATUS(presil_device_synchronize(d), PRESIL_EHOSTMEM);
    EXPECT_TEXT("mapping memory for the chip");
    io.refuse_map = 0;
    run_matmul(d, &m, 9);
    matmul_free(d, m);
    presil_device_close(d);
}

/* Regions side by side are one memory for tensors, and two for the IOMMU. */
static void a_block_over_two_regions(void **state) {
    (void)state;
    enum { BYTES = 16 << 20, SECOND = 4096 }; /* pages: 16 MiB */
    presil_device *d;
    presil_device_info info = {.size = sizeof info};
    const presil_device_options options = {.size = sizeof options,
                                           .mode = PRESIL_MODE_RTL,
                                           .config = "tiny",
                                           .library = getenv("PRESIL_IO_LIBRARY"),
                                           .memory_bytes = 64u << 20};
    tell_io(SECOND);
    EXPECT_OK(presil_device_open(&options, &d));
    EXPECT_OK(presil_device_start(d));
    EXPECT_OK(presil_device_get_info(d, &info));
    const uint64_t base = info.memory_base.value;
    presil_daddr a, b;
    EXPECT_OK(presil_alloc(d, NULL, NULL, BYTES, &a));
    EXPECT_OK(presil_alloc(d, NULL, NULL, BYTES, &b));
    const uint64_t border = base + (uint64_t)SECOND * 4096;
    const presil_daddr over = a.value < border && a.value + BYTES > border ? a : b;
    assert_true(over.value < border && over.value + BYTES > border);
    EXPECT_OK(presil_copy_on_device(d, NULL, (presil_daddr){over.value + 8192}, over, 4096, PRESIL_COPY_DMA));
    EXPECT_OK(presil_device_synchronize(d));
    assert_int_equal(io.wrong, 0);
    assert_int_equal(io.unreached, 0);
    assert_int_equal(io.last, (over.value + BYTES - base) / 4096); /* all of the block */
    EXPECT_OK(presil_free(d, a));
    EXPECT_OK(presil_free(d, b));
    presil_memory_empty_cache(d);
    assert_int_equal(io.wrong, 0);
    presil_device_close(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_mapped_once), cmocka_unit_test(copies_and_neighbours),
        cmocka_unit_test(nothing_is_punched_while_it_is_mapped), cmocka_unit_test(a_block_that_cant_be_mapped),
        cmocka_unit_test(a_block_over_two_regions)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
