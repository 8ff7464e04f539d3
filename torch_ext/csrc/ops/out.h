// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/ATen.h>
#include <ATen/native/Resize.h>

namespace presil {

// out=: computed aside and copied, so that overlap of out with an operand is harmless.
inline at::Tensor& into(at::Tensor& out, const at::Tensor& result) {
  TORCH_CHECK(out.scalar_type() == result.scalar_type(), "Expected out tensor to have dtype ", result.scalar_type(),
              ", but got ", out.scalar_type(), " instead");
  at::native::resize_output(out, result.sizes());
  return out.copy_(result);
}

}  // namespace presil
