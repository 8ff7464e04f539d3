// SPDX-License-Identifier: Apache-2.0
// Packed weights: each (weight, bias, scale, geometry, compute type) is packed for the chip once and dropped when any of its storages is written or freed.
#pragma once
#include "runtime/device.h"

#include <ATen/ATen.h>

#include <memory>

namespace presil {

struct WeightRequest {
  at::Tensor weight;         // O, I/groups, KH, KW (transposed: I, O/groups, KH, KW); on the device
  at::Tensor bias;           // O values: floating point, or int32 for int8; may be undefined
  at::Tensor scale;          // O fp32 values; may be undefined
  presil_compute compute = PRESIL_COMPUTE_FP32;
  int64_t groups = 1;
  std::array<int64_t, 2> dilation{1, 1}, input_dilation{1, 1};
  bool transposed = false;   // the kernel of a transposed convolution
  std::array<at::Tensor, 4> norm;  // running mean and variance, weight, bias of a batch-norm in eval mode to fold in; undefined mean: none
  double norm_eps = 0;
};

// Shared: launches that were enqueued with it must finish before the last reference goes; weights_changed and the cache wait for them.
std::shared_ptr<presil_weights> packed_weights(const WeightRequest& request);
void weights_changed(const at::Tensor& written);  // a kernel is about to write this tensor
uint64_t weights_epoch();  // changes whenever packed weights are dropped
void clear_weights_cache();
size_t weights_cache_entries();

}  // namespace presil
