/* SPDX-License-Identifier: Apache-2.0 */
/* Elements in memory and their values. */
#include "job.h"

#include <math.h>

typedef struct {
    uint8_t bits, exponent, fraction; /* exponent 0: integer */
    bool is_signed, has_infinity;
} format;

static const format formats[] = {[PRESIL_INT8] = {8, 0, 0, true, false},     [PRESIL_BF16] = {16, 8, 7, true, true},
                                 [PRESIL_FP32] = {32, 8, 23, true, true},    [PRESIL_INT32] = {32, 0, 0, true, false},
                                 [PRESIL_UINT8] = {8, 0, 0, false, false},   [PRESIL_INT16] = {16, 0, 0, true, false},
                                 [PRESIL_FP16] = {16, 5, 10, true, true},    [PRESIL_INT4] = {4, 0, 0, true, false},
                                 [PRESIL_FP8_E4M3] = {8, 4, 3, true, false}, [PRESIL_FP8_E5M2] = {8, 5, 2, true, true},
                                 [PRESIL_INT64] = {64, 0, 0, true, false}};

static int bias_of(const format *f) { return (1 << (f->exponent - 1)) - 1; }

int dtype_bits(uint32_t dtype) { return formats[dtype].bits; }
bool dtype_is_integer(uint32_t dtype) { return formats[dtype].exponent == 0; }
int dtype_digits(uint32_t dtype) { return formats[dtype].fraction + 1; }
double dtype_smallest(uint32_t dtype) { return ldexp(1, 1 - bias_of(&formats[dtype])); }
int64_t dtype_low(uint32_t dtype) {
    return formats[dtype].is_signed ? (int64_t)(UINT64_MAX << (formats[dtype].bits - 1)) : 0;
}
int64_t dtype_high(uint32_t dtype) {
    return (int64_t)(UINT64_MAX >> (64 - formats[dtype].bits + (formats[dtype].is_signed ? 1 : 0)));
}

/* Two elements of INT4 share a byte, the first is below; number may be negative. */
uint64_t load_bits(const void *base, int64_t number, uint32_t dtype) {
    const uint8_t *bytes = base;
    if (dtype == PRESIL_INT4) {
        const int64_t odd = number & 1;
        return (uint64_t)(bytes[(number - odd) / 2] >> (4 * odd) & 15);
    }
    uint64_t value = 0;
    const int size = formats[dtype].bits / 8;
    for (int i = 0; i < size; i++) value |= (uint64_t)bytes[number * size + i] << (8 * i);
    return value;
}

void store_bits(void *base, int64_t number, uint32_t dtype, uint64_t bits) {
    uint8_t *bytes = base;
    if (dtype == PRESIL_INT4) {
        const int64_t odd = number & 1;
        uint8_t *at = &bytes[(number - odd) / 2];
        *at = (uint8_t)((*at & (odd ? 0x0f : 0xf0)) | (bits & 15) << (4 * odd));
        return;
    }
    const int size = formats[dtype].bits / 8;
    for (int i = 0; i < size; i++) bytes[number * size + i] = (uint8_t)(bits >> (8 * i));
}

int64_t integer_of(uint64_t bits, uint32_t dtype) {
    const int free_bits = 64 - formats[dtype].bits;
    return formats[dtype].is_signed ? (int64_t)(bits << free_bits) >> free_bits : (int64_t)bits;
}

double float_of(uint64_t bits, uint32_t dtype) {
    const format *f = &formats[dtype];
    const uint64_t fraction = bits & ((1ull << f->fraction) - 1), most = (1ull << f->exponent) - 1;
    const uint64_t exponent = bits >> f->fraction & most;
    const double sign = bits >> (f->bits - 1) & 1 ? -1 : 1;
    if (exponent == most && f->has_infinity) return fraction ? NAN : sign * INFINITY;
    if (exponent == most && fraction == (1ull << f->fraction) - 1) return NAN; /* E4M3's only one */
    const double significand = (double)fraction + (exponent ? ldexp(1, f->fraction) : 0);
    return sign * ldexp(significand, (int)(exponent ? exponent : 1) - bias_of(f) - f->fraction);
}

/* rint() rounds ties to even: the mode of this library's callers is nobody's to change. */
uint64_t bits_of_float(double value, uint32_t dtype) {
    const format *f = &formats[dtype];
    const uint64_t most = (1ull << f->exponent) - 1, quiet = 1ull << (f->fraction - 1);
    const uint64_t sign = signbit(value) ? 1ull << (f->bits - 1) : 0;
    const uint64_t nan = f->has_infinity ? most << f->fraction | quiet : (most << f->fraction | ((2 * quiet) - 1));
    if (isnan(value)) return nan;
    const uint64_t infinity = f->has_infinity ? sign | most << f->fraction : sign | nan;
    if (isinf(value)) return infinity;
    if (value == 0) return sign;
    int exponent = ilogb(value); /* 2^exponent <= |value| */
    const int lowest = 1 - bias_of(f);
    if (exponent < lowest) exponent = lowest;
    const double rounded = rint(ldexp(fabs(value), f->fraction - exponent)); /* a significand, or 2^(fraction + 1) */
    /* A significand without its leading one is that of a subnormal number; one too long carries into the exponent. */
    const uint64_t bits = ((uint64_t)(exponent - lowest) << f->fraction) + (uint64_t)rounded;
    return bits >= (f->has_infinity ? most << f->fraction : nan) ? infinity : sign | bits;
}

double round_to_bf16(double value) { return float_of(bits_of_float(value, PRESIL_BF16), PRESIL_BF16); }
