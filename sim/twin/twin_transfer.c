/* SPDX-License-Identifier: Apache-2.0 */
/* twin_transfer.c - LOAD and STORE (docs/isa.md sections 2 and 3). */
#include <string.h>

#include "twin_internal.h"

#define ADDRESS_MASK ((UINT64_C(1) << 40) - 1)

/* The fields of a transfer, in the widths of the address arithmetic: DRAM 64 bits, scratchpad 32 bits with wrap-around.
 */
typedef struct {
    twin_run *run;
    uint32_t index, word, spad_bytes;
    uint64_t addr;
    uint64_t ds[4];
    uint32_t n[4], ss[4], sp_base, sw, chunk, piece; /* piece: source bytes of a word */
    int64_t row_bytes, pos0, step0;
    uint32_t pad;
    unsigned conv;
} transfer;

/* Where the memory of a descriptor lies, relative to where its address says. */
static uint64_t shift_of(const twin_run *run, uint32_t index) {
    return run->shift ? run->shift->by[run->shift->owner[index]] : 0;
}

static void fields_load(transfer *t, twin_run *run, const presil_desc *d, uint32_t index) {
    const twin_dims *dims = &run->twin->dims;
    *t = (transfer){
        .run = run,
        .index = index,
        .word = dims->word,
        .spad_bytes = dims->words * dims->word,
        .addr = presil_load_addr(d) + shift_of(run, index),
        .ds = {0, (uint64_t)presil_load_ds1(d), (uint64_t)presil_load_ds2(d), (uint64_t)presil_load_ds3(d)},
        .n = {presil_load_n0(d), presil_load_n1(d), presil_load_n2(d), presil_load_n3(d)},
        .ss = {(uint32_t)presil_load_ss0(d), (uint32_t)presil_load_ss1(d), (uint32_t)presil_load_ss2(d),
               (uint32_t)presil_load_ss3(d)},
        .sp_base = presil_load_sp_base(d),
        .sw = (uint32_t)presil_load_sw(d),
        .chunk = presil_load_chunk_bytes(d),
        .piece = presil_load_word_bytes(d),
        .row_bytes = presil_load_row_bytes(d),
        .pos0 = presil_load_pos0(d),
        .step0 = presil_load_step0(d),
        .pad = presil_load_pad(d),
        .conv = presil_load_conv(d),
    };
}

static void fields_store(transfer *t, twin_run *run, const presil_desc *d, uint32_t index) {
    const twin_dims *dims = &run->twin->dims;
    *t = (transfer){
        .run = run,
        .index = index,
        .word = dims->word,
        .spad_bytes = dims->words * dims->word,
        .addr = presil_store_addr(d) + shift_of(run, index),
        .ds = {0, (uint64_t)presil_store_ds1(d), (uint64_t)presil_store_ds2(d), (uint64_t)presil_store_ds3(d)},
        .n = {presil_store_n0(d), presil_store_n1(d), presil_store_n2(d), presil_store_n3(d)},
        .ss = {(uint32_t)presil_store_ss0(d), (uint32_t)presil_store_ss1(d), (uint32_t)presil_store_ss2(d),
               (uint32_t)presil_store_ss3(d)},
        .sp_base = presil_store_sp_base(d),
        .sw = (uint32_t)presil_store_sw(d),
        .chunk = presil_store_chunk_bytes(d),
        .piece = presil_store_word_bytes(d),
    };
}

/*
 * Whether [address, address + bytes), rounded out to the beats the chip moves, leaves the memory window; *bad: the
 * first beat that does. bytes > 0. A window that is not made of whole beats counts as if its last beats were whole, but
 * not for the bytes themselves.
 */
static int outside(const transfer *t, uint64_t address, uint64_t bytes, uint64_t *bad) {
    const presil_twin_memory *m = t->run->memory;
    uint64_t beat = ~(uint64_t)(t->word - 1);
    if (!m->bytes || address < m->base || address - m->base >= m->bytes) {
        *bad = address & beat;
        return 1;
    }
    uint64_t room = m->bytes - (address - m->base);
    if (bytes <= room) return 0;
    *bad = (address + room + t->word - 1) & beat;
    return 1;
}

