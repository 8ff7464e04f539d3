/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a board's file: lines of "key = value [option=value ...]", "#" begins a comment. */
#define _GNU_SOURCE
#include "spec.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 1024, MOST_WORDS = 8, DEFAULT_TIMEOUT_MS = 10000 };

typedef struct {
    board_spec *spec;
    int line;
    char *error;
    size_t error_bytes;
    char *word[MOST_WORDS]; /* of the value */
    int words;
} reader;

__attribute__((format(printf, 2, 3))) static int refuse(const reader *r, const char *format, ...) {
    va_list args;
    const int n = snprintf(r->error, r->error_bytes, "board %s, line %d: ", r->spec->file, r->line);
    va_start(args, format);
    if (n > 0 && (size_t)n < r->error_bytes) (void)vsnprintf(r->error + n, r->error_bytes - (size_t)n, format, args);
    va_end(args);
    return -1;
}

/* "4096", "0x1000", "4K", "64M", "2G" */
static int number(const reader *r, const char *what, const char *text, uint64_t *out) {
    char *end = NULL;
    errno = 0;
    const uint64_t value = strtoull(text, &end, 0);
    unsigned shift = 0;
    if (*end == 'K') shift = 10;
    if (*end == 'M') shift = 20;
    if (*end == 'G') shift = 30;
    if (shift) end++;
    if (errno || end == text || *end || *text == '-' || value > UINT64_MAX >> shift)
        return refuse(r, "%s: a number such as 0x1000, 4K or 2G expected, \"%s\" found", what, text);
    *out = value << shift;
    return 0;
}

/* Of "name=value" among the words behind the first; NULL: not there. */
static const char *option(const reader *r, const char *name) {
    const size_t n = strlen(name);
    for (int i = 1; i < r->words; i++) {
        if (strncmp(r->word[i], name, n) == 0 && r->word[i][n] == '=') return r->word[i] + n + 1;
    }
    return NULL;
}

static bool flag(const reader *r, const char *name) {
    for (int i = 1; i < r->words; i++) {
        if (strcmp(r->word[i], name) == 0) return true;
    }
    return false;
}

static int known_options(const reader *r, const char *const *names) {
    for (int i = 1; i < r->words; i++) {
        const size_t n = strcspn(r->word[i], "=");
        size_t k = 0;
        while (names[k] && (strlen(names[k]) != n || strncmp(names[k], r->word[i], n) != 0)) k++;
        if (!names[k]) return refuse(r, "\"%s\" is not known here", r->word[i]);
    }
    return 0;
}

/* Relative paths start where the board's file is. */
static int path_of(const reader *r, const char *text, char *out) {
    const char *slash = strrchr(r->spec->file, '/');
    const size_t folder = *text == '/' || !slash ? 0 : (size_t)(slash - r->spec->file) + 1, bytes = strlen(text) + 1;
    if (folder + bytes > BOARD_PATH) return refuse(r, "a path of at most %d letters expected", BOARD_PATH - 1);
    memcpy(out, r->spec->file, folder);
    memcpy(out + folder, text, bytes);
    return 0;
}

/* A path, or "fd:N": a descriptor that this process inherited. */
static int file_of(const reader *r, board_window *out) {
    const char *text = r->word[0];
    char *end = NULL;
    if (strncmp(text, "fd:", 3) != 0) return path_of(r, text, out->path);
    const unsigned long fd = strtoul(text + 3, &end, 10);
    if (text[3] < '0' || text[3] > '9' || *end || fd > INT32_MAX)
        return refuse(r, "fd:NUMBER of an open descriptor expected, \"%s\" found (a file of that name: ./%s)", text,
                      text);
    (void)snprintf(out->path, sizeof out->path, "fd:%lu", fd);
    out->inherited = true;
    out->fd = (int)fd;
    return 0;
}

static int window(const reader *r, board_window *out) {
    static const char *const parts[] = {"offset", "bytes"};
    uint64_t *const to[] = {&out->offset, &out->bytes};
    for (int i = 0; i < 2; i++) {
        const char *text = option(r, parts[i]);
        if (text && number(r, parts[i], text, to[i])) return -1;
    }
    if (out->offset % 4096) return refuse(r, "offset=0x%llx is no multiple of 4096", (unsigned long long)out->offset);
    return out->bytes ? 0 : refuse(r, "bytes=N is missing");
}

