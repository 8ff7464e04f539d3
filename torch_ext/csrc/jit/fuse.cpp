// SPDX-License-Identifier: Apache-2.0
#include "jit/lower.h"

#include <ATen/core/Tensor.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/scope.h>

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
std::optional<std::vector<int64_t>> pair_of(Value* v) {
  const auto value = torch::jit::toIValue(v);
  if (!value || !value->isIntList()) return std::nullopt;
  auto ints = value->toIntVector();
  if (ints.size() == 1) ints.push_back(ints[0]);
  return ints.size() == 2 ? std::optional(ints) : std::nullopt;
}

struct Layer {
  bool linear = false;
  std::vector<int64_t> stride, padding, dilation;
  int64_t groups = 1;
};

// None: a node that is not a layer with constant weights and geometry.
std::optional<Layer> layer_of(Node* node) {
  Layer layer;
  layer.linear = node->kind() == kLinear;
  if (!layer.linear && node->kind() != kConv2d && node->kind() != kConvolution) return std::nullopt;
  if (!constant_tensor(node->input(1), layer.linear ? 2 : 4)) return std::nullopt;
  if (!constant_tensor(node->input(2), 1) && !node->input(2)->mustBeNone()) return std::nullopt;
  if (layer.linear) return layer;
  const bool traced = node->kind() == kConvolution;
  if (traced && torch::jit::toIValue(node->input(6)) != c10::IValue(false))
    return std::nullopt;  // transposed, or unknown
  const auto stride = pair_of(node->input(3)), padding = pair_of(node->input(4)), dilation = pair_of(node->input(5));
  const auto groups = torch::jit::toIValue(node->input(traced ? 8 : 6));
  if (!stride || !padding || !dilation || !groups || !groups->isInt())
    return std::nullopt;  // padding="same" stays a convolution
  layer.stride = *stride;
  layer.padding = *padding;
  layer.dilation = *dilation;
  layer.groups = groups->toInt();
  return layer;
}

bool is_number(Value* v, double expected) {
  const auto value = torch::jit::toIValue(v);
  return value && value->isScalar() && !value->isComplexDouble() && value->toScalar().toDouble() == expected;
}

const char* activation_of(Node* node) {
  const std::string kind = node->kind().toQualString();
  if (kind == "aten::relu" || (kind == "aten::clamp_min" && is_number(node->input(1), 0))) return "relu";
  if (kind == "aten::relu6") return "relu6";
  if ((kind == "aten::hardtanh" || kind == "aten::clamp") && node->inputs().size() == 3 &&
      is_number(node->input(1), 0) && is_number(node->input(2), 6))
    return "relu6";
  return nullptr;
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

Node* write(Graph* graph, Node* layer_node, const Layer& layer, Value* residual, const char* activation) {
  Value* none = nullptr;
  const auto constant = [&](const c10::IValue& v) { return graph->insertConstant(v); };
  if (!residual) residual = none = constant(c10::IValue());
  const std::string label = label_of(layer_node, layer.linear ? "linear" : "conv2d");
  std::vector<Value*> inputs{layer_node->input(0), layer_node->input(1), layer_node->input(2)};
  if (!layer.linear)
    inputs.insert(inputs.end(),
                  {constant(layer.stride), constant(layer.padding), constant(layer.dilation), constant(layer.groups)});
  inputs.insert(inputs.end(), {residual, constant(std::string(activation)), constant(label)});
  Node* fused = graph->insertNode(
      graph->create(Symbol::fromQualString(layer.linear ? "presil::linear_layer" : "presil::conv2d_layer"), inputs));
  fused->copyMetadata(layer_node);
  return fused;
}

}  // namespace

int fuse_layers(Block* block) {
  int written = 0;
  std::vector<Node*> nodes(block->nodes().begin(), block->nodes().end());
  for (Node* node : nodes) {
    for (Block* inner : node->blocks()) written += fuse_layers(inner);
    const auto layer = layer_of(node);
    if (!layer) continue;
    std::vector<Node*> chain{node};
    Value* residual = nullptr;
    const char* activation = "none";
    Node* user = only_user(node->output(), block);
    if (user && user->matches("aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor") &&
        is_number(user->input(2), 1)) {
      residual = user->input(0) == node->output() ? user->input(1) : user->input(0);
      chain.push_back(user);
      user = only_user(user->output(), block);
    }
    if (user && activation_of(user)) {
      activation = activation_of(user);
      chain.push_back(user);
    }
    torch::jit::WithInsertPoint here(chain.back());
    Node* fused = write(node->owningGraph(), node, *layer, residual, activation);
    fused->output()->copyMetadata(chain.back()->output());
    chain.back()->output()->replaceAllUsesWith(fused->output());
    for (auto it = chain.rbegin(); it != chain.rend(); ++it) (*it)->destroy();
    written++;
  }
  return written;
}

}  // namespace presil
