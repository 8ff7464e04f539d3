/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "soft_transport.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include "presil_transport.h"
#include "presil_twin.h"
#include "presil_desc.h"
#include "regs.h"

struct presil_transport {
    const presil_config *config;
    presil_twin *twin;
    uint8_t *host;
    uint64_t bytes, base, cycles, launch_cycles;
    uint32_t ring_lo, ring_hi, ring_log2, head, tail, irq, irq_enable, error_code, error_index, descriptors;
    uint64_t error_address, draining;
    int pending, stopped, log_on;
    char fault[64];
    presil_write_range *ranges;
    size_t range_count, range_capacity;
    presil_write_range *written; /* of the launch, in order; the i-th in cycle 10 * (i + 1) */
    size_t written_count, written_capacity;
    char error[160];
};

static soft_access accesses[2][SOFT_LOG];
static size_t access_count;
static int access_bank;

static void note(soft_kind kind, uint32_t offset, uint32_t value) {
    if (access_count < SOFT_LOG) accesses[access_bank][access_count++] = (soft_access){kind, offset, value};
}

__attribute__((visibility("default"))) size_t soft_log(const soft_access **out) {
    const size_t count = access_count;
    *out = accesses[access_bank];
    access_bank ^= 1;
    access_count = 0;
    return count;
}

static int fail(presil_transport *t, int code, const char *text) {
    (void)snprintf(t->error, sizeof t->error, "%s", text);
    return code;
}

static int is_fault(const presil_transport *t, const char *name) { return strncmp(t->fault, name, strlen(name)) == 0; }

static void soft_close(presil_transport *t) {
    if (!t) return;
    presil_twin_destroy(t->twin);
    if (t->host) (void)munmap(t->host, t->bytes);
    free(t->ranges);
    free(t->written);
    free(t);
}

static int soft_open(const presil_transport_options *o, presil_transport **out, char *error, size_t error_bytes) {
    const char *name = getenv("PRESIL_SOFT_CONFIG");
    const presil_config *c = presil_configs;
    while (c->name && strcmp(c->name, name ? name : "tiny") != 0) c++;
    presil_transport *t = calloc(1, sizeof *t);
    if (!c->name || !t) {
        free(t);
        (void)snprintf(error, error_bytes, "no such configuration, or no memory");
        return PRESIL_TRANSPORT_EINVAL;
    }
    t->config = c;
    const char *fault = getenv("PRESIL_SOFT_FAULT"); /* for a program of another process */
    (void)snprintf(t->fault, sizeof t->fault, "%s", fault ? fault : "");
    t->bytes = o->memory_bytes;
    t->base = o->memory_base.value;
    t->twin = presil_twin_create(c);
    const int flags = o->memory_fd >= 0 ? MAP_SHARED | MAP_NORESERVE : MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void *host = mmap(NULL, t->bytes, PROT_READ | PROT_WRITE, flags, o->memory_fd, 0);
    if (!t->twin || host == MAP_FAILED) {
        soft_close(t);
        (void)snprintf(error, error_bytes, "out of memory");
        return PRESIL_TRANSPORT_ENOMEM;
    }
    t->host = host;
    *out = t;
    return 0;
}

static int soft_info(presil_transport *t, presil_transport_info *out) {
    *out = (presil_transport_info){.size = sizeof *out,
                                   .abi = PRESIL_TRANSPORT_ABI,
                                   .capabilities = PRESIL_CAP_CLOCKED | PRESIL_CAP_WRITE_LOG | PRESIL_CAP_WRITE_TIMES |
                                                   PRESIL_CAP_MAPS,
                                   .clock_mhz = 1000};
    (void)snprintf(out->chip, sizeof out->chip, "presil");
    (void)snprintf(out->config, sizeof out->config, "%s", t->config->name);
    (void)snprintf(out->build, sizeof out->build, "soft");
    (void)snprintf(out->text, sizeof out->text, "registers in C, descriptors on the twin");
    return 0;
}

static const char *soft_last_error(presil_transport *t) { return t->error; }

static uint32_t counter(const presil_transport *t, uint32_t offset) {
    const uint32_t n = (offset - PRESIL_REG_COUNTER(0)) / 8;
    uint64_t value = 0;
    if (n == COUNTER_CYCLES || (n < COUNTER_CYCLES && n % 16 == (n < 64 ? PRESIL_CAUSE_BUSY : PRESIL_CAUSE_COMMAND)))
        value = t->launch_cycles;
    if (n == COUNTER_READ_BEATS) value = t->launch_cycles / 2;
    if (n == COUNTER_DESCRIPTORS) value = t->descriptors;
    return (uint32_t)(offset & 4 ? value >> 32 : value);
}

