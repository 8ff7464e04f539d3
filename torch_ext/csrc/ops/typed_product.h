// SPDX-License-Identifier: Apache-2.0
// Products whose operands lie in memory as they are given, for chips that have their dtype.
#pragma once
#include <ATen/core/Tensor.h>

#include <string>

namespace presil {

// a: [B, M, K], b: [B, K, N] (+ residual, of out's shape) -> out [B, M, N], all of one dtype: float16 or integers.
// False: the chip refuses; *reason says why.
bool product_as_it_is(const char* label, const at::Tensor& a, const at::Tensor& b, const at::Tensor& residual,
                      const at::Tensor& out, std::string* reason);

}  // namespace presil