/* Whether the bursts that move [address, address + bytes) leave the DMA windows; *bad: where the first that does
 * begins: at the first beat or at a page. bytes > 0. */
static int forbidden(const transfer *t, uint64_t address, uint64_t bytes, int write, uint64_t *bad) {
    if (!t->run->twin->guarded) return 0;
    const uint64_t end = address + bytes;
    for (uint64_t at = address; at < end; at = (at | 4095u) + 1) {
        if (presil_twin_permits(&t->run->twin->windows, at, write)) continue;
        *bad = at & ADDRESS_MASK & ~(uint64_t)(t->word - 1);
        return 1;
    }
    return 0;
}

static int range_error(const transfer *t, uint32_t s) {
    return twin_fail(t->run, PRESIL_ERROR_SPAD_RANGE, t->index, s & ~(t->word - 1), "scratchpad address");
}

/* Fills bytes of scratchpad [to, to + bytes) with padding: the pattern follows the destination address. */
static void fill(uint8_t *spad, uint32_t to, uint32_t bytes, uint32_t pad) {
    if (!pad) {
        memset(spad + to, 0, bytes);
        return;
    }
    for (uint32_t i = 0; i < bytes; i++) spad[to + i] = (uint8_t)(pad >> (8 * ((to + i) & 3u)));
}

/*
 * Writes `bytes` source bytes from position `pos` of a row (row: its byte 0, or NULL if the whole row is padding) at
 * scratchpad address s. The caller has checked s against the memory's end.
 */
static void write_piece(const transfer *t, const uint8_t *row, int64_t pos, uint32_t bytes, uint32_t s) {
    uint8_t *spad = t->run->twin->spad;
    uint32_t off = s & (t->word - 1), shift = t->conv ? 1u : 0u, out = bytes >> shift;
    if (off + out > t->word) {
        out = t->word - off;
        bytes = out << shift;
    }
    int64_t from = pos < 0 ? 0 : pos, to = pos + bytes > t->row_bytes ? t->row_bytes : pos + bytes;
    if (!row || from >= to) {
        fill(spad, s, out, t->pad);
    } else {
        uint32_t before = (uint32_t)(from - pos) >> shift, elements = (uint32_t)(to - from) / 4,
                 inside = t->conv ? 2 * elements : (uint32_t)(to - from);
        fill(spad, s, before, t->pad);
        if (t->conv)
            t->run->twin->kernels->split(row + from, spad + s + before, elements, t->conv - 1u);
        else
            memcpy(spad + s + before, row + from, inside);
        fill(spad, s + before + inside, out - before - inside, t->pad);
        if (t->conv && (to - from) % 4 == 2 &&
            to < t->row_bytes - 1) { /* an odd address leaves half of the last element in the word */
            uint8_t half[2];
            t->run->twin->kernels->split(row + to - 2, half, 1, t->conv - 1u);
            spad[s + out - 1] = half[0];
        }
    }
    if (!off && out < t->word) fill(spad, s + out, t->word - out, t->pad);
}

/* All chunks of one row; s: scratchpad address of chunk 0. */
static int load_row(const transfer *t, const uint8_t *row, uint32_t s) {
    for (uint32_t i0 = 0; i0 < t->n[0]; i0++, s += t->ss[0]) {
        int64_t pos = t->pos0 + (int64_t)i0 * t->step0;
        if (row && !t->conv && t->piece == t->word && t->sw == t->word && !(t->chunk & (t->word - 1)) &&
            !(s & (t->word - 1)) && pos >= 0 && pos + t->chunk <= t->row_bytes && s < t->spad_bytes &&
            t->chunk <= t->spad_bytes - s) {
            memcpy(t->run->twin->spad + s, row + pos, t->chunk);
            continue;
        }
        uint32_t to = s;
        for (uint32_t done = 0; done < t->chunk; done += t->piece, to += t->sw) {
            uint32_t bytes = t->chunk - done < t->piece ? t->chunk - done : t->piece;
            if (to >= t->spad_bytes) return range_error(t, to);
            write_piece(t, row, pos + done, bytes, to);
        }
    }
    return 0;
}

