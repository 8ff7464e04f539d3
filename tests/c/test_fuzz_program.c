/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs compiled ahead of time and NumPy's files, bent: refused, or they stay inside their memory and end; in either
 * case within a time and a memory that follow from the file's size (fuzz.h).
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "core_fixture.h"
#include "fuzz.h"
#include "npy.h"
#include "presil_desc.h"
#include "presil_image.h"
#include "program.h"

enum { ARENA = 64 << 10, STEP = 4096, HEADER = 192, TENSOR = 208, CODES = 8, CONSTANT = 24, MEBIBYTE = 1 << 20 };
enum { STEP_HEAD = 16, ATTRIBUTE = 104, OPERATOR = 16 + 2 * TENSOR + 2 * ATTRIBUTE + 32 };

/* A second of processor time for 20,000 bytes of commands: seven times what the largest effort takes here, without a
 * sanitizer. */
static double seconds_for(uint64_t bytes) { return 0.5 + (double)bytes / 20000.0; }

/* ---- commands */
static uint8_t *saved_list(presil_device *d, presil_daddr arena, uint64_t *size) {
    matmul_buffers m = {arena, {arena.value + STEP}, {arena.value + 2 * STEP}};
    presil_list *list;
    EXPECT_OK(presil_record_begin(d, NULL));
    EXPECT_OK(matmul_enqueue(d, NULL, &m));
    m.b = m.out;
    m.out.value += STEP;
    EXPECT_OK(matmul_enqueue(d, NULL, &m));
    EXPECT_OK(presil_record_end(d, NULL, &list));
    EXPECT_OK(presil_list_save(list, arena, NULL, size));
    uint8_t *bytes = malloc(*size);
    EXPECT_OK(presil_list_save(list, arena, bytes, size));
    presil_list_destroy(list);
    return bytes;
}

/* One list of one launch of `d`, as a file would have it. */
static uint64_t hostile(const uint8_t *model, const presil_desc *d, uint8_t *to) {
    const uint64_t one = 1, length = 120 + 8 + sizeof *d;
    memcpy(to, &one, 8);
    memcpy(to + 8, &length, 8);
    memcpy(to + 16, model + 16, 120); /* the header of an image: magic, version, configuration, label */
    memcpy(to + 16 + 12, &(uint32_t){1}, 4);
    memcpy(to + 16 + 16, &one, 8);
    memcpy(to + 16 + 120, &one, 8);
    memcpy(to + 16 + 128, d, sizeof *d);
    return 16 + length;
}