static int soft_read32(presil_transport *t, uint32_t offset, uint32_t *value) {
    const presil_config *c = t->config;
    if (t->stopped) return fail(t, PRESIL_TRANSPORT_ESTOPPED, "stopped: a reset is needed");
    switch (offset) {
    case PRESIL_REG_ID: *value = REG_ID_VALUE; break;
    case PRESIL_REG_VERSION: *value = REG_VERSION_MAJOR << 16; break;
    case PRESIL_REG_CAP_ARRAY: *value = c->lanes | c->cells << 16; break;
    case PRESIL_REG_CAP_MEMORY: *value = c->word_bytes | c->banks << 16; break;
    case PRESIL_REG_CAP_BANK: *value = c->bank_words; break;
    case PRESIL_REG_CAP_ACC: *value = c->acc_rows; break;
    case PRESIL_REG_CONFIG_HASH: *value = c->hash; break;
    case PRESIL_REG_RING_HEAD: *value = t->head; break;
    case PRESIL_REG_RING_TAIL: *value = t->tail; break;
    case PRESIL_REG_STATUS:
        *value = (t->pending || t->draining ? PRESIL_STATUS_BUSY_MASK : 0u) |
                 (t->error_code ? PRESIL_STATUS_ERROR_MASK : 0u);
        break;
    case PRESIL_REG_ERROR_CODE: *value = t->error_code; break;
    case PRESIL_REG_ERROR_INDEX: *value = t->error_index; break;
    case PRESIL_REG_ERROR_ADDR_LO: *value = (uint32_t)t->error_address; break;
    case PRESIL_REG_ERROR_ADDR_HI: *value = (uint32_t)(t->error_address >> 32); break;
    case PRESIL_REG_IRQ_STATUS: *value = t->irq; break;
    default: *value = offset >= PRESIL_REG_COUNTER(0) ? counter(t, offset) : 0;
    }
    if (offset == PRESIL_REG_STATUS && t->draining) t->draining--;
    note(SOFT_READ, offset, *value);
    return 0;
}

static int soft_write32(presil_transport *t, uint32_t offset, uint32_t value) {
    if (t->stopped) return fail(t, PRESIL_TRANSPORT_ESTOPPED, "stopped: a reset is needed");
    note(SOFT_WRITE, offset, value);
    switch (offset) {
    case PRESIL_REG_RING_BASE_LO: t->ring_lo = value; break;
    case PRESIL_REG_RING_BASE_HI: t->ring_hi = value; break;
    case PRESIL_REG_RING_LOG2: t->ring_log2 = value; break;
    case PRESIL_REG_RING_TAIL:
        t->tail = value;
        t->pending = 1;
        break;
    case PRESIL_REG_CONTROL:
        if (value & CONTROL_QUEUE_RESET)
            t->head = t->tail = t->error_code = t->error_index = 0, t->error_address = 0, t->pending = 0;
        if (value & CONTROL_QUEUE_RESET && is_fault(t, "drain@")) t->draining = strtoull(t->fault + 6, NULL, 0);
        if (value & CONTROL_COUNTER_CLEAR) t->launch_cycles = 0, t->descriptors = 0;
        break;
    case PRESIL_REG_IRQ_ENABLE: t->irq_enable = value; break;
    case PRESIL_REG_IRQ_CLEAR: t->irq &= ~value; break;
    default: break;
    }
    return 0;
}

static int soft_region(presil_transport *t, uint32_t index, presil_region *out) {
    if (index) return fail(t, PRESIL_TRANSPORT_EINVAL, "there is one region");
    *out = (presil_region){{t->base}, t->bytes, t->host};
    return 0;
}

static int soft_mem_read(presil_transport *t, presil_daddr from, void *to, uint64_t bytes) {
    note(SOFT_MEM_READ, 0, (uint32_t)bytes);
    if (is_fault(t, "unreadable")) return fail(t, PRESIL_TRANSPORT_EIO, "the link is broken");
    memcpy(to, t->host + (from.value - t->base), bytes);
    return 0;
}

static int soft_mem_write(presil_transport *t, presil_daddr to, const void *from, uint64_t bytes) {
    note(SOFT_MEM_WRITE, 0, (uint32_t)bytes);
    if (is_fault(t, "unwritable")) return fail(t, PRESIL_TRANSPORT_EIO, "the link is broken");
    memcpy(t->host + (to.value - t->base), from, bytes);
    return 0;
}

static int soft_sync(presil_transport *t, presil_daddr base, uint64_t bytes) {
    return base.value - t->base + bytes > t->bytes ? PRESIL_TRANSPORT_EBUS : 0;
}

