/* SPDX-License-Identifier: Apache-2.0 */
/* The driver's end of a mailbox. */
#define _GNU_SOURCE
#include "board.h"
#include "presil_clock.h"

#include <string.h>
#include <time.h>

enum { SPINS = 2000, NAP_NS = 20000 };

/* Until the board has carried out so many requests. */
static int wait_done(presil_transport *t, uint32_t count) {
    const uint64_t end = presil_now_ns() + t->spec.timeout_ms * 1000000ull;
    const struct timespec nap = {0, NAP_NS};
    for (unsigned i = 0; (int32_t)(__atomic_load_n(&t->mailbox->done, __ATOMIC_ACQUIRE) - count) < 0; i++) {
        if (i < SPINS) continue;
        if (presil_now_ns() > end) {
            t->lost = true;
            return board_fail(t, PRESIL_TRANSPORT_EIO,
                              "link lost: the board behind %s took no request for %u ms: is its program running? Then "
                              "presil_device_reset()",
                              t->spec.registers.path, t->spec.timeout_ms);
        }
        (void)nanosleep(&nap, NULL);
    }
    return 0;
}

static mailbox_entry *next_entry(presil_transport *t, uint8_t **slot) {
    if (wait_done(t, t->posted + 1 - MAILBOX_ENTRIES)) return NULL;
    const uint32_t n = t->posted % MAILBOX_ENTRIES;
    *slot = t->mailbox->slot[n];
    return &t->mailbox->entry[n];
}

int board_post(presil_transport *t, uint32_t kind, uint64_t address, const void *from, uint32_t bytes, uint32_t value) {
    uint8_t *slot = NULL;
    mailbox_entry *e = next_entry(t, &slot);
    if (!e) return PRESIL_TRANSPORT_EIO;
    *e = (mailbox_entry){.kind = kind, .address = address, .bytes = bytes, .value = value};
    if (from) memcpy(slot, from, bytes);
    __atomic_store_n(&t->mailbox->posted, ++t->posted, __ATOMIC_RELEASE);
    return 0;
}

int board_ask(presil_transport *t, uint32_t kind, uint64_t address, uint32_t bytes, uint32_t *value) {
    int status = board_post(t, kind, address, NULL, bytes, value ? *value : 0);
    if (!status) status = wait_done(t, t->posted);
    if (status) return status;
    const mailbox_entry *e = &t->mailbox->entry[(t->posted - 1) % MAILBOX_ENTRIES];
    if (e->status)
        return board_fail(t, e->status, "the board behind %s refused request %u at 0x%llx, or one posted before it",
                          t->spec.registers.path, kind, (unsigned long long)address);
    if (value) *value = e->value;
    return 0;
}

const void *board_answer(const presil_transport *t) { return t->mailbox->slot[(t->posted - 1) % MAILBOX_ENTRIES]; }
