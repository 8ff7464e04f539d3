/* SPDX-License-Identifier: Apache-2.0 */
/* twin_generic.c - the kernels in portable integer C, clause by clause as docs/numerics.md has them: what the vector
 * kernels are compared with. */
#include <string.h>

#include "twin_fp.h"
#include "twin_internal.h"

static void pack(const twin_dims *dims, const uint8_t *const *weights, void *packed) {
    for (uint32_t c = 0; c < dims->cells; c++)
        memcpy((uint8_t *)packed + (size_t)c * dims->lanes, weights[c], dims->lanes);
}

static void pack_int8(const twin_dims *dims, const uint8_t *const *weights, void *packed) {
    pack(dims, weights, packed);
}

static void pack_float(const twin_dims *dims, const uint8_t *const *weights, const twin_floats *floats, void *packed) {
    (void)floats;
    pack(dims, weights, packed);
}

static void rows_int8(const twin_dims *dims, const void *packed, const twin_rows *rows) {
    for (uint32_t r = 0; r < rows->count; r++) {
        uint32_t *acc = rows->acc + (size_t)r * dims->cells_pad;
        const int8_t *a = (const int8_t *)rows->rows[r], *w = packed;
        for (uint32_t c = 0; c < dims->cells; c++, w += dims->lanes) {
            int32_t sum = 0;
            for (uint32_t i = 0; i < dims->lanes; i++) sum += a[i] * w[i];
            acc[c] = (rows->first ? 0 : acc[c]) + (uint32_t)sum;
        }
    }
}

static inline uint32_t load16(const uint8_t *p) { return (uint32_t)p[0] | (uint32_t)p[1] << 8; }

static inline uint32_t as_fp32(const twin_floats *floats, uint32_t code) {
    return floats->fp16 ? twin_h2f(code) : code << 16;
}

static inline int is_absent(const twin_floats *floats, const uint8_t *weight) {
    return floats->absent && load16(weight) == twin_absent_code(floats);
}

/* Clause 4.2: 0 if no special counts, else 1 with *v the result. */
static int special(const uint8_t *a, const uint8_t *w, uint32_t n, const twin_floats *floats, uint32_t *v) {
    int nan = 0, plus = 0, minus = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t x = as_fp32(floats, load16(a + 2 * i)), y = as_fp32(floats, load16(w + 2 * i));
        if (is_absent(floats, w + 2 * i)) continue;
        if (twin_exponent(x) != 255 && twin_exponent(y) != 255) continue;
        uint32_t p = twin_mul(x, y);
        nan |= p == TWIN_NAN;
        plus |= p == TWIN_INF;
        minus |= p == (TWIN_INF | TWIN_SIGN);
    }
    if (!nan && !plus && !minus) return 0;
    *v = nan || (plus && minus) ? TWIN_NAN : plus ? TWIN_INF : TWIN_INF | TWIN_SIGN;
    return 1;
}

uint32_t twin_dot(const uint8_t *a, const uint8_t *w, uint32_t n, unsigned g, const twin_floats *floats) {
    uint32_t v, m[TWIN_MAX_LANES / 2], e[TWIN_MAX_LANES / 2], emax = 0, negative[TWIN_MAX_LANES / 2];
    if (!floats->skip_special && special(a, w, n, floats, &v)) return v;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t x = as_fp32(floats, load16(a + 2 * i)), y = as_fp32(floats, load16(w + 2 * i));
        uint32_t ex = twin_exponent(x), ey = twin_exponent(y);
        int counts = !is_absent(floats, w + 2 * i) && ex != 255 && ey != 255;
        /* the last 13 bits of an operand are 0 */
        m[i] = counts && ex && ey ? (twin_significand(x) >> 13) * (twin_significand(y) >> 13) : 0;
        e[i] = ex + ey;
        negative[i] = (x ^ y) >> 31;
        if (m[i] && e[i] > emax) emax = e[i];
    }
    int64_t sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t d = emax - e[i];
        if (!m[i] || d >= 28) continue;
        int64_t t = (int64_t)((((uint64_t)m[i] << (g - 6) >> d) + 1) >> 1);
        sum += negative[i] ? -t : t;
    }
    if (!sum) return 0;
    return twin_round(sum < 0 ? TWIN_SIGN : 0, (uint64_t)(sum < 0 ? -sum : sum), (int)emax - 268 - (int)(g - 1));
}

static void rows_float(const twin_dims *dims, const void *packed, const twin_rows *rows) {
    unsigned g = twin_alignment_bits(dims->lanes);
    for (uint32_t r = 0; r < rows->count; r++) {
        uint32_t *acc = rows->acc + (size_t)r * dims->cells_pad;
        const uint8_t *w = packed;
        for (uint32_t c = 0; c < dims->cells; c++, w += dims->lanes) {
            uint32_t v = twin_dot(rows->rows[r], w, dims->lanes / 2, g, &rows->floats);
            acc[c] = twin_add(rows->first ? 0 : acc[c], v);
        }
    }
}