static int soft_launch(presil_transport *t, uint64_t launch) {
    if (t->stopped) return fail(t, PRESIL_TRANSPORT_ESTOPPED, "stopped: a reset is needed");
    note(SOFT_LAUNCH, 0, (uint32_t)launch);
    t->written_count = 0;
    return 0;
}

static void log_write(presil_transport *t, uint64_t address, uint64_t bytes) {
    if (!t->log_on) return;
    if (t->range_count == t->range_capacity) {
        t->range_capacity = t->range_capacity ? 2 * t->range_capacity : 64;
        t->ranges = realloc(t->ranges, t->range_capacity * sizeof *t->ranges);
        if (!t->ranges) abort();
    }
    t->ranges[t->range_count++] = (presil_write_range){{address}, bytes};
    if (t->written_count == t->written_capacity) {
        t->written_capacity = t->written_capacity ? 2 * t->written_capacity : 64;
        t->written = realloc(t->written, t->written_capacity * sizeof *t->written);
        if (!t->written) abort();
    }
    t->written[t->written_count++] = (presil_write_range){{address}, bytes};
}

typedef struct {
    presil_transport *t;
    uint64_t last, last_bytes;
} write_sink;

static void on_write(void *context, uint64_t address, uint64_t bytes, uint32_t index) {
    write_sink *sink = context;
    (void)index;
    sink->last = address;
    sink->last_bytes = bytes;
    log_write(sink->t, address, bytes);
}

static void plant(presil_transport *t) {
    const char *at = strchr(t->fault, '@');
    const uint64_t address = at ? strtoull(at + 1, NULL, 0) : 0;
    if (is_fault(t, "stray")) log_write(t, address, 1);
    if (is_fault(t, "stray") || is_fault(t, "flip")) t->host[address - t->base] ^= 0x10;
    t->fault[0] = 0;
}

/* Runs what the doorbell announced. */
static void run(presil_transport *t) {
    const uint64_t ring = (uint64_t)t->ring_hi << 32 | t->ring_lo;
    const uint32_t count = t->tail - t->head;
    presil_twin_error error = {0};
    const presil_twin_memory memory = {t->base, t->bytes, t->host};
    write_sink sink = {t, 0, 0};
    presil_desc *list = malloc((count ? count : 1) * sizeof *list);
    if (!list) abort();
    for (uint32_t i = 0; i < count; i++)
        memcpy(&list[i], t->host + (ring - t->base) + ((t->head + i) & ((1u << t->ring_log2) - 1)) * sizeof *list,
               sizeof *list);
    const int failed = presil_twin_execute(t->twin, list, count, &memory, on_write, &sink, &error);
    free(list);
    t->launch_cycles = 7 + 100ull * count + (getenv("PRESIL_SOFT_SLOWER") ? 1 : 0);
    if (is_fault(t, "long@")) t->launch_cycles = strtoull(t->fault + 5, NULL, 0);
    t->cycles += t->launch_cycles;
    t->descriptors = count;
    t->head = t->tail;
    t->pending = 0;
    if (is_fault(t, "skip") && t->range_count)
        t->range_count--, t->written_count--, memset(t->host + (sink.last - t->base), 0xa5, sink.last_bytes);
    plant(t);
    if (failed) {
        t->error_code = (uint32_t)error.code;
        t->error_index = error.index;
        t->error_address = error.address;
    }
    t->irq |= failed ? IRQ_ERROR : IRQ_DONE;
}

static void run_until_cancelled(const presil_wait *w) {
    const struct timespec nap = {0, 1000000};
    while (!w->cancel || !__atomic_load_n(w->cancel, __ATOMIC_RELAXED)) (void)nanosleep(&nap, NULL);
}

/* Cycles without the interrupt and without the bus. */
static void pass(presil_transport *t, presil_wait *w) {
    const bool deadline = w->deadline_cycles && (!w->hang_cycles || w->deadline_cycles < w->hang_cycles);
    t->cycles += deadline ? w->deadline_cycles : w->hang_cycles;
    w->reason = deadline ? PRESIL_WAIT_DEADLINE : PRESIL_WAIT_HUNG;
}

/* "silent@N": until the launch has run for N cycles. */
static bool is_silent(const presil_transport *t) {
    return is_fault(t, "silent@") && t->launch_cycles < strtoull(t->fault + 7, NULL, 0);
}

