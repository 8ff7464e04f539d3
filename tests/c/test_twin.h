/* SPDX-License-Identifier: Apache-2.0 */
/* test_twin.h - the test functions of the twin, by file. */
#ifndef TEST_TWIN_H
#define TEST_TWIN_H
/* test_twin_kernels.c */
void test_kernels_agree(void **state);
void test_threads_agree(void **state);
void test_splits_agree(void **state);
void test_flush_border(void **state);
/* test_twin_depthwise.c */
void test_depthwise_is_plain_loops(void **state);
void test_depthwise_fields(void **state);
void test_depthwise_range(void **state);
void test_depthwise_specials(void **state);
/* test_twin_numerics.c: the worked examples of docs/numerics.md */
void test_formats(void **state);
void test_operations(void **state);
void test_split(void **state);
void test_dot_product(void **state);
void test_dot_product_specials(void **state);
void test_fp16_conversion(void **state);
void test_dot_product_fp16(void **state);
void test_float_mode_of_caller(void **state);
#endif