static int registers(const reader *r) {
    static const char *const names[] = {"offset", "bytes", "mailbox", NULL};
    board_spec *s = r->spec;
    if (known_options(r, names) || file_of(r, &s->registers)) return -1;
    s->mailbox = flag(r, "mailbox");
    return window(r, &s->registers);
}

static int memory(const reader *r) {
    static const char *const names[] = {"offset", "bytes", "base", "coherent", NULL};
    board_spec *s = r->spec;
    if (s->memory_count == BOARD_REGIONS) return refuse(r, "at most %d memories", BOARD_REGIONS);
    board_memory *m = &s->memory[s->memory_count];
    *m = (board_memory){.coherent = flag(r, "coherent")};
    const char *base = option(r, "base");
    if (known_options(r, names)) return -1;
    if (!base) return refuse(r, "base=ADDRESS (where the chip sees it) is missing");
    if (number(r, "base", base, &m->base) || window(r, &m->window)) return -1;
    if (m->base % 4096 || m->window.bytes % 4096 || m->base + m->window.bytes < m->base)
        return refuse(r, "base and bytes have to be multiples of 4096");
    for (uint32_t i = 0; i < s->memory_count; i++) {
        const board_memory *other = &s->memory[i];
        if (m->base < other->base + other->window.bytes && other->base < m->base + m->window.bytes)
            return refuse(r, "it overlaps the memory at 0x%llx", (unsigned long long)other->base);
    }
    if (strcmp(r->word[0], "mailbox") != 0 && file_of(r, &m->window)) return -1;
    s->memory_count++;
    return 0;
}

static int interrupt(const reader *r) {
    board_spec *s = r->spec;
    const char *how = r->word[0];
    uint64_t fd = 0;
    if (strcmp(how, "none") == 0) {
        s->interrupt = BOARD_POLLED;
    } else if (strncmp(how, "uio:", 4) == 0) {
        s->interrupt = BOARD_UIO;
        return path_of(r, how + 4, s->interrupt_path);
    } else if (strncmp(how, "eventfd:", 8) == 0) {
        s->interrupt = BOARD_EVENTFD;
        if (number(r, "eventfd", how + 8, &fd) || fd > INT32_MAX)
            return refuse(r, "eventfd:NUMBER of an open descriptor expected");
        s->interrupt_fd = (int)fd;
    } else {
        return refuse(r, "none, uio:PATH or eventfd:NUMBER expected, \"%s\" found", how);
    }
    return 0;
}

static int reset(const reader *r) {
    board_spec *s = r->spec;
    const char *how = r->word[0];
    uint64_t offset = 0, value = 1;
    if (strcmp(how, "none") == 0) {
        s->reset = BOARD_RESET_NONE;
    } else if (strcmp(how, "mailbox") == 0) {
        s->reset = BOARD_RESET_MAILBOX;
    } else if (strncmp(how, "file:", 5) == 0) {
        s->reset = BOARD_RESET_FILE;
        return path_of(r, how + 5, s->reset_path);
    } else if (strncmp(how, "register:", 9) == 0) {
        s->reset = BOARD_RESET_REGISTER;
        const char *text = option(r, "value");
        if (number(r, "register", how + 9, &offset) || (text && number(r, "value", text, &value))) return -1;
        s->reset_offset = (uint32_t)offset;
        s->reset_value = (uint32_t)value;
    } else {
        return refuse(r, "none, mailbox, file:PATH or register:OFFSET expected, \"%s\" found", how);
    }
    return 0;
}

static int name(const reader *r, char *out, size_t bytes) {
    if (r->words != 1 || strlen(r->word[0]) >= bytes) return refuse(r, "one word of less than %zu letters", bytes);
    (void)snprintf(out, bytes, "%s", r->word[0]);
    return 0;
}

static int small_number(const reader *r, const char *what, uint64_t least, uint64_t most, uint32_t *out) {
    uint64_t value = 0;
    if (number(r, what, r->word[0], &value)) return -1;
    if (value < least || value > most)
        return refuse(r, "%s of %llu to %llu expected, %llu found", what, (unsigned long long)least,
                      (unsigned long long)most, (unsigned long long)value);
    *out = (uint32_t)value;
    return 0;
}

