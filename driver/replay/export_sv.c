/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One launch as a testbench for any simulator: memory before and after as images of bus words, the driver's register
 * writes, and a memory behind the chip's bus in plain SystemVerilog (testbench.c has its text). Nothing is written
 * but new files in the folder.
 */
#define _POSIX_C_SOURCE 200809L
#include "export_sv.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "presil_debug.h"

enum { PAGE = 4096, MOST_PAGES = 1 << 16, SLOTS_LOG2 = 17, SLOTS = 1 << SLOTS_LOG2 };

/* Pages of device memory that the launch touches: before it, after it, and which bytes are known before. */
typedef struct {
    uint64_t number; /* address / PAGE */
    uint8_t before[PAGE], after[PAGE], known[PAGE];
} page;

typedef struct {
    replay *r;
    page *pages;     /* sorted when all are there */
    uint32_t *slots; /* SLOTS of them, by a hash of the number: place in `pages` + 1, 0: free */
    uint64_t count, capacity;
    uint32_t (*registers)[2];
    uint64_t register_count, register_capacity;
    uint64_t checked; /* bytes */
    int folder;
} exported;

/* ---- memory */
static int by_number(const void *a, const void *b) {
    const uint64_t x = ((const page *)a)->number, y = ((const page *)b)->number;
    return x < y ? -1 : x > y;
}

/* NULL: no host memory, or too many. */
static page *page_of(exported *e, uint64_t number) {
    if (!e->slots) e->slots = calloc(SLOTS, sizeof *e->slots);
    if (!e->slots) return NULL;
    uint32_t *slot = &e->slots[number * 0x9e3779b97f4a7c15u >> (64 - SLOTS_LOG2)];
    while (*slot && e->pages[*slot - 1].number != number) slot = slot == &e->slots[SLOTS - 1] ? e->slots : slot + 1;
    if (*slot) return &e->pages[*slot - 1];
    if (e->count == e->capacity) {
        const uint64_t more = e->capacity ? 2 * e->capacity : 16;
        page *at = more <= MOST_PAGES ? realloc(e->pages, more * sizeof *at) : NULL;
        if (!at) return NULL;
        e->pages = at;
        e->capacity = more;
    }
    page *p = &e->pages[e->count++];
    memset(p, 0, sizeof *p);
    p->number = number;
    *slot = (uint32_t)e->count;
    return p;
}

typedef enum { BEFORE, AFTER } moment;

static int put(exported *e, uint64_t address, const uint8_t *bytes, uint64_t count, moment when) {
    for (uint64_t i = 0; i < count;) {
        const uint64_t offset = (address + i) % PAGE, n = PAGE - offset < count - i ? PAGE - offset : count - i;
        page *p = page_of(e, (address + i) / PAGE);
        if (!p) return PRESIL_EHOSTMEM;
        memcpy(p->after + offset, bytes + i, n);
        if (when == BEFORE) memcpy(p->before + offset, bytes + i, n), memset(p->known + offset, 1, n);
        /* What nobody gave a value begins as something else than it must become. */
        for (uint64_t k = offset; when == AFTER && k < offset + n; k++) {
            if (!p->known[k]) p->before[k] = (uint8_t)~p->after[k];
        }
        i += n;
    }
    return PRESIL_OK;
}

static int put_before(void *context, presil_daddr address, const void *bytes, uint64_t count) {
    return put(context, address.value, bytes, count, BEFORE);
}

static int put_after(void *context, presil_daddr address, const void *bytes, uint64_t count) {
    ((exported *)context)->checked += count;
    return put(context, address.value, bytes, count, AFTER);
}

static int tell_register(void *context, uint32_t offset, uint32_t value) {
    exported *e = context;
    if (e->register_count == e->register_capacity) {
        const uint64_t more = e->register_capacity ? 2 * e->register_capacity : 16;
        void *at = realloc(e->registers, more * sizeof *e->registers);
        if (!at) return PRESIL_EHOSTMEM;
        e->registers = at;
        e->register_capacity = more;
    }
    e->registers[e->register_count][0] = offset;
    e->registers[e->register_count++][1] = value;
    return PRESIL_OK;
}

