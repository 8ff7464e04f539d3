/* SPDX-License-Identifier: Apache-2.0 */
/* presil_rows and presil_bursts: rows of a LOAD or STORE, cut into bursts that respect pages. */
#include <string.h>
#include "performance.h"

static void begin(row_walker *w, int64_t address, int64_t sp, int64_t position) {
    w->run = true;
    for (int i = 0; i < 4; i++) {
        w->i[i] = 0;
        w->address[i] = address;
        w->sp[i] = sp;
        w->position[i] = position;
    }
    w->pos = w->first_pos;
}

void rows_start_load(row_walker *w, const presil_desc *d, bool own_chunks) {
    const bool tr = presil_load_transpose(d);
    const int64_t chunk = presil_load_chunk_bytes(d), chunks = presil_load_n0(d), step = presil_load_step0(d);
    const uint32_t n[4] = {own_chunks ? (uint32_t)chunks : 1, presil_load_n1(d), presil_load_n2(d), presil_load_n3(d)};
    const int64_t ds[4] = {0, chip_stride(d, 1), chip_stride(d, 2), chip_stride(d, 3)},
                  ss[4] = {presil_load_ss0(d), tr ? 0 : presil_load_ss1(d), presil_load_ss2(d), presil_load_ss3(d)},
                  rp[4] = {0, presil_load_rp1(d), presil_load_rp2(d), presil_load_rp3(d)};
    memcpy(w->n, n, sizeof n);
    memcpy(w->address_step, ds, sizeof ds);
    memcpy(w->sp_step, ss, sizeof ss);
    memcpy(w->position_step, rp, sizeof rp);
    w->position_limit = presil_load_row_limit(d);
    w->first_pos = presil_load_pos0(d);
    w->pos_step = step;
    w->span = own_chunks ? chunk : chunk + (chunks - 1) * step;
    w->row_bytes = presil_load_row_bytes(d);
    begin(w, (int64_t)chip_address(d), presil_load_sp_base(d), presil_load_rp0(d));
}

void rows_start_store(row_walker *w, const presil_desc *d) {
    const uint32_t n[4] = {1, presil_store_n1(d), presil_store_n2(d), presil_store_n3(d)};
    const int64_t ds[4] = {0, chip_stride(d, 1), chip_stride(d, 2), chip_stride(d, 3)},
                  ss[4] = {0, presil_store_ss1(d), presil_store_ss2(d), presil_store_ss3(d)};
    memcpy(w->n, n, sizeof n);
    memcpy(w->address_step, ds, sizeof ds);
    memcpy(w->sp_step, ss, sizeof ss);
    memset(w->position_step, 0, sizeof w->position_step);
    w->position_limit = 0;
    w->first_pos = w->pos_step = 0;
    w->span = w->row_bytes = (int64_t)presil_store_chunk_bytes(d) * presil_store_n0(d);
    begin(w, (int64_t)chip_address(d), presil_store_sp_base(d), 0);
}

static void next(row_walker *w) {
    int k = 0;
    while (k < 4 && w->i[k] + 1 == w->n[k]) k++;
    if (k == 4) {
        w->run = false;
        return;
    }
    w->i[k]++;
    w->pos = k ? w->first_pos : w->pos + w->pos_step;
    const int64_t address = w->address[k] + w->address_step[k], sp = w->sp[k] + w->sp_step[k],
                  position = w->position[k] + w->position_step[k];
    for (int i = 0; i <= k; i++) {
        if (i < k) w->i[i] = 0;
        w->address[i] = address, w->sp[i] = sp, w->position[i] = position;
    }
}

static bool is_last(const row_walker *w, int from) {
    for (int i = from; i < 4; i++)
        if (w->i[i] + 1 != w->n[i]) return false;
    return true;
}

static void offer_row(const performance *p, row_walker *w) {
    const int64_t from = max64(0, w->pos), to = min64(w->pos + w->span, w->row_bytes), word = p->config->word_bytes;
    const bool outside = to <= from || (w->position_limit && (uint64_t)w->position[0] >= (uint64_t)w->position_limit);
    const int64_t first = w->address[0] + from, last = w->address[0] + to - 1;
    w->row_beat = first >> p->log2_word;
    w->beats = outside ? 0 : (uint32_t)((last >> p->log2_word) - (first >> p->log2_word) + 1);
    w->rel = (first & (word - 1)) - from;
    w->row_pos = w->pos;
    w->row_sp = w->sp[0];
    w->last1 = w->i[1] + 1 == w->n[1];
    w->last = is_last(w, 0);
}

uint32_t rows_burst(const performance *p, const row_walker *w) {
    const uint32_t page = 4096u >> p->log2_word, room = page - (uint32_t)(w->burst_beat & (page - 1));
    return w->left < room ? w->left : room;
}

void rows_step(const performance *p, row_walker *w, bool room, bool go, bool *taken) {
    const uint32_t burst = rows_burst(p, w);
    const bool ready = !w->left || (go && w->left == burst);
    *taken = w->valid && room && (!w->beats || ready);
    if (go) {
        w->burst_beat += burst;
        w->left -= burst;
    }
    if (*taken && w->beats) {
        w->burst_beat = w->row_beat;
        w->left = w->beats;
    }
    if (w->valid && !*taken) return;
    w->valid = w->run;
    if (!w->run) return;
    offer_row(p, w);
    next(w);
}
