/* SPDX-License-Identifier: Apache-2.0 */
/* One launch again: a device as the bundle's, what the launch reads at its place, its commands at theirs. */
#define _POSIX_C_SOURCE 200809L
#include "replay.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include "presil_debug.h"
#include "presil_image.h"

static presil_device *volatile running;
volatile sig_atomic_t replay_stopped;

int replay_fail(int status, const char *format, ...) {
    va_list args;
    va_start(args, format);
    (void)fputs("presil-replay: ", stderr);
    (void)vfprintf(stderr, format, args);
    (void)fputc('\n', stderr);
    va_end(args);
    return status;
}

void replay_interrupted(int signal) {
    (void)signal;
    replay_stopped = 1;
    presil_device_cancel(running);
}

/* ---- the listener */
static void cover(extent *e, const presil_byte_range *at, uint64_t count) {
    for (uint64_t i = 0; i < count; i++) {
        if (at[i].base.value < e->low) e->low = at[i].base.value;
        if (at[i].base.value + at[i].bytes > e->high) e->high = at[i].base.value + at[i].bytes;
    }
}

static void keep_reads(kept_reads *k, const presil_capture_launch *launch, const presil_capture_bytes *reads) {
    uint64_t at = 0;
    free(k->at);
    free(k->bytes);
    *k = (kept_reads){.count = reads->count};
    for (uint64_t i = 0; i < reads->count; i++) k->total += reads->at[i].bytes;
    k->at = calloc(reads->count + 1, sizeof *k->at);
    k->bytes = malloc(k->total + 1);
    bool good = k->at && k->bytes;
    for (uint64_t i = 0; i < reads->count && good; at += reads->at[i++].bytes) {
        k->at[i] = (presil_bundle_range){reads->at[i].base, reads->at[i].bytes};
        good = launch->read(launch, reads->at[i].base, k->bytes + at, reads->at[i].bytes) == PRESIL_OK;
    }
    if (good) return;
    free(k->bytes);
    k->bytes = NULL;
}

static int on_begin(void *context, const presil_capture_launch *launch, const presil_capture_bytes *reads) {
    replay *r = context;
    if (r->probe) cover(&r->probe->touched, reads->at, reads->count);
    if (r->probe) cover(&r->probe->touched, launch->may_write, launch->may_write_count);
    const presil_byte_range scratch = {launch->scratch, launch->scratch_bytes};
    if (r->probe) cover(&r->probe->touched, &scratch, scratch.bytes != 0);
    if (r->probe && r->reads) keep_reads(r->reads, launch, reads);
    return 1;
}

static void on_expected(void *context, const presil_capture_launch *launch, const presil_capture_bytes *writes) {
    replay *r = context;
    (void)launch;
    if (r->probe) probe_expected(r, writes);
}

static const char *on_end(void *context, const presil_capture_launch *launch, const presil_report *report,
                          const presil_capture_bytes *writes) {
    replay *r = context;
    if (r->probe) {
        probe_compare(r, launch, report);
        if (r->probe->difference.present) probe_places(r, launch, writes);
    } else if (r->out) {
        replay_compare(r, launch, report, writes);
    }
    return NULL;
}

/* ---- the device */
static bool is_build(const char *name) {
    return name && (!strcmp(name, "fast") || !strcmp(name, "check") || !strcmp(name, "trace"));
}

/* 0: the chip has none. */
static const char *hash_text(uint64_t hash, char text[24]) {
    (void)snprintf(text, 24, "%08llx", (unsigned long long)hash);
    return hash ? text : "-";
}

static int refuse_other(const replay *r) {
    const presil_bundle_chip *c = r->chip;
    char theirs[24], own[24];
    if (strcmp(c->chip, r->info.chip) != 0 || c->config_hash != r->info.config_hash)
        return replay_fail(EXIT_USAGE,
                           "%s is for the chip %s, configuration %s, hash %s; this one is %s, %s, hash %s: name "
                           "its library (--library) or transport",
                           r->a->file, c->chip, c->config, hash_text(c->config_hash, theirs), r->info.chip,
                           r->info.config, hash_text(r->info.config_hash, own));
    if (c->memory_base.value != r->info.memory_base.value || c->memory_bytes > r->info.memory_bytes)
        return replay_fail(EXIT_USAGE, "%s needs memory of %llu bytes at 0x%llx, this device has %llu at 0x%llx",
                           r->a->file, (unsigned long long)c->memory_bytes, (unsigned long long)c->memory_base.value,
                           (unsigned long long)r->info.memory_bytes, (unsigned long long)r->info.memory_base.value);
    return EXIT_PASS;
}

