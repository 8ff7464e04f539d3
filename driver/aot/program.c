/* SPDX-License-Identifier: Apache-2.0 */
#include "program.h"
#include "presil_image.h"

#include <errno.h>
#include <float.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* docs/aot.md. All little-endian; this code runs on little-endian machines only. */
enum {
    VERSION = 1,
    WITH_CODES = 2, /* the version of programs some of whose tensors stand for real values */
    HEADER_BYTES = 192,
    TENSOR_BYTES = 208,
    CODES_BYTES = 8,
    CONSTANT_BYTES = 24,
    CRC_AT = 20,
    MOST_TENSORS = 4096,
    MOST_CONSTANTS = 1 << 20
};
static const char magic[8] = "PRESILPR";

static uint32_t crc32_of(uint32_t crc, const uint8_t *p, uint64_t n) {
    static uint32_t table[256];
    if (!table[1]) {
        for (uint32_t i = 0; i < 256; i++) {
            uint32_t c = i;
            for (int k = 0; k < 8; k++) c = c & 1u ? 0xedb88320u ^ c >> 1 : c >> 1;
            table[i] = c;
        }
    }
    crc = ~crc;
    for (uint64_t i = 0; i < n; i++) crc = table[(crc ^ p[i]) & 255u] ^ crc >> 8;
    return ~crc;
}

static int wrong(char *text, size_t bytes, const char *format, ...) __attribute__((format(printf, 3, 4)));
static int wrong(char *text, size_t bytes, const char *format, ...) {
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, bytes, format, args);
    va_end(args);
    return -1;
}

static uint32_t u32(const uint8_t *p) {
    uint32_t v;
    memcpy(&v, p, 4);
    return v;
}
static uint64_t u64(const uint8_t *p) {
    uint64_t v;
    memcpy(&v, p, 8);
    return v;
}

uint32_t program_element_bytes(uint32_t dtype) { return dtype == PRESIL_INT8 ? 1 : dtype == PRESIL_BF16 ? 2 : 4; }

uint64_t program_elements(const program_tensor *t) {
    uint64_t n = 1;
    for (uint32_t i = 0; i < t->ndim; i++) n *= (uint64_t)t->shape[i];
    return n;
}

/* Names are shown and go into JSON: what is no plain character becomes '?'. */
static void make_plain(char *name) {
    for (; *name; name++) {
        if (*name < ' ' || *name > '~' || *name == '"' || *name == '\\') *name = '?';
    }
}

static int read_file(const char *path, program *out, char *text, size_t bytes) {
    FILE *f = fopen(path, "rb");
    long size = -1;
    if (!f) return wrong(text, bytes, "%s: %s", path, strerror(errno));
    if (fseek(f, 0, SEEK_END) == 0) size = ftell(f);
    rewind(f);
    out->file = size >= 0 ? malloc((size_t)size + 1) : NULL;
    out->file_bytes = size >= 0 ? (uint64_t)size : 0;
    bool ok = out->file && fread(out->file, 1, (size_t)size, f) == (size_t)size;
    (void)fclose(f);
    return ok ? 0 : wrong(text, bytes, "%s: can't be read whole", path);
}

/* Positive sizes, non-negative strides, every element inside the arena. */
static bool tensor_fits(const program_tensor *t, uint64_t arena) {
    uint64_t last = t->offset, elements = 1;
    if (t->dtype > PRESIL_INT32 || t->ndim > PROGRAM_DIMS || !memchr(t->name, 0, sizeof t->name) || t->offset > arena)
        return false;
    for (uint32_t i = 0; i < t->ndim; i++) {
        if (t->shape[i] < 1 || t->stride[i] < 0 || (uint64_t)t->shape[i] > arena / elements + 1 ||
            (uint64_t)t->stride[i] > arena)
            return false;
        elements *= (uint64_t)t->shape[i];
        if (elements > arena) return false;
        if (t->stride[i] && (uint64_t)(t->shape[i] - 1) > arena / (uint64_t)t->stride[i]) return false;
        last += (uint64_t)(t->shape[i] - 1) * (uint64_t)t->stride[i] * program_element_bytes(t->dtype);
        if (last > arena) return false;
    }
    return last + program_element_bytes(t->dtype) <= arena;
}

static void parse_tensor(const uint8_t *from, bool codes, program_tensor *t) {
    memcpy(t->name, from, sizeof t->name);
    t->dtype = u32(from + 64);
    t->ndim = u32(from + 68);
    t->offset = u64(from + 72);
    memcpy(t->shape, from + 80, sizeof t->shape);
    memcpy(t->stride, from + 144, sizeof t->stride);
    if (!codes) return;
    memcpy(&t->factor, from + TENSOR_BYTES, sizeof t->factor);
    memcpy(&t->zero_point, from + TENSOR_BYTES + 4, sizeof t->zero_point);
}