static int take_key(const reader *r, const char *key) {
    board_spec *s = r->spec;
    if (strcmp(key, "chip") == 0) return name(r, s->chip, sizeof s->chip);
    if (strcmp(key, "config") == 0) return name(r, s->config, sizeof s->config);
    if (strcmp(key, "build") == 0) return name(r, s->build, sizeof s->build);
    if (strcmp(key, "clock_mhz") == 0) return small_number(r, "clock_mhz", 1, 100000, &s->clock_mhz);
    if (strcmp(key, "registers") == 0) return registers(r);
    if (strcmp(key, "memory") == 0) return memory(r);
    if (strcmp(key, "interrupt") == 0) return interrupt(r);
    if (strcmp(key, "reset") == 0) return reset(r);
    if (strcmp(key, "iommu") == 0) {
        s->iommu = strcmp(r->word[0], "mailbox") == 0;
        return s->iommu && r->words == 1 ? 0 : refuse(r, "iommu = mailbox expected, or no such line");
    }
    if (strcmp(key, "witness") == 0) return small_number(r, "witness", 0, UINT32_MAX, &s->witness);
    if (strcmp(key, "timeout_ms") == 0) return small_number(r, "timeout_ms", 10, 3600000, &s->timeout_ms);
    return refuse(r,
                  "\"%s\" is no key: chip, config, build, clock_mhz, registers, memory, interrupt, reset, iommu, "
                  "witness, timeout_ms",
                  key);
}

static int take_line(reader *r, char *line) {
    static const char space[] = " \t\r\n";
    char *at = NULL;
    line[strcspn(line, "#")] = 0;
    const char *key = strtok_r(line, " \t\r\n=", &at);
    if (!key) return 0;
    at += strspn(at, " \t=");
    r->words = 0;
    for (char *w = strtok_r(NULL, space, &at); w; w = strtok_r(NULL, space, &at)) {
        if (r->words == MOST_WORDS) return refuse(r, "at most %d words", MOST_WORDS);
        r->word[r->words++] = w;
    }
    return r->words ? take_key(r, key) : refuse(r, "%s has no value", key);
}

static bool same_bytes(const board_window *a, const board_window *b) {
    return a->path[0] && strcmp(a->path, b->path) == 0 && a->offset < b->offset + b->bytes &&
           b->offset < a->offset + a->bytes;
}

/* Else both would be allocated, and their locks be each other's. */
static int apart(const reader *r) {
    const board_spec *s = r->spec;
    for (uint32_t i = 0; i < s->memory_count; i++) {
        const board_window *w = &s->memory[i].window;
        bool twice = same_bytes(w, &s->registers);
        for (uint32_t k = 0; k < i; k++) twice |= same_bytes(w, &s->memory[k].window);
        if (twice)
            return refuse(r, "the memory at 0x%llx is bytes of %s that another line has: give each its offset=",
                          (unsigned long long)s->memory[i].base, w->path);
    }
    return 0;
}

static int complete(const reader *r) {
    const board_spec *s = r->spec;
    const char *missing = !*s->chip               ? "chip"
                          : !*s->config           ? "config"
                          : !s->registers.path[0] ? "registers"
                          : !s->memory_count      ? "memory"
                                                  : NULL;
    if (missing) return refuse(r, "the file ends, and %s = ... is missing", missing);
    for (uint32_t i = 0; i < s->memory_count; i++) {
        if (!s->memory[i].window.path[0] && !s->mailbox)
            return refuse(r, "memory = mailbox needs registers that are one (registers = FILE bytes=N mailbox)");
    }
    if (s->iommu && !s->mailbox) return refuse(r, "iommu = mailbox: the registers are none");
    if (s->reset == BOARD_RESET_MAILBOX && !s->mailbox) return refuse(r, "reset = mailbox: the registers are none");
    return apart(r);
}

int board_spec_read(const char *path, board_spec *out, char *error, size_t error_bytes) {
    *out = (board_spec){.timeout_ms = DEFAULT_TIMEOUT_MS, .build = "board"};
    reader r = {.spec = out, .error = error, .error_bytes = error_bytes};
    if ((size_t)snprintf(out->file, sizeof out->file, "%s", path) >= sizeof out->file) {
        (void)snprintf(error, error_bytes, "board: a path of at most %d letters expected", BOARD_PATH - 1);
        return -1;
    }
    FILE *f = fopen(path, "re");
    if (!f) {
        (void)snprintf(error, error_bytes, "board %s can't be read: %s", path, strerror(errno));
        return -1;
    }
    char line[LINE];
    int status = 0;
    while (!status && fgets(line, sizeof line, f)) {
        r.line++;
        status = take_line(&r, line);
    }
    (void)fclose(f);
    return status ? status : complete(&r);
}
