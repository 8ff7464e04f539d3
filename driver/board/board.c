/* SPDX-License-Identifier: Apache-2.0 */
/* presil_transport_ops over files: registers, memory, order, reset. */
#define _GNU_SOURCE
#include "board.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int board_fail(presil_transport *t, int code, const char *format, ...) {
    va_list args;
    va_start(args, format);
    (void)vsnprintf(t->error, sizeof t->error, format, args);
    va_end(args);
    return code;
}

/* ---- life */
/* Of a session before too, which may have been killed. */
static int unmap_all(presil_transport *t) {
    uint32_t pages = 0;
    return t->spec.iommu ? board_ask(t, MAILBOX_UNMAP, 0, 0, &pages) : 0;
}

static void release(presil_transport *t) {
    board_interrupt_close(t);
    board_windows_close(t);
    free(t);
}

static void board_close(presil_transport *t) {
    if (!t) return;
    if (!t->lost) (void)unmap_all(t);
    release(t);
}

static int board_open(const presil_transport_options *o, presil_transport **out, char *error, size_t error_bytes) {
    const char *path = o->options && *o->options ? o->options : NULL;
    presil_transport *t = path ? calloc(1, sizeof *t) : NULL;
    if (!t) {
        (void)snprintf(error, error_bytes, path ? "no host memory" : "board:FILE expected (docs/silicon.md)");
        return path ? PRESIL_TRANSPORT_ENOMEM : PRESIL_TRANSPORT_EINVAL;
    }
    t->lock_fd = t->interrupt_fd = -1;
    for (int i = 0; i < BOARD_REGIONS; i++) t->memory_lock_fd[i] = -1;
    int status = board_spec_read(path, &t->spec, t->error, sizeof t->error) ? PRESIL_TRANSPORT_EINVAL : 0;
    if (!status) status = board_windows_open(t);
    if (!status) status = board_interrupt_open(t);
    if (!status) status = unmap_all(t);
    if (status) {
        (void)snprintf(error, error_bytes, "%s", t->error);
        release(t);
        return status;
    }
    *out = t;
    return 0;
}

/* Of all memory: then flush()'s barrier is all that a register write waits for, and a load of a register keeps the
 * loads behind it in order, so that both syncs have nothing to do. */
static bool is_coherent(const board_spec *s) {
    for (uint32_t i = 0; i < s->memory_count; i++) {
        if (!s->memory[i].window.path[0] || !s->memory[i].coherent) return false;
    }
    return true;
}

static int board_info(presil_transport *t, presil_transport_info *out) {
    const board_spec *s = &t->spec;
    presil_transport_info info = {.size = sizeof info,
                                  .abi = PRESIL_TRANSPORT_ABI,
                                  .capabilities = PRESIL_CAP_OWN_MEMORY | (t->memory ? (uint32_t)PRESIL_CAP_MAPS : 0) |
                                                  (is_coherent(s) ? (uint32_t)PRESIL_CAP_COHERENT : 0) |
                                                  (s->iommu ? (uint32_t)PRESIL_CAP_MAP_BLOCKS : 0) |
                                                  (s->interrupt == BOARD_POLLED ? (uint32_t)PRESIL_CAP_POLLED : 0),
                                  .clock_mhz = s->clock_mhz};
    (void)snprintf(info.chip, sizeof info.chip, "%s", s->chip);
    (void)snprintf(info.config, sizeof info.config, "%s", s->config);
    (void)snprintf(info.build, sizeof info.build, "%s", s->build);
    (void)snprintf(info.text, sizeof info.text, "board %.100s", s->file);
    presil_transport_tell(&info, out);
    return 0;
}

static const char *board_last_error(presil_transport *t) { return t->error; }

/* ---- order */
/* Stores to memory, also to write-combining memory, before those behind it. */
static void stores_before_stores(void) {
#if defined(__x86_64__)
    __asm__ volatile("sfence" ::: "memory");
#elif defined(__aarch64__)
    __asm__ volatile("dsb st" ::: "memory");
#else
    __sync_synchronize();
#endif
}

static void load_before_loads(void) {
#if defined(__aarch64__)
    __asm__ volatile("dsb ld" ::: "memory");
#elif defined(__x86_64__)
    __asm__ volatile("" ::: "memory"); /* the processor keeps loads of uncached memory in order */
#else
    __sync_synchronize();
#endif
}