static void bounded_before_it_is_walked(void **unused) {
    (void)unused;
    (void)fuzz_begin("test_fuzz_program: hostile commands", 0);
    presil_device *d = open_device(PRESIL_MODE_MODEL, "soft");
    presil_daddr arena;
    EXPECT_OK(presil_alloc(d, NULL, NULL, ARENA, &arena));
    uint64_t size;
    uint8_t *model = saved_list(d, arena, &size), image[512];
    presil_desc load = {0}, store = {0}, matrix = {0}, rows = {0};
    presil_desc_opcode_set(&load, PRESIL_OPCODE_LOAD);
    presil_load_n0_set(&load, 65535), presil_load_n1_set(&load, 4096), presil_load_n2_set(&load, 64);
    presil_load_n3_set(&load, 64);
    presil_load_chunk_bytes_set(&load, 16), presil_load_word_bytes_set(&load, 16), presil_load_row_bytes_set(&load, 16);
    rows = load; /* no row has a byte, all are looked at */
    presil_load_n0_set(&rows, 1), presil_load_n1_set(&rows, 65535), presil_load_n2_set(&rows, 65535);
    presil_load_n3_set(&rows, 65535);
    presil_desc_opcode_set(&store, PRESIL_OPCODE_STORE);
    presil_store_n0_set(&store, 65535), presil_store_n1_set(&store, 65535), presil_store_n2_set(&store, 65535);
    presil_store_n3_set(&store, 1);
    presil_store_chunk_bytes_set(&store, 1), presil_store_word_bytes_set(&store, 1);
    presil_desc_opcode_set(&matrix, PRESIL_OPCODE_MATRIX);
    presil_matrix_nx_set(&matrix, 32768), presil_matrix_ny_set(&matrix, 32768), presil_matrix_kx_set(&matrix, 1);
    presil_matrix_ky_set(&matrix, 1), presil_matrix_ncb_set(&matrix, 1), presil_matrix_idx_set(&matrix, 1);
    presil_matrix_idy_set(&matrix, 1), presil_matrix_sx_set(&matrix, 1), presil_matrix_sy_set(&matrix, 1);
    presil_matrix_lim_x_set(&matrix, 1), presil_matrix_lim_y_set(&matrix, 1), presil_matrix_first_set(&matrix, 1);
    presil_desc *all[] = {&load, &rows, &store, &matrix};
    static const char *const names[] = {"LOAD of 10^12 words", "LOAD of 10^14 rows", "STORE of 10^14 words",
                                        "MATRIX of 10^9 rows"};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        presil_list *list = NULL;
        presil_desc_isa_set(all[i], PRESIL_ISA_VERSION);
        const uint64_t bytes = hostile(model, all[i], image);
        fuzz_budget(names[i], seconds_for(bytes), MEBIBYTE);
        EXPECT_STATUS(presil_list_load(d, image, bytes, arena, ARENA, &list), PRESIL_EINVAL);
        fuzz_within_budget();
        EXPECT_TEXT("accesses");
    }
    free(model);
    EXPECT_OK(presil_free(d, arena));
    presil_device_close(d);
    fuzz_end();
}

/* 131,072 rows of 16 bytes at one place: what they cover is one range, whatever the file says of their number. */
static void rows_over_each_other_take_no_memory(void **unused) {
    (void)unused;
    (void)fuzz_begin("test_fuzz_program: rows over each other", 0);
    presil_device *d = open_device(PRESIL_MODE_MODEL, "soft");
    presil_daddr arena;
    EXPECT_OK(presil_alloc(d, NULL, NULL, ARENA, &arena));
    uint64_t size;
    uint8_t *model = saved_list(d, arena, &size), image[512];
    presil_desc load = {0};
    presil_list *list = NULL;
    presil_desc_opcode_set(&load, PRESIL_OPCODE_LOAD), presil_desc_isa_set(&load, PRESIL_ISA_VERSION);
    presil_load_n0_set(&load, 1), presil_load_n1_set(&load, 512), presil_load_n2_set(&load, 256);
    presil_load_n3_set(&load, 1);
    presil_load_chunk_bytes_set(&load, 16), presil_load_word_bytes_set(&load, 16), presil_load_row_bytes_set(&load, 16);
    const uint64_t bytes = hostile(model, &load, image);
    fuzz_budget("LOAD of 131,072 rows at one place", 5.0, MEBIBYTE);
    EXPECT_OK(presil_list_load(d, image, bytes, arena, ARENA, &list));
    fuzz_within_budget();
    presil_list_destroy(list);
    free(model);
    EXPECT_OK(presil_free(d, arena));
    presil_device_close(d);
    fuzz_end();
}

