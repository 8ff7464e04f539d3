// SPDX-License-Identifier: Apache-2.0
// Any operator of presil_op.h on its way to the chip, which may refuse it.
#pragma once
#include "ops/chip_ops.h"

#include <ATen/core/Tensor.h>

#include <array>
#include <string>

namespace presil {

// Whether the chip has operators of this kind at all (presil_op_kind): one look at a number.
bool chip_has(int index, uint32_t kind);

// Operands and attributes by name, then enqueue(). Names are literals.
class Question {
 public:
  // label: of the launch, a literal.
  Question(uint32_t kind, const char* label) : kind_(kind), label_(label) {}

  // order: of the dimensions as the operator has them; empty: the tensor's own.
  void input(const char* name, const at::Tensor& t, c10::ArrayRef<int> order = {});
  // Of int4, two in a byte, the first below, from the first byte of `bytes` on; strides in elements.
  void input_int4(const char* name, const at::Tensor& bytes, c10::IntArrayRef shape, c10::IntArrayRef stride);
  void integers(const char* name, c10::IntArrayRef values);  // not given where all are `otherwise`, the default
  void integers(const char* name, c10::IntArrayRef values, int64_t otherwise);
  void real(const char* name, double value);
  void text(const char* name, const char* value);
  void also(const char* name, const at::Tensor& t, c10::ArrayRef<int> order = {});  // another output than "output"
  void compute(uint32_t how) { compute_ = how; }                                    // presil_compute
  // Steps behind the operator, in the order of the calls: + t, of the output's shape; between two bounds.
  void add(const at::Tensor& t, c10::ArrayRef<int> order = {});
  void clamp(double low, double high);
  void scale(const at::Tensor& t);  // times t, an element for each of the output's last dimension
  void quantize(int32_t zero_point, int32_t low, int32_t high);

  // Launches it: true. False: *reason says why not. A chip that refuses what it was asked wherever the operands lie is
  // not asked again.
  bool enqueue(const at::Tensor& output, std::string* reason, c10::ArrayRef<int> order = {});
  // Whether the chip would take it, wherever the operands lie.
  bool ask(const at::Tensor& output, std::string* reason, c10::ArrayRef<int> order = {});

 private:
  bool finish(const at::Tensor& output, std::string* reason, c10::ArrayRef<int> order);
  presil_op as_op() const;
  bool describe(presil_operand& to, const char* name, const at::Tensor& t, c10::ArrayRef<int> order, bool written);
  std::string key() const;

  const uint32_t kind_;
  const char* const label_;
  std::array<presil_operand, PRESIL_OP_INPUTS> inputs_{};
  std::array<at::Tensor, PRESIL_OP_INPUTS> tensors_;
  std::array<presil_operand, PRESIL_OP_OUTPUTS> outputs_{};  // the first is "output"
  std::array<at::Tensor, PRESIL_OP_OUTPUTS> written_;
  std::array<presil_attribute, 8> attributes_{};
  std::array<int64_t, 32> integers_{};
  std::array<presil_step, 4> steps_{};
  std::array<double, 2> reals_{};
  uint32_t input_count_ = 0, attribute_count_ = 0, integer_count_ = 0, step_count_ = 0, compute_ = 0, output_count_ = 1,
           scale_count_ = 0, real_count_ = 0;
  const char* wrong_ = nullptr;  // why it can't be asked
};

}  // namespace presil