int replay_open_chip(replay *r, uint64_t chip) {
    const arguments *a = r->a;
    if (r->device && r->chip_number == chip) return EXIT_PASS;
    replay_close_chip(r);
    if (presil_bundle_get_chip(r->reader, chip, &r->chip))
        return replay_fail(EXIT_USAGE, "%s: %s", a->file, presil_bundle_error_text());
    const presil_bundle_chip *c = r->chip;
    const bool named = !a->transport && !a->library;
    const presil_device_options options = {.size = sizeof options,
                                           .mode = a->mode,
                                           .config = a->transport ? NULL : c->config,
                                           .build = a->transport         ? NULL
                                                    : a->build           ? a->build
                                                    : a->library         ? NULL
                                                    : a->trace           ? "trace"
                                                    : is_build(c->build) ? c->build
                                                                         : "fast",
                                           .library = a->library,
                                           .memory_bytes = c->memory_bytes,
                                           .memory_model = a->memory_given    ? a->memory_model
                                                           : *c->memory_model ? c->memory_model
                                                                              : NULL,
                                           .seed = c->seed,
                                           .hang_cycles = c->hang_cycles,
                                           .transport = named ? "inproc" : a->transport,
                                           .host_memory = a->transport != NULL};
    static const presil_capture_ops ops = {
        .size = sizeof ops, .begin = on_begin, .expected = on_expected, .end = on_end};
    int status = presil_device_open(&options, &r->device);
    if (status) {
        r->device = NULL;
        return replay_fail(status == PRESIL_EHOSTMEM ? EXIT_INTERNAL : EXIT_USAGE, "%s", presil_error_text());
    }
    r->chip_number = chip;
    running = r->device;
    r->info = (presil_device_info){.size = sizeof r->info};
    r->identity = (presil_device_identity){.size = sizeof r->identity};
    status = presil_device_get_info(r->device, &r->info);
    const int refused = status ? EXIT_PASS : refuse_other(r);
    if (refused) return refused;
    if (!status && a->mode != PRESIL_MODE_MODEL) status = presil_device_start(r->device);
    if (!status) status = presil_device_get_info(r->device, &r->info);
    if (!status) status = presil_device_identify(r->device, &r->identity);
    if (!status && a->timeout_cycles) status = presil_device_set_timeout(r->device, a->timeout_cycles);
    if (!status) status = presil_set_capture(r->device, &ops, r);
    if (!status) return EXIT_PASS;
    const bool missing = status == PRESIL_ENODEV || status == PRESIL_EINVAL; /* the simulator that was asked for */
    return replay_fail(missing ? EXIT_USAGE : EXIT_INTERNAL, "%s%s", presil_error_text(),
                       missing && named ? ", or name one: --library SO" : "");
}

void replay_close_chip(replay *r) {
    running = NULL;
    presil_device_close(r->device);
    presil_bundle_free(r->chip);
    r->device = NULL;
    r->chip = NULL;
}

/* ---- the launch */
int replay_put_bytes(const replay *r, presil_daddr address, const void *bytes, uint64_t count) {
    void *host = presil_host_pointer(r->device, address, count);
    if (host) {
        memcpy(host, bytes, count);
        return PRESIL_OK;
    }
    int status = presil_copy_to_device(r->device, NULL, address, bytes, count, PRESIL_COPY_DIRECT);
    return status ? status : presil_stream_synchronize(r->device, NULL);
}

static int place(void *context, presil_daddr address, const void *bytes, uint64_t count) {
    return replay_put_bytes(context, address, bytes, count);
}

int replay_put_memory(replay *r) {
    if (!r->record->reads || !presil_bundle_get_memory(r->reader, r->record->reads, place, r)) return EXIT_PASS;
    return replay_fail(EXIT_USAGE, "launch %llu: what it reads can't be put in place: %s %s",
                       (unsigned long long)r->out->place, presil_bundle_error_text(), presil_error_text());
}

