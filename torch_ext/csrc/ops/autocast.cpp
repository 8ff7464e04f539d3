// SPDX-License-Identifier: Apache-2.0
// Automatic mixed precision for `torch.autocast("presil")`: PyTorch's own lists for accelerators. Matrix products and
// convolutions compute in the lower precision, which is the chip's fast path; what loses too much there computes in
// float32; everything else takes its operands' types.
#include <ATen/autocast_mode.h>
#include <torch/library.h>

namespace presil {
namespace {

using at::IntArrayRef;
using at::Scalar;
using at::ScalarType;
using at::Tensor;

Tensor refuse_binary_cross_entropy(const Tensor&, const Tensor&, const std::optional<Tensor>&, int64_t) {
  TORCH_CHECK(false, "binary_cross_entropy of a sigmoid loses its gradient in bfloat16 and float16, so it is refused "
                     "under torch.autocast(\"presil\"). Use "
                     "torch.nn.functional.binary_cross_entropy_with_logits (BCEWithLogitsLoss), which is safe there, "
                     "or disable autocast around the loss.");
}

TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) { m.fallback(torch::CppFunction::makeFallthrough()); }

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
#define LOWER_PRECISION(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
#define FP32(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
#define FP32_SET_OPT_DTYPE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
#define OTHER_SIGNATURE(...) KERNEL_DIFFERENT_REDISPATCH_SIGNATURE_PRIVATEUSEONE(__VA_ARGS__)
#define PROMOTE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)
  AT_FORALL_LOWER_PRECISION_FP(LOWER_PRECISION)
  AT_FORALL_FP32(FP32)
  AT_FORALL_FP32_SET_OPT_DTYPE(FP32_SET_OPT_DTYPE)
  AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(OTHER_SIGNATURE)
  AT_FORALL_PROMOTE(PROMOTE)
  // Joining tensors of mixed types promotes; they take lists, for which PyTorch has no macro entry.
  KERNEL_PRIVATEUSEONE(stack, promote)
  KERNEL_PRIVATEUSEONE(cat, promote)
  m.impl("binary_cross_entropy", refuse_binary_cross_entropy);
}

}  // namespace
}  // namespace presil
