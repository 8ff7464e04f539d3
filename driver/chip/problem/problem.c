/* SPDX-License-Identifier: Apache-2.0 */
/* The normal form of an operator: geometry, epilogue, checks of what the descriptors' fields can hold. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "problem.h"

int chip_fail(const presil_error_buffer *error, int status, const char *format, ...) {
    if (error && error->text && error->bytes) {
        va_list args;
        va_start(args, format);
        (void)vsnprintf(error->text, error->bytes, format, args);
        va_end(args);
    }
    return status;
}

int chip_fail_fp16(const presil_error_buffer *error, const char *what) {
    return chip_fail(error, PRESIL_EUNSUPPORTED,
                     "%s: fp16, of which this chip has no products (CAP_FEATURES.fp16 is 0); give it as fp32 with "
                     "COMPUTE_FP16",
                     what);
}

chip_unit chip_unit_of(const presil_config *c, uint32_t esize) {
    uint32_t bytes = c->cells * esize;
    if (bytes <= c->word_bytes / 2 && (bytes & (bytes - 1)) == 0)
        return (chip_unit){c->word_bytes / bytes, 1, c->word_bytes};
    return (chip_unit){1, (bytes + c->word_bytes - 1) / c->word_bytes, bytes};
}

chip_unit chip_problem_unit(const chip_problem *p, uint32_t esize) {
    chip_unit u = chip_unit_of(p->config, esize);
    if (p->split.cells < p->config->cells || chip_uneven(&p->split))
        u.groups_per_unit = 1, u.bytes = p->split.cells * esize;
    return u;
}

chip_axis chip_axis_map(int64_t out0, int64_t outs, int64_t k0, int64_t ks, int64_t stride, int64_t dilation,
                        int64_t pad, int64_t input_dilation, int64_t size) {
    int64_t low = out0 * stride - pad + k0 * dilation, high = low + (outs - 1) * stride + (ks - 1) * dilation;
    int64_t first = ceil_div(max64(low, 0), input_dilation), last = min64(floor_div(high, input_dilation), size - 1);
    return (chip_axis){first, max64(0, last - first + 1), low - first * input_dilation};
}

int64_t chip_gcd(int64_t a, int64_t b) {
    while (b) {
        int64_t r = a % b;
        a = b;
        b = r;
    }
    return a;
}

chip_packed_rows chip_packed_map(const chip_problem *p, uint32_t cb, int64_t out0, int64_t outs) {
    int64_t blocks = chip_grid_rows(p, cb),
            across = (int64_t)chip_rows_in_block(p, cb) * p->dilation_y; /* between the blocks of a kernel column */
    int64_t step = blocks > 1 ? chip_gcd(p->stride_y, across) : p->stride_y;
    int64_t span = (outs - 1) * p->stride_y + (blocks - 1) * across;
    return (chip_packed_rows){out0 * p->stride_y - p->pad_y, span / step + 1, step};
}

uint64_t chip_sum_blocks(const chip_problem *p) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < p->runs; i++) sum += p->run[i].blocks;
    return p->runs ? sum : (uint64_t)p->blocks * p->grid_y * p->grid_x;
}

chip_kernel_axis_pieces chip_kernel_pieces(uint32_t size, int64_t stride, int64_t dilation, int64_t outs) {
    if (size == 1 || stride < 1) dilation = 1;
    const int64_t both = chip_gcd(stride, dilation), phases = dilation / both;
    const bool single = phases > CHIP_DEPTHWISE_PHASES || (phases > 1 && 2 * outs < 3 * phases);
    return (chip_kernel_axis_pieces){size, (uint32_t)min64(stride / both, UINT32_MAX), single ? 1 : (uint32_t)phases,
                                     single};
}

static chip_piece piece_from(const chip_kernel_axis_pieces *a, uint32_t first, uint32_t apart) {
    const uint32_t left = (a->size - first + apart - 1) / apart,
                   pieces = (left + CHIP_WINDOW_KERNEL - 1) / CHIP_WINDOW_KERNEL;
    return (chip_piece){first, a->single ? 1 : (left + pieces - 1) / pieces, apart};
}

