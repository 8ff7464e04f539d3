// SPDX-License-Identifier: Apache-2.0
// Transposed convolutions as an operator of their own, for chips that have it: the kernel as it lies. Other chips are
// asked for a convolution of the dilated input.
#include "ops/conv.h"
#include "ops/question.h"

namespace presil {

bool TransposedConv::possible(int index) const {
  return chip_has(index, PRESIL_OP_CONV_TRANSPOSE) && input.scalar_type() == weight.scalar_type() &&
         !(bias.defined() && fusion.residual.defined());
}

// The way to the chip: Question::ask or Question::enqueue.
template <typename Way> static bool describe_and(const TransposedConv& c, std::string* reason, Way&& way) {
  static constexpr int kPixels[] = {0, 2, 3, 1};  // also O, I, rows, columns with the inputs last
  const ConvGeometry& g = c.geometry;
  std::array<int64_t, 2> padding{};
  for (int i = 0; i < 2; i++) padding[i] = g.dilation[i] * (c.weight.size(2 + i) - 1) - g.padding[i];
  Question question(PRESIL_OP_CONV_TRANSPOSE, c.label);
  question.compute(c.compute);
  question.input("input", c.input, kPixels);
  question.input("weight", c.weight, kPixels);
  question.integers("stride", g.input_dilation, 1);
  question.integers("padding", padding, 0);
  question.integers("dilation", g.dilation, 1);
  question.integers("groups", g.groups, 1);
  if (c.bias.defined()) question.add(c.bias.view({1, -1, 1, 1}).expand(c.output.sizes()), kPixels);
  if (c.fusion.residual.defined()) question.add(c.fusion.residual.expand(c.output.sizes()), kPixels);
  if (c.fusion.clamp) question.clamp(c.fusion.low, c.fusion.high);
  return way(question, c.output, reason, kPixels);
}

bool TransposedConv::ask(std::string* reason) const {
  return describe_and(*this, reason, [](Question& q, auto&&... rest) { return q.ask(rest...); });
}
bool TransposedConv::enqueue(std::string* reason) const {
  return describe_and(*this, reason, [](Question& q, auto&&... rest) { return q.enqueue(rest...); });
}

}  // namespace presil
