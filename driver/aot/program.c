/* SPDX-License-Identifier: Apache-2.0 */
#include "reading.h"

#include <errno.h>
#include <float.h>
#include <stdlib.h>

/* docs/aot.md */
enum {
    VERSION = 1,
    WITH_CODES = 2, /* the version of programs some of whose tensors stand for real values */
    WITH_STEPS = 3, /* of those of several steps, or whose codes are rounded before their zero point is added */
    HEADER_BYTES = 192,
    CODES_BYTES = 8,
    CODES_BYTES_3 = 16,
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

uint32_t program_element_bytes(uint32_t dtype) {
    return dtype == PRESIL_INT8 ? 1 : dtype == PRESIL_BF16 || dtype == PRESIL_FP16 ? 2 : 4;
}

uint64_t program_elements(const program_tensor *t) {
    uint64_t n = 1;
    for (uint32_t i = 0; i < t->ndim; i++) n *= (uint64_t)t->shape[i];
    return n;
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

bool program_tensor_fits(const program_tensor *t, uint64_t arena) {
    uint64_t last = t->offset, elements = 1;
    if ((t->dtype > PRESIL_INT32 && t->dtype != PRESIL_FP16) || t->ndim > PROGRAM_DIMS ||
        !memchr(t->name, 0, sizeof t->name) || t->offset > arena)
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

void program_parse_tensor(const uint8_t *from, program_tensor *t) {
    memcpy(t->name, from, sizeof t->name);
    t->dtype = u32(from + 64);
    t->ndim = u32(from + 68);
    t->offset = u64(from + 72);
    memcpy(t->shape, from + 80, sizeof t->shape);
    memcpy(t->stride, from + 144, sizeof t->stride);
}

static void parse_codes(const uint8_t *from, uint32_t version, program_tensor *t) {
    if (version == VERSION) return;
    memcpy(&t->factor, from, sizeof t->factor);
    memcpy(&t->zero_point, from + 4, sizeof t->zero_point);
    if (version == WITH_STEPS) t->rounds_first = u32(from + 8);
}

/* None, or of int8, finite and in the range of the codes. */
static bool codes_fit(const program_tensor *t) {
    if (t->factor == 0.0f) return t->zero_point == 0 && !t->rounds_first;
    return t->rounds_first <= 1 && t->factor > 0.0f && t->factor <= FLT_MAX && t->dtype == PRESIL_INT8 &&
           t->zero_point >= -128 && t->zero_point <= 127;
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

/* Header, checksum, and that the tables fit into the file. */
static int parse_header(const char *path, program *p, char *text, size_t bytes) {
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
    if (u32(h + 8) < VERSION || u32(h + 8) > WITH_STEPS)
        return wrong(text, bytes, "%s: format version %u, this program knows %d to %d: save it again", path, u32(h + 8),
                     VERSION, WITH_STEPS);
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
    return 0;
}

static int parse_tensors(const char *path, uint64_t each, program *p, char *text, size_t bytes) {
    const uint32_t version = u32(p->file + 8), count = p->inputs + p->outputs;
    p->tensors = calloc(count + 1u, sizeof *p->tensors);
    if (!p->tensors) return wrong(text, bytes, "no host memory");
    for (uint32_t i = 0; i < count; i++) {
        program_tensor *t = &p->tensors[i];
        const uint8_t *from = p->file + HEADER_BYTES + i * each;
        const char *kind = i < p->inputs ? "input" : "output";
        const uint32_t number = i < p->inputs ? i : i - p->inputs;
        program_parse_tensor(from, t);
        parse_codes(from + TENSOR_BYTES, version, t);
        if (!program_tensor_fits(t, p->arena_bytes))
            return wrong(text, bytes, "%s: %s %u does not fit the program's memory of %llu bytes: the file is damaged",
                         path, kind, number, (unsigned long long)p->arena_bytes);
        if (!codes_fit(t))
            return wrong(text, bytes, "%s: %s %u has codes of factor %g and zero point %d: the file is damaged", path,
                         kind, number, (double)t->factor, (int)t->zero_point);
        make_plain(t->name);
    }
    return 0;
}

static int check_constants(const char *path, const program *p, char *text, size_t bytes) {
    uint64_t left = p->file_bytes; /* each byte of the file is copied once */
    for (uint32_t i = 0; i < p->constants; i++) {
        const uint8_t *c = p->file + p->constants_offset + (uint64_t)i * CONSTANT_BYTES;
        const uint64_t at = u64(c), n = u64(c + 8), file = u64(c + 16);
        if (at > p->arena_bytes || n > p->arena_bytes - at || file > p->file_bytes || n > p->file_bytes - file ||
            n > left)
            return wrong(text, bytes, "%s: constant %u does not fit: the file is damaged", path, i);
        left -= n;
    }
    return 0;
}

/* Where the versions before had all commands at once, there is one step. */
static int parse_steps(const char *path, program *p, char *text, size_t bytes) {
    char why[200] = "";
    uint64_t taken = 0;
    const uint64_t tables = p->commands_offset;
    if (u32(p->file + 8) == WITH_STEPS) {
        const uint32_t count = u32(p->file + 160);
        if (program_parse_steps(p->file + tables, p->file_bytes - tables, count, p, &taken, why, sizeof why))
            return wrong(text, bytes, "%s: %s: the file is damaged", path, why);
        p->commands_offset += taken;
    } else {
        p->steps = calloc(1, sizeof *p->steps);
        if (!p->steps) return wrong(text, bytes, "no host memory");
        p->steps_count = 1;
        p->steps[0].commands_bytes = p->commands_bytes;
    }
    uint64_t at = p->commands_offset, left = p->commands_bytes;
    if (at > p->file_bytes || left > p->file_bytes - at)
        return wrong(text, bytes, "%s: its tables don't fit into the file: the header is damaged", path);
    for (uint32_t i = 0; i < p->steps_count; i++) {
        program_step *s = &p->steps[i];
        if (s->commands_bytes > left)
            return wrong(text, bytes, "%s: the commands of step %u don't fit: the file is damaged", path, i);
        s->commands_offset = at;
        at += s->commands_bytes;
        left -= s->commands_bytes;
    }
    return 0;
}

static int parse(const char *path, program *p, char *text, size_t bytes) {
    int status = parse_header(path, p, text, bytes);
    if (status) return status;
    const uint32_t version = u32(p->file + 8);
    const uint64_t codes = version == VERSION      ? 0
                           : version == WITH_CODES ? CODES_BYTES
                                                   : CODES_BYTES_3,
                   each = TENSOR_BYTES + codes;
    p->constants_offset = HEADER_BYTES + (uint64_t)(p->inputs + p->outputs) * each;
    p->commands_offset = p->constants_offset + (uint64_t)p->constants * CONSTANT_BYTES;
    if (p->commands_offset > p->file_bytes)
        return wrong(text, bytes, "%s: its tables don't fit into the file: the header is damaged", path);
    status = parse_steps(path, p, text, bytes);
    if (!status) status = parse_tensors(path, each, p, text, bytes);
    return status ? status : check_constants(path, p, text, bytes);
}

int program_read(const char *path, program *out, char *text, size_t bytes) {
    memset(out, 0, sizeof *out);
    int status = read_file(path, out, text, bytes);
    if (status == 0) status = parse(path, out, text, bytes);
    if (status) program_free(out);
    return status;
}

void program_free(program *p) {
    for (uint32_t i = 0; i < p->steps_count; i++) free(p->steps[i].host);
    free(p->steps);
    free(p->tensors);
    free(p->file);
    memset(p, 0, sizeof *p);
}