bool chip_next_piece(const chip_kernel_axis_pieces *a, const chip_piece *before, chip_piece *out) {
    const bool follow = a->single || a->stride == 1 || (a->stride == 2 && a->size <= CHIP_WINDOW_KERNEL);
    const uint32_t apart = follow ? 1 : a->stride;
    uint32_t first = before ? before->first + before->count * apart : 0;
    if (first >= a->size) {
        first = before->first % apart + 1; /* the next remainder */
        if (first >= apart || first >= a->size) return false;
    }
    *out = piece_from(a, first, apart);
    return true;
}

static int64_t axis_cycles(const chip_kernel_axis_pieces *axis, int64_t outs) {
    int64_t sum = 0;
    chip_piece piece;
    for (bool more = chip_next_piece(axis, NULL, &piece); more; more = chip_next_piece(axis, &piece, &piece))
        sum += chip_window_positions(outs, &piece, axis->stride);
    return sum;
}

int64_t chip_window_cycles(const chip_problem *p, int64_t nx, int64_t ny) {
    return axis_cycles(&p->pieces_x, nx) * axis_cycles(&p->pieces_y, ny);
}

void chip_problem_blocks(const chip_problem *p, uint32_t g, uint32_t *first, uint32_t *count) {
    if (p->layout) {
        chip_layout_blocks(p->layout, g, first, count);
    } else {
        *first = 0;
        *count = p->blocks;
    }
}

/* The outer dimension goes on where the inner one ends. */
static bool merges(int64_t inner, int64_t inner_stride, int64_t outer_stride) {
    return outer_stride == inner * inner_stride;
}

void chip_problem_normalise(chip_problem *p) {
    bool unpacked = p->act != ACT_PACKED;
    /* A dimension of one output has any stride; a kernel of one position any dilation. */
    if (p->in_w == 1 && !unpacked) p->in.sx = p->in_c * p->in.esize;
    if (p->out_w == 1) p->stride_x = 1;
    if (p->out_h == 1) p->stride_y = 1;
    if (p->grid_x == 1 && unpacked) p->dilation_x = 1;
    if (p->grid_y == 1 && p->pack_rows == 1) p->dilation_y = 1;
    if (unpacked && p->act != ACT_TRANSPOSED && p->grid_x == 1 && p->pad_x == 0 && p->input_dilation_x == 1 &&
        p->stride_x > 0 && (p->out_w - 1) * p->stride_x < p->in_w) {
        p->in.sx *= p->stride_x;
        p->in_w = p->out_w;
        p->stride_x = 1;
    }
    if (unpacked && p->grid_y == 1 && p->pad_y == 0 && p->input_dilation_y == 1 && p->stride_y > 0 &&
        (p->out_h - 1) * p->stride_y < p->in_h) {
        p->in.sy *= p->stride_y;
        p->in_h = p->out_h;
        p->stride_y = 1;
    }
    bool pointwise = unpacked && p->grid_x == 1 && p->grid_y == 1 && p->pad_x == 0 && p->pad_y == 0 &&
                     p->input_dilation_x == 1 && p->input_dilation_y == 1 && p->in_w == p->out_w && p->in_h == p->out_h;
    if (!pointwise) return;
    /* Pixels go in one column of rows, where all tensors allow it: then a tile is any range of them. */
    if (p->out_h == 1) {
        p->in.sy = p->in.sx, p->out.sy = p->out.sx, p->res.sy = p->res.sx;
        p->out_h = p->in_h = p->out_w;
        p->out_w = p->in_w = 1;
    } else if (p->out_w > 1 && merges(p->out_w, p->in.sx, p->in.sy) && merges(p->out_w, p->out.sx, p->out.sy) &&
               (!p->has_res || merges(p->out_w, p->res.sx, p->res.sy))) {
        p->in.sy = p->in.sx, p->out.sy = p->out.sx, p->res.sy = p->res.sx;
        p->out_h = p->in_h = p->out_h * p->out_w;
        p->out_w = p->in_w = 1;
    }
    if (p->images > 1 && p->out_w == 1 && !p->wgt_per_image && merges(p->out_h, p->in.sy, p->in.sn) &&
        merges(p->out_h, p->out.sy, p->out.sn) && (!p->has_res || merges(p->out_h, p->res.sy, p->res.sn))) {
        p->out_h = p->in_h = p->out_h * p->images;
        p->images = 1;
    }
}

