/* SPDX-License-Identifier: Apache-2.0 */
/* What the Verilator runtime is compiled with instead of printf; included by force (-include), so it stays free of C++.
 */
#ifndef PRESIL_SIM_HOOKS_H
#define PRESIL_SIM_HOOKS_H
#ifdef __cplusplus
extern "C"
#endif
    int presil_sim_printf(const char* format, ...) __attribute__((format(printf, 1, 2)));
#define VL_PRINTF presil_sim_printf
#endif
