/* SPDX-License-Identifier: Apache-2.0 */
/* Names of engines and opcodes; what the fields of descriptors can't hold. */
#include <stddef.h>
#include "descriptors.h"

static _Thread_local struct {
    const char *field; /* NULL: all fit */
    int64_t value, low, high;
} misfit;

void chip_misfit(const char *field, int64_t value, int64_t low, int64_t high) {
    if (misfit.field) return;
    misfit.field = field;
    misfit.value = value;
    misfit.low = low;
    misfit.high = high;
}

int chip_fields_fit(const presil_error_buffer *error) {
    const char *field = misfit.field;
    if (!field) return PRESIL_OK;
    misfit.field = NULL;
    return chip_fail(
        error, PRESIL_EUNSUPPORTED,
        "the chip's %s holds %lld to %lld, this layout needs %lld: make the tensors contiguous, or smaller", field,
        (long long)misfit.low, (long long)misfit.high, (long long)misfit.value);
}

const char *const chip_engine_names[PRESIL_ENGINES] = {"LOAD", "MATRIX", "EPILOGUE", "STORE", "VECTOR"};

const char *chip_opcode_name(const presil_desc *d) {
    uint32_t op = presil_desc_opcode(d);
    return op == PRESIL_OPCODE_NOP ? "NOP" : op <= PRESIL_ENGINES ? chip_engine_names[op - 1] : "?";
}