/* Strides of dimensions with one element don't matter, and sn goes into addresses. */
static int check_strides(const chip_problem *p, presil_error_buffer *error) {
    static const char *const names[] = {"input", "output", "residual", "weights"};
    const int64_t strides[4][4] = {{p->in.sy, p->in.sx, p->in.sc, 0},
                                   {p->out.sy, p->out.sx, p->out.sc, 0},
                                   {p->res.sy, p->res.sx, p->res.sc, 0},
                                   {p->wgt_so, p->wgt_sk, p->wgt_sy, p->wgt_sx}};
    const int64_t counts[4][4] = {{p->in_h, p->in_w, p->in_c, 1},
                                  {p->out_h, p->out_w, p->out_c, 1},
                                  {p->out_h, p->out_w, p->out_c, 1},
                                  {1, 1, 1, 1}};
    for (int i = 0; i < 4; i++) {
        for (int k = 0; k < 4; k++) {
            if (chip_strides_fit(strides[i][k], counts[i][k]) || (i == 2 && !p->has_res)) continue;
            return chip_fail(error, PRESIL_EUNSUPPORTED,
                             "a stride of the %s is %lld bytes, %lld times; the chip's addresses have 40 bits: make it "
                             "contiguous",
                             names[i], (long long)strides[i][k], (long long)counts[i][k]);
        }
    }
    return PRESIL_OK;
}

/* Blocks and cell groups are counted in 32 bits. */
static int check_sizes(const chip_problem *p, presil_error_buffer *error) {
    if (p->in_c <= INT32_MAX && p->out_c <= INT32_MAX) return PRESIL_OK;
    return chip_fail(error, PRESIL_EUNSUPPORTED,
                     "sums over %lld elements for %lld columns; the driver counts to 2147483647 of each",
                     (long long)p->in_c, (long long)p->out_c);
}

bool chip_float_operand(uint32_t compute, uint32_t dtype) {
    return dtype == PRESIL_FP32 || (compute == PRESIL_COMPUTE_BF16 && dtype == PRESIL_BF16) ||
           (compute == PRESIL_COMPUTE_FP16 && dtype == PRESIL_FP16);
}

int chip_problem_check(const chip_problem *p, presil_error_buffer *error) {
    int status = check_sizes(p, error);
    if (status == PRESIL_OK) status = check_strides(p, error);
    if (status != PRESIL_OK) return status;
    if (p->input_dilation_x > 255 || p->input_dilation_y > 255) {
        return chip_fail(error, PRESIL_EUNSUPPORTED, "input dilation %lld x %lld; the chip's limit is 255",
                         (long long)p->input_dilation_y, (long long)p->input_dilation_x);
    }
    if (p->stride_x > 65535 || p->stride_y > 65535 || p->dilation_x > 65535 || p->dilation_y > 65535 ||
        p->pad_x > 32767 || p->pad_y > 32767 || (p->act == ACT_PACKED && (p->pad_x > 16384 || p->pad_y > 16384))) {
        return chip_fail(
            error, PRESIL_EUNSUPPORTED,
            "a stride or dilation above 65535 or a padding above 32767 (16384 for layers with few channels)");
    }
    if (p->has_res && p->res.sc < 0)
        return chip_fail(error, PRESIL_EUNSUPPORTED, "the residual's channel stride is negative: make it contiguous");
    if (p->act == ACT_PACKED && p->in.sx < p->in.esize) {
        return chip_fail(
            error, PRESIL_EUNSUPPORTED,
            "a first layer (few channels) with a zero or negative stride along columns: make the input contiguous");
    }
    return PRESIL_OK;
}