/* A read pushes the writes before it through bridges that hold them back. */
static int flush(presil_transport *t) {
    stores_before_stores();
    for (uint32_t i = 0; i < t->spec.memory_count; i++) {
        if (t->stored[i]) (void)*t->stored[i];
        t->stored[i] = NULL;
    }
    if (!t->mailbox_stored) return 0;
    t->mailbox_stored = false;
    return board_ask(t, MAILBOX_FLUSH, 0, 0, NULL);
}

/* ---- registers */
static int refuse_register(presil_transport *t, uint32_t offset) {
    if (t->lost) return PRESIL_TRANSPORT_EIO; /* the text stays that of the loss */
    return board_fail(t, PRESIL_TRANSPORT_EBUS, "0x%x is no register: %s has %llu bytes, in words of 4", offset,
                      t->spec.registers.path, (unsigned long long)t->spec.registers.bytes);
}

static bool usable(const presil_transport *t, uint32_t offset) {
    return !t->lost && offset % 4 == 0 && (t->mailbox || offset + 4ull <= t->spec.registers.bytes);
}

static int load(presil_transport *t, uint32_t offset, uint32_t *value) {
    if (t->mailbox) return board_ask(t, MAILBOX_READ32, offset, 0, value);
    *value = *(const volatile uint32_t *)(t->registers + offset);
    load_before_loads();
    return 0;
}

static int board_read32(presil_transport *t, uint32_t offset, uint32_t *value) {
    uint32_t found = 0, witness = 0;
    if (!usable(t, offset)) return refuse_register(t, offset);
    int status = load(t, offset, &found);
    if (!status && found == UINT32_MAX) status = load(t, t->spec.witness, &witness);
    if (status) return status;
    if (found == UINT32_MAX && witness == UINT32_MAX) {
        t->lost = true;
        return board_fail(t, PRESIL_TRANSPORT_EIO,
                          "link lost: registers 0x%x and 0x%x of %s read 0xffffffff, so nobody answers there: look at "
                          "power and link (lspci -vv), then presil_device_reset()",
                          offset, t->spec.witness, t->spec.registers.path);
    }
    *value = found;
    return 0;
}

static int board_write32(presil_transport *t, uint32_t offset, uint32_t value) {
    if (!usable(t, offset)) return refuse_register(t, offset);
    const int status = flush(t);
    if (status) return status;
    if (t->mailbox) return board_post(t, MAILBOX_WRITE32, offset, NULL, 0, value);
    *(volatile uint32_t *)(t->registers + offset) = value;
    return 0;
}

/* ---- memory */
static int board_region(presil_transport *t, uint32_t index, presil_region *out) {
    if (index >= t->spec.memory_count)
        return board_fail(t, PRESIL_TRANSPORT_EINVAL, "region: there are %u", t->spec.memory_count);
    const board_memory *m = &t->spec.memory[index];
    *out = (presil_region){.base = {m->base}, .bytes = m->window.bytes, .host = board_host(t, m)};
    return 0;
}

static int find(presil_transport *t, uint64_t at, uint64_t bytes, uint32_t *index) {
    for (uint32_t i = 0; i < t->spec.memory_count; i++) {
        const board_memory *m = &t->spec.memory[i];
        if (at < m->base || at - m->base > m->window.bytes || bytes > m->window.bytes - (at - m->base)) continue;
        *index = i;
        return t->lost ? PRESIL_TRANSPORT_EIO : 0;
    }
    return board_fail(t, PRESIL_TRANSPORT_EBUS, "%llu bytes at 0x%llx are in no memory of %s",
                      (unsigned long long)bytes, (unsigned long long)at, t->spec.file);
}

static int board_mem_read(presil_transport *t, presil_daddr from, void *to, uint64_t bytes) {
    uint32_t index = 0;
    int status = find(t, from.value, bytes, &index);
    const uint8_t *host = status ? NULL : board_host(t, &t->spec.memory[index]);
    if (host) memcpy(to, host + (from.value - t->spec.memory[index].base), bytes);
    if (host) return 0;
    for (uint64_t at = 0, n; at < bytes && !status; at += n) {
        n = bytes - at < MAILBOX_SLOT ? bytes - at : MAILBOX_SLOT;
        status = board_ask(t, MAILBOX_MEM_READ, from.value + at, (uint32_t)n, NULL);
        if (!status) memcpy((uint8_t *)to + at, board_answer(t), n);
    }
    return status;
}