static void depth_int8(const twin_dims *dims, const twin_depth *row) {
    for (uint32_t x = 0; x < row->count; x++) {
        uint32_t *acc = row->acc + (size_t)x * dims->cells_pad;
        if (row->first) memset(acc, 0, dims->cells * sizeof *acc);
        for (uint32_t ky = 0; ky < row->ky; ky++)
            for (uint32_t kx = 0; kx < row->kx; kx++) {
                const int8_t *a = (const int8_t *)row->window[ky][x * row->step + kx],
                             *w = (const int8_t *)row->weights[ky][kx];
                for (uint32_t c = 0; c < row->used; c++) acc[c] += (uint32_t)(a[c] * w[c]);
            }
    }
}

uint32_t twin_depth_cell(const twin_dims *dims, const twin_depth *row, uint32_t x, uint32_t c) {
    uint8_t a[2 * TWIN_DEPTH_KERNEL * TWIN_DEPTH_KERNEL], w[sizeof a];
    uint32_t n = 0;
    for (uint32_t ky = 0; ky < row->ky; ky++)
        for (uint32_t kx = 0; kx < row->kx; kx++, n++) {
            memcpy(a + 2 * n, row->window[ky][x * row->step + kx] + 2 * (size_t)c, 2);
            memcpy(w + 2 * n, row->weights[ky][kx] + 2 * (size_t)c, 2);
        }
    return twin_dot(a, w, n, twin_alignment_bits(dims->lanes), &row->floats);
}

static void depth_float(const twin_dims *dims, const twin_depth *row) {
    for (uint32_t x = 0; x < row->count; x++) {
        uint32_t *acc = row->acc + (size_t)x * dims->cells_pad;
        for (uint32_t c = 0; c < dims->cells; c++)
            acc[c] = twin_add(row->first ? 0 : acc[c], c < row->used ? twin_depth_cell(dims, row, x, c) : 0);
    }
}

/* Steps 4 and 5 of isa.md section 5. */
static uint32_t residual_and_clamp(const twin_post *post, uint32_t v, const uint8_t *res, uint32_t c) {
    if (post->res_en) {
        uint32_t q;
        if (post->res_type == PRESIL_DTYPE_INT8) {
            int32_t i = (int32_t)((uint32_t)(int8_t)res[c] - (uint32_t)post->res_zp);
            q = twin_mul(twin_i2f(i), post->res_scale);
        } else if (post->res_type == PRESIL_DTYPE_BF16) {
            q = load16(res + 2 * c) << 16;
        } else if (post->res_type == PRESIL_DTYPE_FP16) {
            q = twin_h2f(load16(res + 2 * c));
        } else {
            memcpy(&q, res + 4 * c, 4);
        }
        v = twin_add(v, q);
    }
    if (post->clamp_en) {
        if (twin_compare(v, post->clamp_lo) == -1)
            v = post->clamp_lo;
        else if (twin_compare(v, post->clamp_hi) == 1)
            v = post->clamp_hi;
    }
    return v;
}

static uint8_t to_int8(const twin_post *post, uint32_t v) {
    int32_t i = (int32_t)((uint32_t)twin_f2i(v) + (uint32_t)post->out_zp);
    i = i < post->int_lo ? post->int_lo : i > post->int_hi ? post->int_hi : i;
    return (uint8_t)i;
}

static void post_row(const twin_dims *dims, const twin_post *post, const uint32_t *acc, const uint8_t *res,
                     uint8_t *out) {
    for (uint32_t c = 0; c < dims->cells; c++) {
        uint32_t v = acc[c];
        if (post->bias_en) v = post->acc_fp32 ? twin_add(v, post->bias[c]) : v + post->bias[c];
        if (post->out_type != PRESIL_DTYPE_RAW32) {
            if (!post->acc_fp32) v = twin_i2f((int32_t)v);
            if (post->scale_en) v = twin_mul(v, post->scale[c]);
            v = residual_and_clamp(post, v, res, c);
        }
        uint16_t b = (uint16_t)(post->out_type == PRESIL_DTYPE_FP16 ? twin_f2h(v) : twin_f2b(v));
        switch (post->out_type) {
        case PRESIL_DTYPE_INT8: out[c] = to_int8(post, v); break;
        case PRESIL_DTYPE_FP16:
        case PRESIL_DTYPE_BF16: memcpy(out + 2 * (size_t)c, &b, 2); break;
        default: memcpy(out + 4 * (size_t)c, &v, 4); break;
        }
    }
}

static void split(const uint8_t *source, uint8_t *out, size_t elements, unsigned term) {
    for (size_t i = 0; i < elements; i++) {
        uint32_t x;
        uint16_t t[3];
        memcpy(&x, source + 4 * i, 4);
        twin_split(x, t);
        memcpy(out + 2 * i, &t[term], 2);
    }
}

const twin_kernels twin_kernels_generic = {"generic",  pack_int8,   rows_int8, pack_float, rows_float,
                                           depth_int8, depth_float, post_row,  split};