/* Subnormals as zero of their sign: the chip compares bounds as they are. */
static uint32_t float_bits(float f) {
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u & 0x7f800000u ? u : u & 0x80000000u;
}

int chip_epilogue_template(chip_problem *p, const presil_epilogue *epilogue, uint32_t out_dtype, bool bias, bool scale,
                           presil_error_buffer *error) {
    presil_desc *d = &p->epilogue;
    bool fp32 = p->floats;
    uint32_t type;
    switch (out_dtype) {
    case PRESIL_INT8: type = PRESIL_DTYPE_INT8; break;
    case PRESIL_BF16: type = PRESIL_DTYPE_BF16; break;
    case PRESIL_FP32: type = PRESIL_DTYPE_FP32; break;
    case PRESIL_FP16: type = PRESIL_DTYPE_FP16; break;
    case PRESIL_INT32:
        if (fp32) return chip_fail(error, PRESIL_EINVAL, "int32 output needs COMPUTE_INT8");
        if (scale || epilogue->clamp || epilogue->residual)
            return chip_fail(error, PRESIL_EUNSUPPORTED,
                             "int32 output is the raw accumulator: no scale, clamp or residual");
        type = PRESIL_DTYPE_RAW32;
        break;
    default:
        return chip_fail(error, PRESIL_EINVAL, "output dtype %u is none of int8, bf16, fp16, fp32, int32", out_dtype);
    }
    if (epilogue->clamp && out_dtype == PRESIL_INT8)
        return chip_fail(error, PRESIL_EUNSUPPORTED,
                         "clamp is for floating-point outputs; int8 outputs use int_lo and int_hi");
    memset(d, 0, sizeof *d);
    presil_epilogue_acc_fp32_set(d, fp32);
    presil_epilogue_bias_en_set(d, bias);
    presil_epilogue_scale_en_set(d, scale);
    presil_epilogue_out_type_set(d, type);
    presil_epilogue_clamp_en_set(d, epilogue->clamp != 0);
    presil_epilogue_clamp_lo_set(d, float_bits(epilogue->clamp_lo));
    presil_epilogue_clamp_hi_set(d, float_bits(epilogue->clamp_hi));
    if (out_dtype == PRESIL_INT8) {
        /* Zero-initialised: no clamp beyond the type's. */
        bool none = epilogue->int_lo == 0 && epilogue->int_hi == 0;
        presil_epilogue_out_zp_set(d, epilogue->out_zero_point);
        presil_epilogue_int_lo_set(d, none ? -128 : epilogue->int_lo);
        presil_epilogue_int_hi_set(d, none ? 127 : epilogue->int_hi);
    }
    p->out_esize = chip_element_bytes(out_dtype);
    p->has_res = epilogue->residual != NULL;
    if (!p->has_res) return PRESIL_OK;
    uint32_t res = epilogue->residual->dtype;
    if (res != PRESIL_INT8 && res != PRESIL_BF16 && res != PRESIL_FP16 && res != PRESIL_FP32)
        return chip_fail(error, PRESIL_EUNSUPPORTED, "residual dtype %u is none of int8, bf16, fp16, fp32", res);
    presil_epilogue_res_en_set(d, 1);
    presil_epilogue_res_type_set(d, res == PRESIL_INT8   ? PRESIL_DTYPE_INT8
                                    : res == PRESIL_BF16 ? PRESIL_DTYPE_BF16
                                    : res == PRESIL_FP16 ? PRESIL_DTYPE_FP16
                                                         : PRESIL_DTYPE_FP32);
    presil_epilogue_res_zp_set(d, epilogue->residual_zero_point);
    presil_epilogue_res_scale_set(d, float_bits(epilogue->residual_scale));
    p->res_esize = chip_element_bytes(res);
    return chip_fields_fit(error);
}