/* The host bytes of the row (its position 0) in *row, NULL if it is padding. Checks what the chip reads of it. */
static int open_row(const transfer *t, uint64_t address, int inside, const uint8_t **row) {
    int64_t end = t->pos0 + (int64_t)(t->n[0] - 1) * t->step0 + t->chunk, from = t->pos0 < 0 ? 0 : t->pos0;
    if (end > t->row_bytes) end = t->row_bytes;
    *row = NULL;
    if (!inside || from >= end) return 0;
    uint64_t bad, first = (address + (uint64_t)from) & ADDRESS_MASK;
    if (forbidden(t, first, (uint64_t)(end - from), 0, &bad))
        return twin_fail(t->run, PRESIL_ERROR_WINDOW, t->index, bad, "DRAM read, outside the DMA windows, at");
    if (outside(t, first, (uint64_t)(end - from), &bad))
        return twin_fail(t->run, PRESIL_ERROR_READ_BUS, t->index, bad, "DRAM read at");
    const presil_twin_memory *m = t->run->memory;
    *row = m->host + (int64_t)(first - m->base) - from;
    return 0;
}

/* A whole row, all columns inside and aligned: converted at once, then one element a column. */
static int transpose_whole_row(const transfer *t, const uint8_t *row, uint32_t k, uint32_t e, uint32_t columns,
                               uint32_t s) {
    uint8_t *spad = t->run->twin->spad;
    uint16_t terms[2 * TWIN_MAX_LANES];
    const uint8_t *from = row + t->pos0;
    if (t->conv) {
        t->run->twin->kernels->split(from, (uint8_t *)terms, columns, t->conv - 1u);
        from = (const uint8_t *)terms;
    }
    for (uint32_t j = 0; j < columns; j++, s += t->sw) {
        if (s >= t->spad_bytes) return range_error(t, s);
        if (k == 0) fill(spad, s, t->word, t->pad);
        if (e == 2)
            memcpy(spad + s + k * 2, from + j * 2, 2);
        else
            memcpy(spad + s + k * e, from + j * e, e);
    }
    return 0;
}

/* Row i1 of a transposing load becomes element i1 of every column's word. k = 0 also pads the words. */
static int transpose_row(const transfer *t, const uint8_t *row, uint32_t k, uint32_t source_log2, uint32_t s) {
    uint8_t *spad = t->run->twin->spad;
    uint32_t size = 1u << source_log2, e = t->conv ? 2u : size, columns = t->chunk >> source_log2;
    if (row && t->pos0 >= 0 && t->pos0 + (int64_t)t->chunk <= t->row_bytes && columns <= 2 * TWIN_MAX_LANES &&
        !((s | t->sw) & (t->word - 1)))
        return transpose_whole_row(t, row, k, e, columns, s);
    for (uint32_t j = 0; j < columns; j++, s += t->sw) {
        uint32_t base = s & ~(t->word - 1);
        if (base >= t->spad_bytes) return range_error(t, base);
        if (k == 0) fill(spad, base, t->word, t->pad);
        int64_t pos = t->pos0 + (int64_t)j * size;
        int64_t from = pos < 0 ? 0 : pos, to = pos + size > t->row_bytes ? t->row_bytes : pos + size;
        if (row && to - from == size && t->conv) {
            t->run->twin->kernels->split(row + pos, spad + base + k * e, 1, t->conv - 1u);
            continue;
        }
        fill(spad, base + k * e, e, t->pad);
        if (row && from < to && !t->conv) memcpy(spad + base + k * e + (from - pos), row + from, (size_t)(to - from));
    }
    return 0;
}