static int soft_wait(presil_transport *t, presil_wait *w) {
    if (t->stopped) return fail(t, PRESIL_TRANSPORT_ESTOPPED, "stopped: a reset is needed");
    note(SOFT_WAIT, 0, 0);
    const uint64_t before = t->cycles;
    w->reason = PRESIL_WAIT_IRQ;
    if (is_fault(t, "fatal") || is_fault(t, "deaf")) {
        t->stopped = 1;
        return fail(t, PRESIL_TRANSPORT_ESTOPPED, "presil_top.sv:1: $fatal");
    }
    if (is_fault(t, "hang") || !t->pending) {
        pass(t, w);
    } else if (is_silent(t)) {
        pass(t, w);
        t->launch_cycles += t->cycles - before;
    } else if (is_fault(t, "slow")) {
        run_until_cancelled(w);
        w->reason = PRESIL_WAIT_CANCELLED;
        t->fault[0] = 0;
    } else if (is_fault(t, "slverr")) {
        t->error_code = PRESIL_ERROR_READ_BUS;
        t->error_address = t->base + 0x40;
        t->irq |= IRQ_ERROR;
        t->pending = 0;
        t->fault[0] = 0;
    } else {
        run(t);
    }
    if (w->progress) w->progress(w->progress_context, t->cycles - before);
    w->cycles = t->cycles - before;
    return 0;
}

static int soft_cycles(presil_transport *t, uint64_t *cycles) {
    *cycles = t->cycles;
    return 0;
}

static int soft_reset(presil_transport *t) {
    note(SOFT_RESET, 0, 0);
    if (is_fault(t, "deaf")) return fail(t, PRESIL_TRANSPORT_EIO, "the peer is gone");
    t->stopped = t->pending = 0;
    t->irq = t->irq_enable = t->head = t->tail = t->error_code = 0;
    t->draining = 0;
    if (!is_fault(t, "drain@")) t->fault[0] = 0;
    return 0;
}

static int soft_trace(presil_transport *t, const char *path, uint64_t first, uint64_t last) {
    (void)path, (void)first, (void)last;
    return fail(t, PRESIL_TRANSPORT_ENOSYS, "no tracing");
}

static int soft_write_log(presil_transport *t, int on) {
    t->log_on = on;
    t->range_count = 0;
    return 0;
}

static int by_base(const void *a, const void *b) {
    const uint64_t x = ((const presil_write_range *)a)->base.value, y = ((const presil_write_range *)b)->base.value;
    return (x > y) - (x < y);
}

static int soft_write_log_fetch(presil_transport *t, const presil_write_range **ranges, size_t *count) {
    if (t->range_count) qsort(t->ranges, t->range_count, sizeof *t->ranges, by_base);
    *ranges = t->ranges;
    *count = t->range_count;
    t->range_count = 0;
    return 0;
}

static int soft_write_times(presil_transport *t, presil_daddr address, presil_write_time *out) {
    bool found = false;
    for (size_t i = 0; i < t->written_count; i++) {
        if (address.value - t->written[i].base.value >= t->written[i].bytes) continue;
        if (!found) out->first_cycle = 10 * (i + 1);
        out->last_cycle = 10 * (i + 1);
        found = true;
    }
    return found ? 0 : fail(t, PRESIL_TRANSPORT_EINVAL, "it was not written");
}

static int soft_bus_fault(presil_transport *t, presil_bus_fault *out) {
    (void)t;
    *out = (presil_bus_fault){0};
    return 0;
}

static int soft_set_memory_model(presil_transport *t, const char *model, uint64_t seed) {
    (void)seed;
    return model && strcmp(model, "default") != 0 && strcmp(model, "ideal") != 0
               ? fail(t, PRESIL_TRANSPORT_EINVAL, "unknown memory model")
               : 0;
}

static int soft_inject(presil_transport *t, const char *fault) {
    (void)snprintf(t->fault, sizeof t->fault, "%s", fault ? fault : "");
    return 0;
}

const presil_transport_ops *presil_transport_entry(void);
__attribute__((visibility("default"))) const presil_transport_ops *presil_transport_entry(void) {
    static const presil_transport_ops ops = {
        .size = sizeof ops,
        .abi = PRESIL_TRANSPORT_ABI,
        .open = soft_open,
        .close = soft_close,
        .info = soft_info,
        .last_error = soft_last_error,
        .read32 = soft_read32,
        .write32 = soft_write32,
        .region = soft_region,
        .mem_read = soft_mem_read,
        .mem_write = soft_mem_write,
        .sync_for_device = soft_sync,
        .sync_for_host = soft_sync,
        .launch = soft_launch,
        .wait = soft_wait,
        .cycles = soft_cycles,
        .reset = soft_reset,
        .trace = soft_trace,
        .write_log = soft_write_log,
        .write_log_fetch = soft_write_log_fetch,
        .bus_fault = soft_bus_fault,
        .set_memory_model = soft_set_memory_model,
        .inject = soft_inject,
        .write_times = soft_write_times,
    };
    return &ops;
}
