/* SPDX-License-Identifier: Apache-2.0 */
/* twin_dispatch.c - which kernels this CPU can run. */
#include <string.h>

#include "twin_internal.h"

#ifdef PRESIL_TWIN_X86
static int has_avx2(void) { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }

static int has_avx512(void) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vnni");
}
#endif

const twin_kernels *twin_kernels_named(const char *name) {
    if (!strcmp(name, "generic")) return &twin_kernels_generic;
#ifdef PRESIL_TWIN_X86
    if (!strcmp(name, "avx2") && has_avx2()) return &twin_kernels_avx2;
    if (!strcmp(name, "avx512") && has_avx512()) return &twin_kernels_avx512;
#endif
    return NULL;
}

const twin_kernels *twin_kernels_best(void) {
    const twin_kernels *best = twin_kernels_named("avx512");
    if (!best) best = twin_kernels_named("avx2");
    return best ? best : &twin_kernels_generic;
}
