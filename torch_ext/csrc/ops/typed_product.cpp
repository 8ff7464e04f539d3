// SPDX-License-Identifier: Apache-2.0
// Products of dtypes that a chip may have beside int8, bfloat16 and float32: float16 as it lies, int16, float8 with
// scales (_scaled_mm), int4 (presil::linear_int4). What it refuses is computed as before: widened, or by the host.
#include "ops/ask_first.h"
#include "ops/typed_product.h"

#include <torch/library.h>

namespace presil {

bool product_as_it_is(const char* label, const at::Tensor& a, const at::Tensor& b, const at::Tensor& residual,
                      const at::Tensor& out, std::string* reason) {
  if (!chip_has(out.device().index(), PRESIL_OP_MATMUL)) return false;
  const bool half = a.scalar_type() == c10::kHalf;
  Question question(PRESIL_OP_MATMUL, label);
  question.compute(half ? PRESIL_COMPUTE_FP16 : PRESIL_COMPUTE_INT8);
  question.input("a", a);
  question.input("b", b);
  if (residual.defined()) question.add(residual);
  return question.enqueue(out, reason);
}

namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

bool is_float8(const Tensor& t) {
  return t.scalar_type() == c10::kFloat8_e4m3fn || t.scalar_type() == c10::kFloat8_e5m2;
}

// A factor of all results, or of each column.
bool scales_columns(const Tensor& scale, int64_t columns) {
  return scale.scalar_type() == c10::kFloat &&
         (scale.numel() == 1 || (scale.numel() == columns && scale.size(-1) == columns));
}

// (self, mat2, scale_a, scale_b, bias, scale_result, out_dtype, use_fast_accum[, out])
template <bool Out> bool scaled_product(const c10::IValue* a, Results& results, std::string* reason) {
  if (!on_device(a[0], PRESIL_OP_MATMUL)) return false;
  const Tensor &x = a[0].toTensor(), &y = a[1].toTensor(), &scale_x = a[2].toTensor(), &scale_y = a[3].toTensor();
  const auto bias = a[4].toOptional<Tensor>();
  const bool products = x.dim() == 2 && y.dim() == 2 && is_float8(x) && is_float8(y) && x.size(1) == y.size(0);
  if (!products) return false;  // raises, or is another device's
  const int64_t columns = y.size(1);
  const auto type = a[6].isNone() ? x.scalar_type() : a[6].toScalarType();
  if (!a[5].isNone() || scale_x.numel() != 1 || !scales_columns(scale_x, 1) || !scales_columns(scale_y, columns)) {
    *reason = "a scale of the result, of rows, or that is no float32";
    return false;
  }
  const std::array<int64_t, 2> shape{x.size(0), columns};
  if (Out && !can_hold(a[8].toTensor(), shape, type, x, y, reason)) return false;
  if (bias && bias->defined() && (bias->dim() != 1 || bias->numel() != columns)) return false;
  const Tensor out = Out ? a[8].toTensor() : at::empty(shape, x.options().dtype(type));
  Question question(PRESIL_OP_MATMUL, "_scaled_mm");
  question.compute(PRESIL_COMPUTE_FP32);
  question.input("a", x.unsqueeze(0));
  question.input("b", y.unsqueeze(0));
  question.scale(scale_x.reshape({-1}).expand({columns}));
  question.scale(scale_y.reshape({-1}).expand({columns}));
  if (bias && bias->defined()) question.add(bias->expand({1, shape[0], columns}));
  if (!question.enqueue(out.unsqueeze(0), reason)) return false;
  results.emplace_back(out);
  return true;
}

// Codes of int4, two in a byte, the first below.
Tensor unpacked(const Tensor& bytes) {
  const Tensor low = at::bitwise_and(bytes, 15), high = at::bitwise_right_shift(bytes, 4);
  const Tensor codes = at::stack({low, high}, -1).flatten(-2).to(c10::kChar);
  return at::where(codes > 7, codes - 16, codes);
}

Tensor linear_int4_on_host(const Tensor& x, const Tensor& weight, const Tensor& scale, const OptionalTensor& bias) {
  Tensor y = at::matmul(x.to(c10::kDouble), unpacked(weight).to(c10::kDouble).t()) * scale.to(c10::kDouble);
  if (bias && bias->defined()) y = y + *bias;
  return y.to(c10::kFloat);
}

void check_int4(const Tensor& x, const Tensor& weight, const Tensor& scale, const OptionalTensor& bias) {
  TORCH_CHECK_TYPE(weight.scalar_type() == c10::kByte && weight.dim() == 2,
                   "presil::linear_int4: weight: uint8 [outputs, inputs / 2] expected, two codes a byte; got ",
                   weight.scalar_type(), " ", weight.sizes());
  TORCH_CHECK_VALUE(x.dim() >= 1 && x.size(-1) == 2 * weight.size(1), "presil::linear_int4: input of ", x.sizes(),
                    " for a weight of ", 2 * weight.size(1), " inputs");
  TORCH_CHECK_TYPE(x.scalar_type() == c10::kChar || at::isFloatingType(x.scalar_type()),
                   "presil::linear_int4: input: int8 or a float expected, got ", x.scalar_type());
  TORCH_CHECK_VALUE(scale.scalar_type() == c10::kFloat && (scale.numel() == 1 || scale.numel() == weight.size(0)) &&
                        scale.dim() <= 1,
                    "presil::linear_int4: scale: one float32, or one for each of ", weight.size(0),
                    " outputs expected, got ", scale.scalar_type(), " ", scale.sizes());
  TORCH_CHECK_VALUE(!bias || !bias->defined() ||
                        (bias->scalar_type() == c10::kFloat && bias->dim() == 1 && bias->numel() == weight.size(0)),
                    "presil::linear_int4: bias: a float32 for each of ", weight.size(0), " outputs expected");
}

Tensor linear_int4(const Tensor& x, const Tensor& weight, const Tensor& scale, const OptionalTensor& bias) {
  check_int4(x, weight, scale, bias);
  const int index = x.device().index();
  const int64_t outputs = weight.size(0);
  auto shape = x.sizes().vec();
  shape.back() = outputs;
  std::string reason = "no kernel on the chip";
  if (chip_has(index, PRESIL_OP_MATMUL)) {
    const Tensor out = at::empty(shape, x.options().dtype(c10::kFloat));
    const Tensor rows = x.reshape({1, -1, x.size(-1)}), packed = weight.contiguous();
    Question question(PRESIL_OP_MATMUL, "linear_int4");
    question.compute(x.scalar_type() == c10::kChar ? PRESIL_COMPUTE_INT8 : PRESIL_COMPUTE_FP32);
    question.input("a", rows);
    question.input_int4("b", packed, {1, x.size(-1), outputs}, {0, 1, x.size(-1)});
    question.scale(scale.reshape({-1}).expand({outputs}));
    const Tensor pixels = out.view({1, -1, outputs});
    if (bias && bias->defined()) question.add(bias->expand(pixels.sizes()));
    if (question.enqueue(pixels, &reason)) return out;
  }
  return on_host("presil::linear_int4", reason, index, [&](HostViews& v) {
    const auto given = bias && bias->defined() ? OptionalTensor(v.to_host(*bias)) : std::nullopt;
    return linear_int4_on_host(v.to_host(x), v.to_host(weight), v.to_host(scale), given);
  });
}

Tensor linear_int4_cpu(const Tensor& x, const Tensor& weight, const Tensor& scale, const OptionalTensor& bias) {
  check_int4(x, weight, scale, bias);
  return linear_int4_on_host(x, weight, scale, bias);
}

const bool products_set = [] {
  set_chip_kernel("aten::_scaled_mm", scaled_product<false>);
  set_chip_kernel("aten::_scaled_mm.out", scaled_product<true>);
  return true;
}();

TORCH_LIBRARY_FRAGMENT(presil, m) {
  m.def("linear_int4(Tensor input, Tensor weight, Tensor scale, Tensor? bias=None) -> Tensor");
}
TORCH_LIBRARY_IMPL(presil, PrivateUse1, m) { m.impl("linear_int4", linear_int4); }
TORCH_LIBRARY_IMPL(presil, CPU, m) { m.impl("linear_int4", linear_int4_cpu); }

}  // namespace
}  // namespace presil
