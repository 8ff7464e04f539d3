// SPDX-License-Identifier: Apache-2.0
#include "jit/lower.h"

#include <ATen/ATen.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/passes/dead_code_elimination.h>
#include <torch/csrc/jit/passes/freeze_module.h>
#include <torch/csrc/jit/passes/frozen_conv_folding.h>
#include <torch/csrc/jit/passes/frozen_linear_folding.h>
#include <torch/csrc/jit/passes/inliner.h>
#include <torch/csrc/jit/passes/remove_dropout.h>
#include <torch/csrc/jit/passes/remove_mutation.h>

namespace presil {
namespace {

using torch::jit::Block;
using torch::jit::Graph;
using torch::jit::Module;
using torch::jit::Node;

void for_each_node(Block* block, const std::function<void(Node*)>& visit) {
  for (Node* node : block->nodes()) {
    for (Block* inner : node->blocks()) for_each_node(inner, visit);
    visit(node);
  }
}

// A frozen module computes as in eval mode, so training mode may only be left behind where it changes nothing.
void refuse_training(const Module& module, const std::string& method) {
  const auto graph = module.get_method(method).graph()->copy();
  torch::jit::Inline(*graph);
  for_each_node(graph->block(), [&](Node* node) {
    const std::string kind = node->kind().toUnqualString();
    const bool reads = node->kind() == torch::jit::prim::GetAttr && node->s(torch::jit::attr::name) == "training";
    if (reads || kind.find("dropout") != std::string::npos || kind == "batch_norm" || kind == "instance_norm")
      TORCH_CHECK_VALUE(false, "presil: lowering needs a module in eval mode, and ", method,
                        "() depends on training mode (", reads ? "it reads self.training" : kind,
                        "). Call .eval() before torch.jit.script or torch.jit.trace");
  });
}

void fold(std::shared_ptr<Graph>& graph) {
  torch::jit::removeDropout(graph);
  torch::jit::RemoveListMutation(graph);
  torch::jit::RemoveTensorMutation(graph);
  bool changed = true;
  while (changed) {
    changed = torch::jit::FoldFrozenConvBatchnorm(graph);
    changed |= torch::jit::FoldFrozenConvAddOrSub(graph);
    changed |= torch::jit::FoldFrozenConvMulOrDiv(graph);
    changed |= torch::jit::FoldFrozenLinearBatchnorm(graph);
  }
  torch::jit::EliminateDeadCode(graph);
}

void map_constants(Block* block, const TensorFunction& f) {
  for_each_node(block, [&](Node* node) {
    if (node->kind() != torch::jit::prim::Constant || node->output()->mustBeNone()) return;
    const auto before = torch::jit::toIValue(node->output());
    if (!before) return;
    bool changed = false;
    const c10::IValue after = map_value(*before, [&](const at::Tensor& t) {
      const at::Tensor mapped = f(t);
      changed |= !mapped.is_same(t);
      return mapped;
    });
    if (!changed) return;
    torch::jit::WithInsertPoint here(node);
    if (auto moved = torch::jit::tryInsertConstant(*node->owningGraph(), after)) {
      (*moved)->setType(after.isTensor() ? c10::TypePtr(c10::TensorType::get()) : node->output()->type());
      node->output()->replaceAllUsesWith(*moved);
    }
  });
}

}  // namespace

c10::IValue map_value(const c10::IValue& value, const TensorFunction& f) {
  if (value.isTensor()) return value.toTensor().defined() ? c10::IValue(f(value.toTensor())) : value;
  if (value.isTuple()) {
    std::vector<c10::IValue> items;
    for (const auto& item : value.toTupleRef().elements()) items.push_back(map_value(item, f));
    const auto type = value.toTupleRef().type<c10::TupleType>();
    return type->schema() ? c10::ivalue::Tuple::createNamed(std::move(items), type)
                          : c10::ivalue::Tuple::create(std::move(items));
  }
  if (value.isList()) {
    const auto from = value.toList();
    c10::impl::GenericList to(from.elementType());
    for (const c10::IValue& item : from) to.push_back(map_value(item, f));
    return to;
  }
  if (value.isGenericDict()) {
    const auto from = value.toGenericDict();
    c10::impl::GenericDict to(from.keyType(), from.valueType());
    for (const auto& item : from) to.insert(item.key(), map_value(item.value(), f));
    return to;
  }
  return value;
}

Module lower_module(const Module& module, const std::vector<std::string>& methods,
                    std::optional<c10::ScalarType> dtype) {
  Module source = module;
  if (module.is_training()) {
    for (const auto& name : methods) refuse_training(module, name);
    source = module.clone();
    source.eval();
  }
  Module frozen = torch::jit::freeze_module(source, methods);
  for (const auto& name : methods) {
    auto graph = frozen.get_method(name).graph();
    map_constants(graph->block(), [](const at::Tensor& t) { return t.detach().to(at::kCPU); });
    fold(graph);
    if (dtype)
      map_constants(graph->block(), [&](const at::Tensor& t) { return t.is_floating_point() ? t.to(*dtype) : t; });
    fuse_layers(graph->block());
    torch::jit::EliminateDeadCode(graph);
  }
  if (dtype) frozen.to(*dtype);
  return frozen;
}

void move_constants(Block* block, c10::Device device) {
  map_constants(block, [&](const at::Tensor& t) { return t.to(device); });
  for_each_node(block, [&](Node* node) {
    const auto* schema = node->maybeSchema();
    const auto position = schema ? schema->argumentIndexWithName("device") : std::nullopt;
    if (!position || !node->kind().is_aten()) return;
    for (const auto& argument : schema->arguments())
      if (argument.type()->isSubtypeOf(*c10::TensorType::get())) return;  // x.to(device="cpu") is what the user wrote
    const auto value = torch::jit::toIValue(node->input(*position));
    if (!value || !value->isDevice() || !value->toDevice().is_cpu()) return;
    torch::jit::WithInsertPoint here(node);
    node->replaceInput(*position, node->owningGraph()->insertConstant(device));
  });
}

}  // namespace presil
