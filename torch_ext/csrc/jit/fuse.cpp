// SPDX-License-Identifier: Apache-2.0
#include "jit/lower.h"
#include "ops/clamps.h"

#include <ATen/core/Tensor.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/scope.h>

#include <algorithm>

namespace presil {
namespace {

using torch::jit::Block;
using torch::jit::Graph;
using torch::jit::Node;
using torch::jit::Value;
using Symbol = c10::Symbol;

const Symbol kConv2d = Symbol::fromQualString("aten::conv2d"),
             kConvolution = Symbol::fromQualString("aten::_convolution"),
             kLinear = Symbol::fromQualString("aten::linear");

bool constant_tensor(Value* v, int64_t dim) {
  const auto value = torch::jit::toIValue(v);
  return value && value->isTensor() && value->toTensor().dim() == dim;
}
bool constant_pair(Value* v) {
  const auto value = torch::jit::toIValue(v);
  return value && value->isIntList() && value->toIntVector().size() == 2;
}

// What a layer with constant weights and geometry begins with as presil::conv2d_layer or linear_layer; empty: another
// node. padding="same" stays a convolution.
std::vector<Value*> layer_inputs(Node* node) {
  const bool linear = node->kind() == kLinear, traced = node->kind() == kConvolution;
  if (!linear && !traced && node->kind() != kConv2d) return {};
  if (!constant_tensor(node->input(1), linear ? 2 : 4)) return {};
  if (!constant_tensor(node->input(2), 1) && !node->input(2)->mustBeNone()) return {};
  std::vector<Value*> inputs(node->inputs().begin(), node->inputs().begin() + (linear ? 3 : 6));
  if (linear) return inputs;
  if (traced && torch::jit::toIValue(node->input(6)) != c10::IValue(false)) return {};  // transposed, or unknown
  inputs.push_back(node->input(traced ? 8 : 6));
  const bool known =
      std::all_of(inputs.begin() + 3, inputs.end() - 1, constant_pair) && torch::jit::toIValue(inputs.back());
  return known ? inputs : std::vector<Value*>();
}

// What compiler/rules/clamp.py reads of a node; nullptr: it clamps by no numbers, or by others than an activation's.
const char* activation_of(Node* node) {
  const auto* schema = node->maybeSchema();
  auto bounds = clamp_named(node->kind().toUnqualString());
  if (!bounds || !schema || !node->kind().is_aten()) return nullptr;
  for (size_t i = 1; i < node->inputs().size(); i++) {
    const auto value = torch::jit::toIValue(node->input(i));
    if (!value || !(value->isNone() || value->isDouble() || value->isInt())) return nullptr;
    const bool low = schema->arguments()[i].name().rfind("min", 0) == 0;
    if (!value->isNone()) (low ? bounds->low : bounds->high) = value->toScalar().toDouble();
  }
  return activation_of(*bounds);
}

Node* only_user(Value* v, Block* block) {
  if (v->uses().size() != 1) return nullptr;
  Node* user = v->uses()[0].user;
  return user->owningBlock() == block ? user : nullptr;
}

// Where the layer stands in the model, such as "layer1.0.conv1": the name in the driver's reports.
std::string label_of(Node* node, const std::string& otherwise) {
  std::string label;
  if (const auto stack = node->callstack())
    for (const auto& entry : (*stack)->vec())
      if (const auto& info = std::get<2>(entry)) {
        const std::string name = info->instance_name();
        if (name.empty() || name == "self" || name == "SELF") continue;
        label += (label.empty() ? "" : ".") + name;
      }
  return label.empty() ? otherwise : label;
}

// inputs: as layer_inputs() gave them.
Node* write(Node* layer, std::vector<Value*> inputs, Value* residual, const char* activation) {
  Graph* graph = layer->owningGraph();
  const std::string name = layer->kind() == kLinear ? "linear" : "conv2d";
  inputs.push_back(residual ? residual : graph->insertConstant(c10::IValue()));
  inputs.push_back(graph->insertConstant(std::string(activation)));
  inputs.push_back(graph->insertConstant(label_of(layer, name)));
  Node* fused = graph->insertNode(graph->create(Symbol::fromQualString("presil::" + name + "_layer"), inputs));
  fused->copyMetadata(layer);
  return fused;
}

}  // namespace

void fuse_layers(Block* block) {
  const std::vector<Node*> nodes(block->nodes().begin(), block->nodes().end());
  for (Node* node : nodes) {
    for (Block* inner : node->blocks()) fuse_layers(inner);
    const auto inputs = layer_inputs(node);
    if (inputs.empty()) continue;
    std::vector<Node*> chain{node};
    Value* residual = nullptr;
    const char* activation = "none";
    Node* user = only_user(node->output(), block);
    // As compiler/rules/residual.py has it; the layer looks at the shapes when it runs.
    if (user && user->matches("aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor") &&
        torch::jit::constant_as<at::Scalar>(user->input(2)).value_or(0).equal(1)) {
      residual = user->input(0) == node->output() ? user->input(1) : user->input(0);
      chain.push_back(user);
      user = only_user(user->output(), block);
    }
    if (const char* found = user ? activation_of(user) : nullptr) {
      activation = found;
      chain.push_back(user);
    }
    torch::jit::WithInsertPoint here(chain.back());
    Node* fused = write(node, inputs, residual, activation);
    fused->output()->copyMetadata(chain.back()->output());
    chain.back()->output()->replaceAllUsesWith(fused->output());
    for (auto it = chain.rbegin(); it != chain.rend(); ++it) (*it)->destroy();
  }
}

}  // namespace presil