static void bent_commands(void **unused) {
    (void)unused;
    const uint64_t cases = fuzz_begin("test_fuzz_program: commands", 20000);
    presil_device *d = open_device(PRESIL_MODE_MODEL, "soft");
    presil_daddr arena;
    EXPECT_OK(presil_alloc(d, NULL, NULL, ARENA, &arena));
    uint64_t size, refused = 0, run = 0;
    uint8_t *model = saved_list(d, arena, &size), *bytes = malloc(size);
    for (uint64_t i = 0; i < cases; i++) {
        presil_list *list = NULL;
        memcpy(bytes, model, size);
        fuzz_bend(bytes, size);
        const uint64_t length = fuzz_below(20) ? size : fuzz_below((uint32_t)size);
        fuzz_budget("loading commands", seconds_for(length), 4 * MEBIBYTE);
        const int status = presil_list_load(d, bytes, length, arena, ARENA, &list);
        fuzz_within_budget();
        if (status) {
            refused++;
            continue;
        }
        fuzz_budget("running commands", seconds_for(length), 4 * MEBIBYTE);
        if (!presil_list_submit(list, NULL)) run += !presil_device_synchronize(d);
        fuzz_within_budget();
        presil_list_destroy(list);
    }
    assert_true(cases < 1000 || (refused > cases / 10 && run > cases / 20));
    free(bytes);
    free(model);
    EXPECT_OK(presil_free(d, arena));
    presil_device_close(d);
    fuzz_end();
}

/* ---- files */
static void write_file(const char *path, const uint8_t *bytes, uint64_t size) {
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
}

static void seal(uint8_t *bytes, uint64_t size) {
    uint32_t crc = ~0u;
    memset(bytes + 20, 0, 4);
    memcpy(bytes + 24, &size, 8);
    for (uint64_t i = 0; i < size; i++) {
        crc ^= bytes[i];
        for (int k = 0; k < 8; k++) crc = crc & 1u ? 0xedb88320u ^ crc >> 1 : crc >> 1;
    }
    memcpy(bytes + 20, &(uint32_t){~crc}, 4);
}

static void put(uint8_t *to, uint64_t value, size_t bytes) { memcpy(to, &value, bytes); }

static uint64_t codes_of(int version) { return version == 3 ? 16 : version == 2 ? CODES : 0; }
static uint64_t steps_of(int version) { return version == 3 ? 2 * STEP_HEAD + OPERATOR : 0; }
static uint64_t tables(int version) { return HEADER + 2 * (TENSOR + codes_of(version)) + CONSTANT + steps_of(version); }

static void put_tensor(uint8_t *t, const char *name, uint32_t dtype, uint64_t offset, uint64_t ndim,
                       const uint64_t *shape) {
    uint64_t stride = 1;
    memcpy(t, name, strlen(name));
    put(t + 64, dtype, 4), put(t + 68, ndim, 4), put(t + 72, offset, 8);
    for (uint64_t i = ndim; i-- > 0; stride *= shape[i])
        put(t + 80 + 8 * i, shape[i], 8), put(t + 144 + 8 * i, stride, 8);
}

/* A launch, then a maximum of 2 x 2 elements of int8 on the host. */
static void put_steps(uint8_t *to, uint64_t list_bytes) {
    put(to + 8, list_bytes, 8);
    to += STEP_HEAD;
    put(to, 1, 4), put(to + 4, OPERATOR, 4);
    to += STEP_HEAD;
    put(to, PRESIL_OP_POOL_MAX, 4), put(to + 4, 1, 4), put(to + 8, 2, 4), put(to + 12, 1, 4);
    put_tensor(to + 16, "input", PRESIL_INT8, 0, 4, (const uint64_t[]){1, 4, 6, 3});
    put_tensor(to + 16 + TENSOR, "output", PRESIL_INT8, STEP, 4, (const uint64_t[]){1, 2, 3, 3});
    to += 16 + 2 * TENSOR;
    memcpy(to, "kernel", 6), put(to + 36, 2, 4), put(to + 40, 2, 8), put(to + 48, 2, 8);
    memcpy(to + ATTRIBUTE, "function", 8), put(to + ATTRIBUTE + 32, 2, 4), memcpy(to + ATTRIBUTE + 40, "max", 3);
    to += 2 * ATTRIBUTE;
    put(to, PRESIL_STEP_QUANTIZE, 4), put(to + 20, (uint64_t)-128, 4), put(to + 24, 127, 4);
}