/* None, or of int8, finite and in the range of the codes. */
static bool codes_fit(const program_tensor *t) {
    if (t->factor == 0.0f) return t->zero_point == 0;
    return t->factor > 0.0f && t->factor <= FLT_MAX && t->dtype == PRESIL_INT8 && t->zero_point >= -128 &&
           t->zero_point <= 127;
}

/* What the file is instead, as far as its first bytes tell, and who reads it. */
static void name_stranger(const uint8_t *start, uint64_t size, char *text, size_t bytes) {
    static const struct {
        const char *magic, *name;
    } known[] = {{"PRESILB\n", "a bundle of launches: presil-replay runs it"},
                 {"\x93NUMPY", "a NumPy array: the program comes before the arrays"},
                 {"PK\x03\x04", "a zip archive, as torch.save and torch.export.save write"},
                 {"\177ELF", "an ELF binary"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const size_t length = strlen(known[i].magic);
        if (size < length || memcmp(start, known[i].magic, length) != 0) continue;
        (void)snprintf(text, bytes, "%s", known[i].name);
        return;
    }
    char plain[9] = "", hex[25] = "";
    const size_t shown = size < 8 ? (size_t)size : 8;
    for (size_t i = 0; i < shown; i++) {
        plain[i] = start[i] >= ' ' && start[i] <= '~' ? (char)start[i] : '.';
        (void)snprintf(hex + 3 * i, 4, " %02x", start[i]);
    }
    if (shown)
        (void)snprintf(text, bytes, "\"%s\" (%s)", plain, hex + 1);
    else
        (void)snprintf(text, bytes, "an empty file");
}

static int parse(const char *path, program *p, char *text, size_t bytes) {
    const uint8_t *h = p->file;
    if (p->file_bytes < sizeof magic || memcmp(h, magic, sizeof magic) != 0) {
        char found[96];
        name_stranger(h, p->file_bytes, found, sizeof found);
        return wrong(text, bytes,
                     "%s: expected a program of torch.presil.aot_save (.paot, which begins with %.8s), found %s", path,
                     magic, found);
    }
    if (p->file_bytes < HEADER_BYTES)
        return wrong(text, bytes, "%s: %llu bytes, at least %d expected: the file is truncated", path,
                     (unsigned long long)p->file_bytes, HEADER_BYTES);
    if (u32(h + 8) != VERSION && u32(h + 8) != WITH_CODES)
        return wrong(text, bytes, "%s: format version %u, this program knows %d and %d: save it again", path,
                     u32(h + 8), VERSION, WITH_CODES);
    if (u64(h + 24) != p->file_bytes)
        return wrong(text, bytes, "%s: %llu bytes, %llu expected: the file is truncated", path,
                     (unsigned long long)p->file_bytes, (unsigned long long)u64(h + 24));
    const uint8_t zero[4] = {0};
    uint32_t crc = crc32_of(crc32_of(crc32_of(0, h, CRC_AT), zero, 4), h + CRC_AT + 4, p->file_bytes - CRC_AT - 4);
    if (crc != u32(h + CRC_AT))
        return wrong(text, bytes, "%s: checksum 0x%08x, 0x%08x expected: the file is damaged", path, crc,
                     u32(h + CRC_AT));
    memcpy(p->chip, h + 32, sizeof p->chip - 1);
    memcpy(p->config, h + 64, sizeof p->config - 1);
    make_plain(p->chip);
    make_plain(p->config);
    p->config_hash = u32(h + 128);
    p->inputs = u32(h + 132);
    p->outputs = u32(h + 136);
    p->constants = u32(h + 140);
    p->arena_bytes = u64(h + 144);
    p->commands_bytes = u64(h + 152);
    if (p->inputs > MOST_TENSORS || p->outputs > MOST_TENSORS || p->constants > MOST_CONSTANTS)
        return wrong(text, bytes, "%s: %u inputs, %u outputs, %u constants: the header is damaged", path, p->inputs,
                     p->outputs, p->constants);
    const bool codes = u32(h + 8) == WITH_CODES;
    const uint64_t each = codes ? TENSOR_BYTES + CODES_BYTES : TENSOR_BYTES,
                   tensors = (uint64_t)(p->inputs + p->outputs) * each,
                   constants = (uint64_t)p->constants * CONSTANT_BYTES;
    p->constants_offset = HEADER_BYTES + tensors;
    p->commands_offset = p->constants_offset + constants;
    if (p->commands_offset > p->file_bytes || p->commands_bytes > p->file_bytes - p->commands_offset)
        return wrong(text, bytes, "%s: its tables don't fit into the file: the header is damaged", path);
    p->tensors = calloc(p->inputs + p->outputs + 1u, sizeof *p->tensors);
    if (!p->tensors) return wrong(text, bytes, "no host memory");
    for (uint32_t i = 0; i < p->inputs + p->outputs; i++) {
        program_tensor *t = &p->tensors[i];
        parse_tensor(h + HEADER_BYTES + i * each, codes, t);
        if (!tensor_fits(t, p->arena_bytes))
            return wrong(text, bytes, "%s: %s %u does not fit the program's memory of %llu bytes: the file is damaged",
                         path, i < p->inputs ? "input" : "output", i < p->inputs ? i : i - p->inputs,
                         (unsigned long long)p->arena_bytes);
        if (!codes_fit(t))
            return wrong(text, bytes, "%s: %s %u has codes of factor %g and zero point %d: the file is damaged", path,
                         i < p->inputs ? "input" : "output", i < p->inputs ? i : i - p->inputs, (double)t->factor,
                         (int)t->zero_point);
        make_plain(t->name);
    }
    uint64_t left = p->file_bytes; /* each byte of the file is copied once */
    for (uint32_t i = 0; i < p->constants; i++) {
        const uint8_t *c = h + p->constants_offset + (uint64_t)i * CONSTANT_BYTES;
        const uint64_t at = u64(c), n = u64(c + 8), file = u64(c + 16);
        if (at > p->arena_bytes || n > p->arena_bytes - at || file > p->file_bytes || n > p->file_bytes - file ||
            n > left)
            return wrong(text, bytes, "%s: constant %u does not fit: the file is damaged", path, i);
        left -= n;
    }
    return 0;
}

int program_read(const char *path, program *out, char *text, size_t bytes) {
    memset(out, 0, sizeof *out);
    int status = read_file(path, out, text, bytes);
    if (status == 0) status = parse(path, out, text, bytes);
    if (status) program_free(out);
    return status;
}

void program_free(program *p) {
    free(p->tensors);
    free(p->file);
    memset(p, 0, sizeof *p);
}

static int fill(const program *p, placed_program *out) {
    int status = PRESIL_OK;
    for (uint32_t i = 0; i < p->constants && !status; i++) {
        const uint8_t *c = p->file + p->constants_offset + (uint64_t)i * CONSTANT_BYTES;
        status = presil_copy_to_device(out->device, NULL, (presil_daddr){out->arena.value + u64(c)},
                                       p->file + u64(c + 16), u64(c + 8), PRESIL_COPY_DIRECT);
    }
    if (!status) status = presil_device_synchronize(out->device);
    return status ? status
                  : presil_list_load(out->device, p->file + p->commands_offset, p->commands_bytes, out->arena,
                                     p->arena_bytes, &out->list);
}

int program_place(const program *p, presil_device *device, placed_program *out) {
    *out = (placed_program){.device = device};
    int status = presil_alloc(device, NULL, NULL, p->arena_bytes, &out->arena);
    if (!status) status = fill(p, out);
    if (status) program_remove(out);
    return status;
}

void program_remove(placed_program *p) {
    presil_list_destroy(p->list);
    if (p->arena.value) (void)!presil_free(p->device, p->arena);
    *p = (placed_program){0};
}

/* Bytes of memory that the tensor's elements span, gaps too. */
static uint64_t span(const program_tensor *t) {
    uint64_t last = 0;
    for (uint32_t i = 0; i < t->ndim; i++) last += (uint64_t)(t->shape[i] - 1) * (uint64_t)t->stride[i];
    return (last + 1) * program_element_bytes(t->dtype);
}

static void transfer(const program_tensor *t, uint8_t *strided, uint8_t *dense, bool in) {
    const uint32_t e = program_element_bytes(t->dtype);
    int64_t index[PROGRAM_DIMS] = {0};
    for (uint64_t n = program_elements(t); n > 0; n--, dense += e) {
        uint64_t at = 0;
        for (uint32_t i = 0; i < t->ndim; i++) at += (uint64_t)index[i] * (uint64_t)t->stride[i];
        memcpy(in ? strided + at * e : dense, in ? dense : strided + at * e, e);
        for (uint32_t i = t->ndim; i-- > 0 && ++index[i] == t->shape[i];) index[i] = 0;
    }
}

int program_set(const placed_program *p, const program_tensor *t, const void *dense) {
    uint8_t *buffer = calloc(1, span(t)), *from = malloc(program_elements(t) * program_element_bytes(t->dtype) + 1);
    int status = PRESIL_EHOSTMEM;
    if (buffer && from) {
        memcpy(from, dense, program_elements(t) * program_element_bytes(t->dtype));
        transfer(t, buffer, from, true);
        status = presil_copy_to_device(p->device, NULL, (presil_daddr){p->arena.value + t->offset}, buffer, span(t),
                                       PRESIL_COPY_DIRECT);
        if (!status) status = presil_device_synchronize(p->device);
    }
    free(buffer);
    free(from);
    return status;
}

int program_get(const placed_program *p, const program_tensor *t, void *dense) {
    uint8_t *buffer = malloc(span(t));
    if (!buffer) return PRESIL_EHOSTMEM;
    int status = presil_copy_to_host(p->device, NULL, buffer, (presil_daddr){p->arena.value + t->offset}, span(t),
                                     PRESIL_COPY_DIRECT);
    if (!status) status = presil_device_synchronize(p->device);
    if (!status) transfer(t, buffer, dense, false);
    free(buffer);
    return status;
}
