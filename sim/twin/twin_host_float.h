/* SPDX-License-Identifier: Apache-2.0 */
/* twin_host_float.h - the host's float mode while the twin computes, whatever the caller has set. */
#ifndef PRESIL_TWIN_HOST_FLOAT_H
#define PRESIL_TWIN_HOST_FLOAT_H
#ifdef PRESIL_TWIN_X86
#include <xmmintrin.h>
/* Round to nearest even, no traps; flush: results below 2^-126 (after rounding, as numerics.md clause 1) and operands
 * with exponent field 0 are zero. */
static inline unsigned twin_float_enter(int flush) {
    unsigned old = _mm_getcsr();
    _mm_setcsr(flush ? 0x9fc0u : 0x1f80u);
    return old;
}
static inline void twin_float_leave(unsigned old) { _mm_setcsr(old); }
#else
static inline unsigned twin_float_enter(int flush) { return (unsigned)flush; }
static inline void twin_float_leave(unsigned old) { (void)old; }
#endif
#endif