/* Where it was: the driver would take memory of which it doesn't know that the launch uses it. */
int replay_place_scratch(const replay *r) {
    const presil_bundle_launch *l = r->record;
    if (!presil_device_place_scratch(r->device, l->scratch, l->scratch_bytes)) return EXIT_PASS;
    return replay_fail(EXIT_USAGE, "launch %llu: the memory that it needs while it runs: %s",
                       (unsigned long long)r->out->place, presil_error_text());
}

/* As presil_list_save writes a list of one launch. */
int replay_load(replay *r, presil_list **out) {
    const uint64_t bytes = r->record->commands.bytes, padded = (bytes + 7) / 8 * 8;
    if (!bytes || bytes > UINT64_MAX - 32)
        return replay_fail(
            EXIT_USAGE,
            "launch %llu has no commands in the file: its chip can't store them; give its library save() and load() "
            "(presil_chip.h), and capture it again",
            (unsigned long long)r->out->place);
    if (presil_bundle_get_block(r->reader, &r->record->commands, NULL))
        return replay_fail(EXIT_USAGE, "launch %llu: %s", (unsigned long long)r->out->place,
                           presil_bundle_error_text());
    uint8_t *image = calloc(1, 16 + padded);
    if (!image)
        return replay_fail(EXIT_INTERNAL, "no host memory for %llu bytes of commands", (unsigned long long)bytes);
    memcpy(image, &(uint64_t){1}, 8);
    memcpy(image + 8, &bytes, 8);
    int status = presil_bundle_get_block(r->reader, &r->record->commands, image + 16);
    const char *text = presil_bundle_error_text();
    if (!status) {
        /* What the driver refuses, the chip was given below it, or hung in: it is to say so itself. */
        status = presil_list_load(r->device, image, 16 + padded, r->info.memory_base, r->info.memory_bytes, out);
        if (status == PRESIL_EINVAL)
            status =
                presil_list_load_refused(r->device, image, 16 + padded, r->info.memory_base, r->info.memory_bytes, out);
        text = presil_error_text();
    }
    free(image);
    return status ? replay_fail(EXIT_USAGE, "launch %llu: %s", (unsigned long long)r->out->place, text) : EXIT_PASS;
}

static const char *pair(const presil_bundle_launch *l, const char *key) {
    for (uint32_t i = 0; i < l->label_count; i++) {
        if (strcmp(l->labels[i].key, key) == 0) return l->labels[i].value;
    }
    return "";
}

/* The chip's own result rather than a model's. */
static int find_result(replay *r, uint64_t number) {
    r->result = NULL;
    for (uint64_t from = 0;;) {
        uint64_t at = UINT64_MAX;
        int status = presil_bundle_next_result(r->reader, number, from, &at);
        const presil_bundle_result *found = NULL;
        if (!status && at == UINT64_MAX) return EXIT_PASS;
        if (!status) status = presil_bundle_get_result(r->reader, at, &found);
        if (status) return replay_fail(EXIT_USAGE, "%s: %s", r->a->file, presil_bundle_error_text());
        const bool better = !r->result || (strcmp(r->result->executor, "rtl") != 0 && !strcmp(found->executor, "rtl"));
        presil_bundle_free(better ? (const void *)r->result : (const void *)found);
        if (better) r->result = found;
        from = at + 1;
    }
}

/* Cycles are a function of commands, configuration, memory model and seed: not of a model, nor of another memory. */
static uint64_t recorded_cycles(const replay *r) {
    const bool same_memory = !r->a->memory_given;
    return r->a->mode != PRESIL_MODE_MODEL && r->result && same_memory ? r->result->cycles : 0;
}

static int judge(const replayed *l, int status) {
    if (status == PRESIL_EHUNG) return EXIT_HUNG;
    if (status == PRESIL_EHOSTMEM || status == PRESIL_EDEAD || status == PRESIL_ECANCELLED ||
        status == PRESIL_EUNSUPPORTED)
        return EXIT_INTERNAL;
    if (status || l->bits == BITS_DIFFER) return EXIT_MISMATCH;
    return l->recorded && l->cycles != l->recorded ? EXIT_CYCLES : EXIT_PASS;
}

/* Of what the launches before it have left, a cycle at least: what they took is not more than the limit. */
static int set_timeout(const replay *r) {
    const uint64_t most = r->a->timeout_cycles;
    return most ? presil_device_set_timeout(r->device, most > r->taken ? most - r->taken : 1) : PRESIL_OK;
}