static int board_sync_for_device(presil_transport *t, presil_daddr base, uint64_t bytes) {
    uint32_t index = 0;
    const int status = bytes ? find(t, base.value, bytes, &index) : 0;
    if (status || !bytes) return status;
    const board_memory *m = &t->spec.memory[index];
    const uint8_t *host = board_host(t, m);
    if (host && !m->coherent) t->stored[index] = host + (base.value - m->base) + bytes - 1;
    return 0;
}

static int board_mem_write(presil_transport *t, presil_daddr to, const void *from, uint64_t bytes) {
    uint32_t index = 0;
    int status = find(t, to.value, bytes, &index);
    uint8_t *host = status ? NULL : board_host(t, &t->spec.memory[index]);
    if (host) {
        memcpy(host + (to.value - t->spec.memory[index].base), from, bytes);
        return board_sync_for_device(t, to, bytes);
    }
    for (uint64_t at = 0, n; at < bytes && !status; at += n) {
        n = bytes - at < MAILBOX_SLOT ? bytes - at : MAILBOX_SLOT;
        status = board_post(t, MAILBOX_MEM_WRITE, to.value + at, (const uint8_t *)from + at, (uint32_t)n, 0);
        t->mailbox_stored = true;
    }
    return status;
}

static int board_sync_for_host(presil_transport *t, presil_daddr base, uint64_t bytes) {
    (void)base, (void)bytes;
    load_before_loads();
    return t->lost ? PRESIL_TRANSPORT_EIO : 0;
}

/* ---- what the chip reaches */
static int ask_iommu(presil_transport *t, uint32_t kind, presil_daddr base, uint64_t bytes) {
    uint32_t index = 0, pages = (uint32_t)(bytes / BOARD_PAGE);
    const int status = find(t, base.value, bytes, &index);
    return status ? status : board_ask(t, kind, base.value, 0, &pages);
}

static int board_map(presil_transport *t, presil_daddr base, uint64_t bytes) {
    return ask_iommu(t, MAILBOX_MAP, base, bytes);
}

static int board_unmap(presil_transport *t, presil_daddr base, uint64_t bytes) {
    return ask_iommu(t, MAILBOX_UNMAP, base, bytes);
}

/* ---- reset */
static int pull_reset(presil_transport *t, uint32_t *memory_lost) {
    if (t->spec.reset == BOARD_RESET_FILE) return board_reset_by_file(t);
    if (t->spec.reset == BOARD_RESET_REGISTER) return board_write32(t, t->spec.reset_offset, t->spec.reset_value);
    return t->spec.reset == BOARD_RESET_MAILBOX ? board_ask(t, MAILBOX_RESET, 0, 0, memory_lost) : 0;
}

static int board_reset(presil_transport *t) {
    const bool was_lost = t->lost;
    uint32_t memory_lost = 0, witness = 0;
    t->lost = false;
    memset(t->stored, 0, sizeof t->stored);
    t->mailbox_stored = false;
    int status = was_lost ? board_windows_again(t) : 0;
    if (!status) status = pull_reset(t, &memory_lost);
    if (!status && (was_lost || memory_lost)) status = unmap_all(t);
    if (!status) status = load(t, t->spec.witness, &witness);
    if (!status && witness == UINT32_MAX)
        status =
            board_fail(t, PRESIL_TRANSPORT_EIO, "link lost: after a reset register 0x%x of %s still reads 0xffffffff",
                       t->spec.witness, t->spec.registers.path);
    if (status) t->lost = true;
    if (status) return PRESIL_TRANSPORT_EIO;
    return was_lost || memory_lost ? PRESIL_TRANSPORT_MEMORY_LOST : 0;
}

const presil_transport_ops *presil_board_ops(void) {
    static const presil_transport_ops ops = {
        .size = sizeof ops,
        .abi = PRESIL_TRANSPORT_ABI,
        .open = board_open,
        .close = board_close,
        .info = board_info,
        .last_error = board_last_error,
        .read32 = board_read32,
        .write32 = board_write32,
        .region = board_region,
        .mem_read = board_mem_read,
        .mem_write = board_mem_write,
        .sync_for_device = board_sync_for_device,
        .sync_for_host = board_sync_for_host,
        .wait = board_wait,
        .reset = board_reset,
        .map = board_map,
        .unmap = board_unmap,
    };
    return &ops;
}