/* A program of one constant, one input (but for version 1 of codes), one output (docs/aot.md). */
static uint8_t *program_file(presil_device *d, presil_daddr arena, int version, uint64_t *size) {
    uint64_t list_bytes;
    uint8_t *list = saved_list(d, arena, &list_bytes);
    *size = tables(version) + list_bytes + 256;
    uint8_t *f = calloc(1, *size);
    memcpy(f, "PRESILPR", 8);
    put(f + 8, (uint64_t)version, 4);
    memcpy(f + 32, "presil", 6);
    memcpy(f + 64, "tiny", 4);
    put(f + 132, 1, 4), put(f + 136, 1, 4), put(f + 140, 1, 4);
    put(f + 144, ARENA, 8), put(f + 152, list_bytes, 8);
    for (int i = 0; i < 2; i++) {
        uint8_t *t = f + HEADER + (uint64_t)i * (TENSOR + codes_of(version));
        const uint32_t dtype = i ? PRESIL_FP32 : version > 1 ? PRESIL_INT8 : PRESIL_BF16;
        put_tensor(t, i ? "o" : "i", dtype, (uint64_t)i * 3 * STEP, 2, (const uint64_t[]){8, 8});
        if (version > 1 && !i) memcpy(t + TENSOR, &(float){0.5f}, 4);
        if (version == 3 && !i) put(t + TENSOR + 8, 1, 4);
    }
    uint8_t *constant = f + tables(version) - steps_of(version) - CONSTANT;
    put(constant, STEP, 8), put(constant + 8, 128, 8), put(constant + 16, *size - 256, 8);
    if (version == 3) {
        put(f + 160, 2, 4);
        put_steps(constant + CONSTANT, list_bytes);
    }
    memcpy(f + tables(version), list, list_bytes);
    free(list);
    return f;
}

static bool is_short(const program *p) {
    for (uint32_t i = 0; i < p->steps_count; i++) {
        int64_t kernel[8];
        if (!p->steps[i].host) continue;
        (void)presil_op_integers(&p->steps[i].host->op, "kernel", 1, kernel, 8);
        for (int k = 0; k < 8; k++) {
            if (kernel[k] > 16) return false;
        }
    }
    return true;
}

static void bend_programs(int version) {
    const uint64_t cases = fuzz_begin("test_fuzz_program: programs", 1000);
    presil_device *d = open_device(PRESIL_MODE_MODEL, "soft");
    presil_daddr arena;
    EXPECT_OK(presil_alloc(d, NULL, NULL, ARENA, &arena));
    char path[] = "/tmp/presil-fuzz-XXXXXX", text[512];
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    uint64_t size, read = 0, placed = 0;
    uint8_t *model = program_file(d, arena, version, &size), *bytes = malloc(size);
    EXPECT_OK(presil_free(d, arena));
    for (uint64_t i = 0; i < cases; i++) {
        program p;
        placed_program at;
        memcpy(bytes, model, size);
        if (i) fuzz_bend(bytes + 24, fuzz_below(4) ? tables(version) - 24 : size - 24);
        if (fuzz_below(50)) seal(bytes, size);
        write_file(path, bytes, size);
        fuzz_budget("reading a program", seconds_for(size), 2 * size + 8 * MEBIBYTE);
        int status = program_read(path, &p, text, sizeof text);
        if (!status) {
            read++;
            status = program_place(&p, d, &at);
            if (!status) {
                placed++;
                /* The reference knows no function of a maximum: refused when it is computed. */
                if (version == 3 && is_short(&p)) {
                    const int run = program_run(&at, text, sizeof text);
                    assert_true(i || run == PRESIL_EUNSUPPORTED);
                }
                program_remove(&at);
            }
            program_free(&p);
        }
        fuzz_within_budget();
        assert_true(i || !status); /* the unbent one works */
    }
    assert_true(cases < 1000 || (read > cases / 20 && placed > cases / 50));
    (void)unlink(path);
    (void)close(fd);
    free(bytes);
    free(model);
    presil_device_close(d);
    fuzz_end();
}

