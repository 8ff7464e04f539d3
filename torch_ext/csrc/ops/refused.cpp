// SPDX-License-Identifier: Apache-2.0
// Operators and kinds of tensors that presil doesn't have: a text that says what to do instead of PyTorch's list of
// dispatch keys.
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <string>
#include <unordered_map>

namespace presil {
namespace {

struct Refusal {
  const char* name;
  const char* text;
};
constexpr Refusal kRefusals[] = {
#include "refused_operators.inc"
};

void refuse(const c10::OperatorHandle& op, torch::jit::Stack*) {
  static const auto* texts = [] {
    auto* map = new std::unordered_map<std::string, const char*>;
    for (const auto& r : kRefusals) map->emplace(std::string("aten::") + r.name, r.text);
    return map;
  }();
  const std::string name = c10::toString(op.operator_name());
  TORCH_CHECK_NOT_IMPLEMENTED(false, "presil: ", name, " is not available on this device. ", texts->at(name));
}

// Any operator on a tensor of a layout that can't exist here: the first of them is the one that would make it.
template <typename Kind> void refuse_layout(const c10::OperatorHandle& op, torch::jit::Stack*) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      false, "presil: ", c10::toString(op.operator_name()), " of a ", Kind::name,
      " tensor is not available on this device, which holds strided tensors. Use the CPU for it, or ", Kind::instead,
      ".");
}
struct Sparse {
  static constexpr const char *name = "sparse", *instead = "a dense tensor: x.to_dense().to('presil')";
};
struct Quantized {
  static constexpr const char *name = "quantized",
                              *instead = "plain int8 tensors (torch_presil.quantize), or x.dequantize().to('presil')";
};
struct Nested {
  static constexpr const char *name = "nested", *instead = "padded tensors, or torch.nested with layout=torch.jagged";
};

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  for (const auto& r : kRefusals) m.impl(r.name, torch::CppFunction::makeFromBoxedFunction<&refuse>());
}
TORCH_LIBRARY_IMPL(_, SparsePrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&refuse_layout<Sparse>>());
}
TORCH_LIBRARY_IMPL(_, SparseCsrPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&refuse_layout<Sparse>>());
}
TORCH_LIBRARY_IMPL(_, QuantizedPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&refuse_layout<Quantized>>());
}
TORCH_LIBRARY_IMPL(_, NestedTensorPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&refuse_layout<Nested>>());
}

}  // namespace
}  // namespace presil