static int collect(exported *e) {
    replay *r = e->r;
    presil_list *list = NULL;
    const presil_program_sink sink = {sizeof sink, 0, tell_register, put_before, e};
    const presil_bundle_memory *after = r->record->expected                   ? r->record->expected
                                        : r->result && r->result->status == 0 ? r->result->writes
                                                                              : NULL;
    if (!after)
        return replay_fail(EXIT_USAGE,
                           "launch %" PRIu64 ": the file does not say what it should write: capture it in "
                           "mode verify",
                           r->out->place);
    int status = replay_load(r, &list);
    if (status) return status;
    if (presil_list_program(list, &sink)) status = replay_fail(EXIT_USAGE, "%s", presil_error_text());
    presil_list_destroy(list);
    if (!status && ((r->record->reads && presil_bundle_get_memory(r->reader, r->record->reads, put_before, e)) ||
                    presil_bundle_get_memory(r->reader, after, put_after, e)))
        status = replay_fail(EXIT_INTERNAL, "launch %" PRIu64 ": its memory can't be had (at most %d pages): %s",
                             r->out->place, MOST_PAGES, presil_bundle_error_text());
    if (!status) qsort(e->pages, e->count, sizeof *e->pages, by_number);
    return status;
}

/* ---- files */
/* New, and no link that somebody has put there. */
static FILE *create(exported *e, const char *name) {
    const int file = openat(e->folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    FILE *f = file < 0 ? NULL : fdopen(file, "w");
    if (!f) (void)replay_fail(EXIT_USAGE, "%s/%s can't be made: %s", e->r->a->export_sv, name, strerror(errno));
    if (!f && file >= 0) (void)close(file);
    return f;
}

static int finish(const exported *e, FILE *f, const char *name) {
    const bool written = fflush(f) == 0 && !ferror(f);
    return fclose(f) == 0 && written
               ? EXIT_PASS
               : replay_fail(EXIT_USAGE, "%s/%s can't be written: %s", e->r->a->export_sv, name, strerror(errno));
}

static void put_hex(char *to, uint8_t byte) {
    to[0] = "0123456789abcdef"[byte >> 4];
    to[1] = "0123456789abcdef"[byte & 15];
}

static int write_pages(exported *e, const char *name, moment when) {
    const uint32_t word = e->r->info.word_bytes;
    char line[2 * PAGE + 1];
    FILE *f = create(e, name);
    if (!f) return EXIT_USAGE;
    line[2 * word] = '\n';
    for (uint64_t i = 0; i < e->count; i++) {
        const uint8_t *bytes = when == BEFORE ? e->pages[i].before : e->pages[i].after;
        for (uint32_t at = 0; at < PAGE; at += word) {
            for (uint32_t k = 0; k < word; k++) put_hex(line + 2 * k, bytes[at + word - 1 - k]);
            (void)fwrite(line, 1, 2 * word + 1, f);
        }
    }
    return finish(e, f, name);
}

static int write_numbers(exported *e) {
    FILE *f = create(e, "pages.hex");
    if (!f) return EXIT_USAGE;
    for (uint64_t i = 0; i < e->count; i++) (void)fprintf(f, "%010" PRIx64 "\n", e->pages[i].number);
    int status = finish(e, f, "pages.hex");
    if (status) return status;
    f = create(e, "registers.hex");
    if (!f) return EXIT_USAGE;
    for (uint64_t i = 0; i < e->register_count; i++)
        (void)fprintf(f, "%08x%08x\n", e->registers[i][0], e->registers[i][1]);
    return finish(e, f, "registers.hex");
}

/* A source of the list, relative to the list's folder; copied to rtl-NAME, since `make` is run elsewhere. */
static int copy_source(exported *e, const char *list, const char *source, FILE *names) {
    char from[4096], to[256], block[65536];
    const char *slash = strrchr(list, '/'), *name = strrchr(source, '/');
    name = name ? name + 1 : source;
    const int n = *source == '/' || !slash ? snprintf(from, sizeof from, "%s", source)
                                           : snprintf(from, sizeof from, "%.*s/%s", (int)(slash - list), list, source);
    const int m = snprintf(to, sizeof to, "rtl-%s", name);
    if (n < 0 || (size_t)n >= sizeof from || m < 0 || (size_t)m >= sizeof to || strpbrk(name, " \t$#:'\"\\"))
        return replay_fail(EXIT_USAGE, "--rtl %s: \"%s\": a file's name without spaces and quotes expected", list,
                           source);
    FILE *in = fopen(from, "r");
    if (!in) return replay_fail(EXIT_USAGE, "--rtl %s: %s can't be read: %s", list, from, strerror(errno));
    FILE *out = create(e, to);
    if (!out) {
        (void)fclose(in);
        return EXIT_USAGE;
    }
    for (size_t got; (got = fread(block, 1, sizeof block, in)) > 0;) (void)fwrite(block, 1, got, out);
    (void)fclose(in);
    (void)fprintf(names, "%s\n", to);
    return finish(e, out, to);
}

static int write_sources(exported *e) {
    const char *list = e->r->a->rtl;
    char line[4096];
    FILE *names = create(e, "rtl.f");
    if (!names) return EXIT_USAGE;
    FILE *in = list ? fopen(list, "r") : NULL;
    int status = list && !in ? replay_fail(EXIT_USAGE, "--rtl %s: %s", list, strerror(errno)) : EXIT_PASS;
    while (!status && in && fgets(line, sizeof line, in)) {
        line[strcspn(line, "\r\n")] = 0;
        if (*line && *line != '#') status = copy_source(e, list, line, names);
    }
    if (in) (void)fclose(in);
    const int closed = finish(e, names, "rtl.f");
    return status ? status : closed;
}

/* Into a comment: letters from elsewhere end no comment and begin no line. */
static void plain(const char *text, char *out, size_t bytes) {
    size_t n = 0;
    for (; *text && n + 1 < bytes; text++) out[n++] = *text < ' ' || *text > '~' || *text == '\\' ? '?' : *text;
    out[n] = 0;
}

static int write_bench(exported *e) {
    bench_values v = {.word = e->r->info.word_bytes,
                      .pages = e->count,
                      .registers = e->register_count,
                      .top = e->r->a->top ? e->r->a->top : "presil_top",
                      .limit = 100000 + 20 * e->r->out->recorded};
    plain(e->r->out->label, v.label, sizeof v.label);
    plain(e->r->a->file, v.file, sizeof v.file);
    v.recorded = e->r->out->recorded;
    FILE *f = create(e, "testbench.sv");
    if (!f) return EXIT_USAGE;
    print_bench(f, &v);
    int status = finish(e, f, "testbench.sv");
    f = status ? NULL : create(e, "Makefile");
    if (!f) return EXIT_USAGE;
    print_makefile(f);
    return finish(e, f, "Makefile");
}

static int export_files(exported *e) {
    const char *folder = e->r->a->export_sv;
    if (mkdir(folder, 0777) && errno != EEXIST)
        return replay_fail(EXIT_USAGE, "--export-sv %s: %s", folder, strerror(errno));
    e->folder = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (e->folder < 0) return replay_fail(EXIT_USAGE, "--export-sv %s: %s", folder, strerror(errno));
    int status = write_bench(e);
    if (!status) status = write_pages(e, "before.hex", BEFORE);
    if (!status) status = write_pages(e, "after.hex", AFTER);
    if (!status) status = write_numbers(e);
    if (!status) status = write_sources(e);
    (void)close(e->folder);
    if (!status)
        (void)printf("%s: %" PRIu64 " register writes, %" PRIu64 " pages of memory, %" PRIu64
                     " bytes to check; make -C %s\n",
                     folder, e->register_count, e->count, e->checked, folder);
    return status;
}

int replay_export_sv(replay *r, uint64_t place) {
    replayed out;
    exported e = {.r = r, .folder = -1};
    int status = replay_take(r, place, &out);
    if (!status && r->result) out.recorded = r->result->cycles;
    if (!status && !(r->info.known & PRESIL_INFO_WORD_BYTES))
        status = replay_fail(EXIT_USAGE, "the chip \"%s\" does not tell the width of its bus", r->info.chip);
    if (!status && (!r->info.word_bytes || PAGE % r->info.word_bytes))
        status =
            replay_fail(EXIT_USAGE, "a bus of %u bytes: a power of two up to %d expected", r->info.word_bytes, PAGE);
    if (!status) status = collect(&e);
    if (!status) status = export_files(&e);
    free(e.pages);
    free(e.slots);
    free(e.registers);
    replay_drop(r);
    return status;
}
