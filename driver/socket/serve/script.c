/* SPDX-License-Identifier: Apache-2.0 */
/*
 * WAIT_THEN: a wait, and the register accesses that a client makes after every interrupt. They are handed out as
 * ordinary requests, so that whoever serves needs to know nothing of it; the client is woken once.
 */
#define _GNU_SOURCE
#include "server.h"

bool presil_server_then_begin(presil_server *s, uint32_t reason, uint64_t cycles) {
    if (reason != PRESIL_WAIT_IRQ || s->scratch.then.count == 0) return false;
    s->outstanding = false;
    s->then_running = true;
    s->then_at = 0;
    s->then_cycles = cycles;
    return true;
}

static void answer(presil_server *s) {
    uint8_t body[16 + 4 * PRESIL_SERVE_ACCESSES];
    protocol_writer w = {body, sizeof body, 0, false};
    protocol_put32(&w, PRESIL_WAIT_IRQ);
    protocol_put32(&w, 0);
    protocol_put64(&w, s->then_cycles);
    for (uint32_t i = 0; i < s->scratch.then.count; i++) {
        if (!s->scratch.then.at[i].is_write) protocol_put32(&w, s->scratch.then.at[i].value);
    }
    if (!s->lost) (void)presil_server_answer(s, s->sequence, 0, 0, NULL, body, w.used);
}

int presil_server_then_next(presil_server *s, presil_request *out) {
    const protocol_accesses *all = &s->scratch.then;
    if (s->posted_status) { /* a write has failed: that is the answer, and the rest does not run */
        s->then_running = false;
        const int status = s->posted_status;
        s->posted_status = 0;
        if (!s->lost) (void)presil_server_answer(s, s->sequence, 0, status, s->posted_text, NULL, 0);
        return 0;
    }
    if (s->then_at == all->count) {
        s->then_running = false;
        answer(s);
        return 0;
    }
    const presil_register_access *next = &all->at[s->then_at];
    *out = (presil_request){.kind = PRESIL_REQUEST_WRITE32, .offset = next->offset, .value = next->value};
    if (next->is_write) {
        s->then_at++;
    } else {
        *out = (presil_request){.kind = PRESIL_REQUEST_READ32, .offsets = s->scratch.offsets};
        for (; s->then_at < all->count && !all->at[s->then_at].is_write; s->then_at++)
            s->scratch.offsets[out->count++] = all->at[s->then_at].offset;
    }
    presil_server_hand_out(s, out, s->sequence);
    return 1;
}

void presil_server_then_values(presil_server *s, const uint32_t *values) {
    s->outstanding = false;
    for (uint32_t i = 0; i < s->count; i++) s->scratch.then.at[s->then_at - s->count + i].value = values[i];
}