static bool has_timed_out(const replay *r, int status) {
    int verdict = PRESIL_HUNG_OR_SLOW;
    return status == PRESIL_EHUNG && !presil_device_last_hang(r->device, NULL, 0, NULL, &verdict) &&
           verdict == PRESIL_TIMED_OUT;
}

static int run(replay *r, replayed *out) {
    presil_list *list = NULL;
    int failed = replay_load(r, &list);
    if (failed) return failed;
    int status = set_timeout(r);
    if (!status) status = presil_list_submit(list, NULL);
    if (!status) status = presil_device_synchronize(r->device);
    out->status = status;
    r->taken += out->cycles;
    if (status) (void)snprintf(out->error, sizeof out->error, "%s", presil_error_text());
    r->timed_out = has_timed_out(r, status);
    presil_list_destroy(list);
    if (out->outcome) return out->outcome; /* comparing failed */
    out->outcome = judge(out, status);
    return status == PRESIL_EDEAD && presil_device_reset(r->device)
               ? replay_fail(EXIT_INTERNAL, "%s", presil_error_text())
               : EXIT_PASS;
}

/* A fault that the launch was captured with, as its label says: it comes again whatever is done with the launch. */
static int inject_recorded(replay *r) {
    const char *fault = pair(r->record, "inject");
    r->injected = *fault && r->a->mode != PRESIL_MODE_MODEL;
    if (!r->injected || !presil_inject(r->device, fault)) return EXIT_PASS;
    return replay_fail(EXIT_USAGE, "launch %llu was captured with the fault %s: %s", (unsigned long long)r->out->place,
                       fault, presil_error_text());
}

int replay_take(replay *r, uint64_t number, replayed *out) {
    *out = (replayed){.place = number, .bits = BITS_NOT_COMPARED};
    out->difference.cycle = UINT64_MAX;
    if (presil_bundle_get_launch(r->reader, number, &r->record))
        return replay_fail(EXIT_USAGE, "%s: %s", r->a->file, presil_bundle_error_text());
    r->out = out;
    out->number = r->record->launch;
    (void)snprintf(out->label, sizeof out->label, "%s", r->record->label);
    (void)snprintf(out->module, sizeof out->module, "%s", pair(r->record, "module"));
    int status = replay_open_chip(r, r->record->chip);
    if (!status) status = find_result(r, number);
    out->recorded = recorded_cycles(r);
    out->recorded_status = r->result ? r->result->status : PRESIL_OK;
    if (!status) status = replay_place_scratch(r);
    return status ? status : inject_recorded(r);
}

void replay_drop(replay *r) {
    r->out = NULL;
    if (r->injected && presil_inject(r->device, NULL)) (void)replay_fail(EXIT_INTERNAL, "%s", presil_error_text());
    r->injected = false;
    presil_bundle_free(r->record);
    presil_bundle_free(r->result);
    r->record = NULL;
    r->result = NULL;
}

int replay_launch(replay *r, uint64_t number, replayed *out) { return replay_armed(r, number, out, NULL, NULL); }

int replay_armed(replay *r, uint64_t number, replayed *out, int (*arm)(const replay *, const char *),
                 const char *argument) {
    int status = replay_take(r, number, out);
    if (!status) status = replay_put_memory(r);
    if (!status && arm) status = arm(r, argument);
    if (!status) status = run(r, out);
    replay_drop(r);
    return status;
}

/* ---- a part of it */
int replay_probe(replay *r, presil_list *list, probed *out) {
    *out = (probed){.touched = {UINT64_MAX, 0}, .difference.cycle = UINT64_MAX};
    r->probe = out;
    out->status = presil_list_submit(list, NULL);
    if (!out->status) out->status = presil_device_synchronize(r->device);
    if (out->status) (void)snprintf(out->error, sizeof out->error, "%s", presil_error_text());
    r->probe = NULL;
    probe_forget(r);
    if (out->status == PRESIL_EHOSTMEM || out->status == PRESIL_EUNSUPPORTED)
        return replay_fail(EXIT_INTERNAL, "%s", out->error);
    return out->status == PRESIL_EDEAD && presil_device_reset(r->device)
               ? replay_fail(EXIT_INTERNAL, "%s", presil_error_text())
               : EXIT_PASS;
}