static void bent_programs(void **unused) {
    (void)unused;
    bend_programs(1);
}
static void bent_programs_of_codes(void **unused) {
    (void)unused;
    bend_programs(2);
}

static void bent_programs_of_steps(void **unused) {
    (void)unused;
    bend_programs(3);
}

/* Constants that lie over each other: 24 bytes of the file, and as much to copy as one likes. */
static void each_byte_is_copied_once(void **unused) {
    (void)unused;
    (void)fuzz_begin("test_fuzz_program: constants", 0);
    enum { MANY = 20000 };
    const uint64_t size = HEADER + (uint64_t)MANY * CONSTANT + 8 + MEBIBYTE;
    char path[] = "/tmp/presil-fuzz-XXXXXX", text[512];
    const int fd = mkstemp(path);
    uint8_t *f = calloc(1, size);
    memcpy(f, "PRESILPR", 8);
    put(f + 8, 1, 4), put(f + 140, MANY, 4), put(f + 144, 2 * MEBIBYTE, 8), put(f + 152, 8, 8);
    for (uint64_t i = 0; i < MANY; i++) put(f + HEADER + i * CONSTANT + 8, MEBIBYTE, 8);
    seal(f, size);
    write_file(path, f, size);
    program p;
    fuzz_budget("constants of 20 GiB", seconds_for(size), 2 * size + MEBIBYTE);
    assert_int_equal(program_read(path, &p, text, sizeof text), -1);
    fuzz_within_budget();
    assert_non_null(strstr(text, "constant"));
    free(f);
    (void)unlink(path);
    (void)close(fd);
}

static void bent_arrays(void **unused) {
    (void)unused;
    const uint64_t cases = fuzz_begin("test_fuzz_program: NumPy's files", 3000);
    char path[] = "/tmp/presil-fuzz-XXXXXX", text[512];
    const int fd = mkstemp(path);
    static uint8_t file[4096], bent[4096];
    float elements[6] = {1, 2, 3, 4, 5, 6};
    npy_array a = {
        .dtype = PRESIL_FP32, .ndim = 2, .shape = {2, 3}, .bytes = sizeof elements, .data = (void *)elements};
    assert_int_equal(npy_write(path, &a, text, sizeof text), 0);
    FILE *f = fopen(path, "rb");
    const size_t size = fread(file, 1, sizeof file, f);
    (void)fclose(f);
    uint64_t read = 0;
    static const char *const shapes[] = {"(2, 3)", "(9999999999,)", "(4000000000, 3)", "(99999999, 20)"};
    for (uint64_t i = 0; i < cases; i++) {
        memcpy(bent, file, size);
        uint8_t *shape = memmem(bent, size, "(2, 3)", 6);
        const char *text_of = shapes[i < 4 ? i : fuzz_below(4)];
        memcpy(shape, text_of, strlen(text_of));
        memcpy(shape + strlen(text_of), ", } ", 4);
        if (i >= 4) fuzz_bend(bent + 8, 80);
        write_file(path, bent, size);
        fuzz_budget("reading an array", 0.5, MEBIBYTE);
        const int status = npy_read(path, &a, text, sizeof text);
        if (!status) npy_free(&a);
        fuzz_within_budget();
        read += !status;
        if (i < 4) assert_int_equal(status, i ? -1 : 0);
    }
    assert_true(cases < 1000 || read > cases / 100);
    (void)unlink(path);
    (void)close(fd);
    fuzz_end();
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(bounded_before_it_is_walked),
                                       cmocka_unit_test(rows_over_each_other_take_no_memory),
                                       cmocka_unit_test(bent_commands),
                                       cmocka_unit_test(bent_programs),
                                       cmocka_unit_test(bent_programs_of_codes),
                                       cmocka_unit_test(bent_programs_of_steps),
                                       cmocka_unit_test(each_byte_is_copied_once),
                                       cmocka_unit_test(bent_arrays)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
