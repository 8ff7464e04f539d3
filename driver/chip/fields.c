/* SPDX-License-Identifier: Apache-2.0 */
/* What the fields of descriptors can't hold. */
#include <stddef.h>
#include "chip.h"

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
