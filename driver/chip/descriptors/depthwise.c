/* SPDX-License-Identifier: Apache-2.0 */
/* What a depthwise MATRIX reads (docs/isa.md section 4). */
#include "descriptors.h"

presil_desc chip_walked(const presil_desc *d) {
    presil_desc w = *d;
    if (!presil_matrix_depthwise(d)) return w;
    const uint32_t step_x = chip_window_step(presil_matrix_sx(d), presil_matrix_dx(d)),
                   step_y = chip_window_step(presil_matrix_sy(d), presil_matrix_dy(d));
    presil_matrix_nx_set(&w, (presil_matrix_nx(d) - 1) * step_x + presil_matrix_kx(d));
    presil_matrix_ny_set(&w, (presil_matrix_ny(d) - 1) * step_y + presil_matrix_ky(d));
    presil_matrix_sx_set(&w, presil_matrix_dx(d)), presil_matrix_sy_set(&w, presil_matrix_dy(d));
    presil_matrix_kx_set(&w, 1), presil_matrix_ky_set(&w, 1);
    return w;
}

uint64_t chip_weight_words(const presil_config *config, const presil_desc *d) {
    const uint64_t positions = (uint64_t)presil_matrix_ncb(d) * presil_matrix_ky(d) * presil_matrix_kx(d);
    return presil_matrix_depthwise(d) ? positions : positions * config->cells;
}

int64_t chip_weight_word(const presil_desc *d, uint64_t n) {
    const int64_t base = presil_matrix_wgt_base(d), columns = presil_matrix_kx(d);
    if (!presil_matrix_depthwise(d)) return base + (int64_t)n;
    return base + (int64_t)n / columns * presil_matrix_wgt_y_stride(d) +
           (int64_t)n % columns * presil_matrix_wgt_x_stride(d);
}
