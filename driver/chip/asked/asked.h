/* SPDX-License-Identifier: Apache-2.0 */
/* asked.h - operators become plans: what is asked for is checked and brought to the normal form. */
#ifndef PRESIL_CHIP_ASKED_H
#define PRESIL_CHIP_ASKED_H

#include "plan.h"

int chip_plan_conv2d(const presil_chip *chip, const presil_conv2d_desc *desc, const presil_layout *layout,
                     presil_daddr packed, presil_plan **out, presil_error_buffer *error);
int chip_plan_matmul(const presil_chip *chip, const presil_matmul_desc *desc, presil_plan **out,
                     presil_error_buffer *error);
int chip_plan_weight_grad(const presil_chip *chip, const presil_conv2d_weight_grad_desc *desc, presil_plan **out,
                          presil_error_buffer *error);
int chip_plan_copy(const presil_chip *chip, presil_daddr to, presil_daddr from, uint64_t bytes, presil_plan **out,
                   presil_error_buffer *error);
int chip_plan_nop(const presil_chip *chip, presil_plan **out, presil_error_buffer *error);
/* read_op.c: any of them. */
int chip_plan(const presil_chip *chip, const presil_op *op, presil_plan **out, presil_error_buffer *error);

#endif
