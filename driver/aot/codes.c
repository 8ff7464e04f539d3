/* SPDX-License-Identifier: Apache-2.0 */
/* Real values and codes of int8, as torch_presil.quantize (or, rounded first, PT2E) has them: each step is rounded to
 * float32, so this file is compiled without contraction to fused multiply-adds. */
#include <math.h>
#include <stddef.h>
#include "program.h"

int program_has_codes(const program_tensor *t) { return t->factor > 0.0f; }

void program_codes_of(const program_tensor *t, const float *values, int8_t *codes) {
    const uint64_t n = program_elements(t);
    for (uint64_t i = 0; i < n; i++) {
        const float product = values[i] * t->factor;
        const float zero_point = (float)t->zero_point;
        const float code = t->rounds_first ? rintf(product) + zero_point : rintf(product + zero_point);
        codes[i] = isnan(code) ? 0 : (int8_t)(code < -128.0f ? -128.0f : code > 127.0f ? 127.0f : code);
    }
}

void program_values_of(const program_tensor *t, const int8_t *codes, float *values) {
    const uint64_t n = program_elements(t);
    for (uint64_t i = 0; i < n; i++) values[i] = (float)(codes[i] - t->zero_point) * t->factor;
}
