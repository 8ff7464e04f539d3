// SPDX-License-Identifier: Apache-2.0
// Included by force before Verilator's writer of waveforms: what it finds wrong (a disk that is full, say) would end
// the process.
#pragma once
#include "fstcpp/fstcpp_assertion.h"

namespace presil {
[[noreturn]] void trace_failed(const char* what);  // throws Stopped
}

#undef FST_CHECK
#undef FST_CHECK_EQ
#undef FST_CHECK_NE
#undef FST_CHECK_GT
#undef FST_CHECK_GE
#undef FST_CHECK_LT
#undef FST_CHECK_LE
#define FST_CHECK(a)                                                                                                   \
  if (!(a)) presil::trace_failed(#a)
#define FST_CHECK_EQ(a, b) FST_CHECK((a) == (b))
#define FST_CHECK_NE(a, b) FST_CHECK((a) != (b))
#define FST_CHECK_GT(a, b) FST_CHECK((a) > (b))
#define FST_CHECK_GE(a, b) FST_CHECK((a) >= (b))
#define FST_CHECK_LT(a, b) FST_CHECK((a) < (b))
#define FST_CHECK_LE(a, b) FST_CHECK((a) <= (b))
