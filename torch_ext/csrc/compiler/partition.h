// SPDX-License-Identifier: Apache-2.0
// A partition of a compiled graph as one launch: operators with fixed addresses and packed weights, recorded once,
// submitted as often as wanted.
#pragma once
#include "ops/conv.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace presil {

class Partition {
 public:
  // only_ask: operators are on meta tensors, and not kept: each raises NotImplementedError with the chip's reason if
  // the chip would not take it.
  explicit Partition(int index, bool only_ask = false);
  ~Partition();
  Partition(const Partition&) = delete;
  Partition& operator=(const Partition&) = delete;

  // Operators, in order. Tensors must be on the device and stay where they are while it is submitted;
  // weights are held, the others are not. x: [N, C, H, W] channels_last; out: [N, O, H', W'] channels_last. `asked`:
  // the weights as they are to be packed. pad: the code of int8 that stands for 0.
  void conv2d(const std::string& label, const at::Tensor& x, const WeightRequest& asked, const ConvGeometry& geometry,
              const Fusion& fusion, uint8_t pad, const at::Tensor& out);
  // a: [B, M, K], b: [B, K, N], out: [B, M, N], of int8 operands int32; one of the two inner strides of b is 1.
  void matmul(const std::string& label, const at::Tensor& a, const at::Tensor& b, const Fusion& fusion,
              const at::Tensor& out);

  // Gradients of a convolution, whose kernel is read where it lies, not packed. grad, x: [N, C, H, W], any strides;
  // residual and input_grad's out: channels_last.
  void input_grad(const std::string& label, const at::Tensor& grad, const at::Tensor& weight, const ConvArguments& conv,
                  const std::optional<at::Tensor>& residual, const at::Tensor& out);
  void weight_grad(const std::string& label, const at::Tensor& grad, const at::Tensor& x, const ConvArguments& conv,
                   const at::Tensor& out);  // out: dense
  void bias_grad(const std::string& label, const at::Tensor& grad, const at::Tensor& out);

  // Weights of coming operators are packed into [address, address + bytes), each at a page, instead of blocks of their
  // own: for programs that are saved.
  void place_weights(uint64_t address, uint64_t bytes);
  uint64_t weights_bytes() const;  // of all so far, each rounded to pages

  // Plans everything and merges it to one launch. Raises NotImplementedError with the chip's reason if an operator
  // can't run on these layouts.
  void finish(const std::string& label);
  // The same for other tensors in place of those that began at `before`, without planning; null: record it.
  std::shared_ptr<Partition> moved(const std::vector<uint64_t>& before, const std::vector<at::Tensor>& now) const;
  void submit();                          // on the current stream
  bool valid() const;                     // false: a weight was written since; record anew
  std::string save(uint64_t base) const;  // the command list as bytes, addresses relative to base (docs/aot.md)
  uint32_t launches() const { return presil_list_launches(list_); }
  size_t operators() const { return operators_; }

 private:
  struct Op {
    std::string label;
    std::function<bool()> enqueue;  // false: the chip can't
  };
  class Session;
  std::shared_ptr<presil_weights> hold(const WeightRequest& request);
  void add(const std::string& label, std::function<bool()> enqueue);

  const int index_;
  const bool only_ask_;
  mutable uint64_t epoch_;  // of the watches, when the held weights were known to be valid
  std::string name_;
  uint64_t place_ = 0, place_end_ = 0;
  std::vector<Op> ops_;  // until finish()
  std::vector<std::shared_ptr<PackedWeights>> held_;
  std::vector<std::pair<uint64_t, uint64_t>> fixed_;  // storages that weights were packed from: first byte, bytes
  at::Tensor one_;                                    // read by the gradients of biases
  size_t operators_ = 0;
  presil_list* list_ = nullptr;
};

}  // namespace presil
