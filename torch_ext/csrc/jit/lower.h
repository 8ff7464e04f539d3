// SPDX-License-Identifier: Apache-2.0
// torch::jit modules made ready for the chip: frozen, batch-norm folded, layers fused; and moved to a device with their
// constants.
#pragma once
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/ir.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace presil {

// A frozen copy on the CPU with the given methods. dtype: of floating-point constants, none keeps them. Raises on a
// module whose result depends on training mode and that is in it.
torch::jit::Module lower_module(const torch::jit::Module& module, const std::vector<std::string>& methods,
                                std::optional<c10::ScalarType> dtype);

// f of every tensor, in lists, tuples and dictionaries, too.
using TensorFunction = std::function<at::Tensor(const at::Tensor&)>;
c10::IValue map_value(const c10::IValue& value, const TensorFunction& f);

// Convolution or linear layer, residual add and activation become one presil::*_layer node. Weights must be constants.
void fuse_layers(torch::jit::Block* block);

// Tensor constants to the device; tensors that the graph makes on the CPU (a trace writes down the device of its day)
// are made there.
void move_constants(torch::jit::Block* block, c10::Device device);

}  // namespace presil