int twin_load(twin_run *run, const presil_desc *d, uint32_t index) {
    transfer t;
    fields_load(&t, run, d, index);
    int transposing = presil_load_transpose(d) != 0;
    uint32_t source_log2 = t.conv ? 2u : presil_load_esize_log2(d);
    int32_t limit = (int32_t)presil_load_row_limit(d), rp0 = presil_load_rp0(d);
    int32_t rp1 = presil_load_rp1(d), rp2 = presil_load_rp2(d), rp3 = presil_load_rp3(d);
    for (uint32_t i3 = 0; i3 < t.n[3]; i3++)
        for (uint32_t i2 = 0; i2 < t.n[2]; i2++)
            for (uint32_t i1 = 0; i1 < t.n[1]; i1++) {
                uint64_t address = t.addr + i1 * t.ds[1] + i2 * t.ds[2] + i3 * t.ds[3];
                int64_t r = rp0 + (int64_t)i1 * rp1 + (int64_t)i2 * rp2 + (int64_t)i3 * rp3;
                uint32_t s = t.sp_base + (transposing ? 0 : i1 * t.ss[1]) + i2 * t.ss[2] + i3 * t.ss[3];
                const uint8_t *row;
                if (open_row(&t, address, !limit || (r >= 0 && r < limit), &row)) return -1;
                if (transposing ? transpose_row(&t, row, i1, source_log2, s) : load_row(&t, row, s)) return -1;
            }
    return 0;
}

/* Copies all chunks of one row to DRAM at `to`. */
static int store_row(const transfer *t, uint8_t *to, uint32_t s) {
    const uint8_t *spad = t->run->twin->spad;
    for (uint32_t i0 = 0; i0 < t->n[0]; i0++, s += t->ss[0]) {
        if (t->piece == t->word && t->sw == t->word && !(s & (t->word - 1)) && s < t->spad_bytes &&
            t->chunk <= t->spad_bytes - s) {
            memcpy(to, spad + s, t->chunk);
            to += t->chunk;
            continue;
        }
        uint32_t from = s;
        for (uint32_t done = 0; done < t->chunk; done += t->piece, from += t->sw) {
            uint32_t bytes = t->chunk - done < t->piece ? t->chunk - done : t->piece;
            if (from >= t->spad_bytes || bytes > t->spad_bytes - from) return range_error(t, from);
            memcpy(to, spad + from, bytes);
            to += bytes;
        }
    }
    return 0;
}

int twin_store(twin_run *run, const presil_desc *d, uint32_t index) {
    transfer t;
    fields_store(&t, run, d, index);
    const presil_twin_memory *m = run->memory;
    uint64_t bytes = (uint64_t)t.n[0] * t.chunk;
    for (uint32_t i3 = 0; i3 < t.n[3]; i3++)
        for (uint32_t i2 = 0; i2 < t.n[2]; i2++)
            for (uint32_t i1 = 0; i1 < t.n[1]; i1++) {
                uint64_t address = t.addr + i1 * t.ds[1] + i2 * t.ds[2] + i3 * t.ds[3];
                address &= ADDRESS_MASK;
                uint64_t bad;
                if (forbidden(&t, address, bytes, 1, &bad))
                    return twin_fail(run, PRESIL_ERROR_WINDOW, index, bad, "DRAM write, outside the DMA windows, at");
                if (outside(&t, address, bytes, &bad))
                    return twin_fail(run, PRESIL_ERROR_WRITE_BUS, index, bad, "DRAM write at");
                if (store_row(&t, m->host + (address - m->base),
                              t.sp_base + i1 * t.ss[1] + i2 * t.ss[2] + i3 * t.ss[3]))
                    return -1;
                if (run->on_write) run->on_write(run->context, address, bytes, index);
            }
    return 0;
}
