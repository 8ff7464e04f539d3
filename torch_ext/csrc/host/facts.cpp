// SPDX-License-Identifier: Apache-2.0
#include "host/facts.h"

#include <c10/util/flat_hash_map.h>

#include <set>

namespace presil {
namespace {

bool is_optional_generator(const c10::Argument& argument) {
  static const auto type = c10::OptionalType::create(c10::GeneratorType::get());
  return argument.type()->kind() == c10::TypeKind::OptionalType && *argument.type() == *type;
}

bool takes_cpu_tensors(const std::string& name) {
  static const std::set<std::string> names{"aten::index",
                                           "aten::index_put_",
                                           "aten::_index_put_impl_",
                                           "aten::_unsafe_index",
                                           "aten::_unsafe_index_put",
                                           "aten::copy_",
                                           "aten::_pack_padded_sequence",
                                           "aten::_pad_packed_sequence",
                                           "aten::_pack_padded_sequence_backward",
                                           "aten::_ctc_loss",
                                           "aten::_ctc_loss_backward"};
  return names.count(name) != 0;
}

// Batch-norm writes its running statistics in place since before schemas could say so, and the schema stayed. Its
// backward reads them.
bool is_running_statistic(const std::string& op, const std::string& argument) {
  constexpr const char* backward = "_backward";
  return (argument == "running_mean" || argument == "running_var") && op.find(backward) == std::string::npos;
}

std::unique_ptr<OperatorFacts> read_facts(const c10::OperatorHandle& op) {
  const c10::FunctionSchema& schema = op.schema();
  TORCH_CHECK_NOT_IMPLEMENTED(schema.arguments().size() <= kMaxArguments, "presil: ", op.operator_name(),
                              " has more than ", kMaxArguments, " arguments");
  auto facts = std::make_unique<OperatorFacts>();
  facts->name = op.operator_name();
  facts->site = &host_site(c10::toString(op.operator_name()));
  facts->chip = chip_kernel(facts->site->name);
  facts->arguments = schema.arguments().size();
  facts->returns = schema.returns().size();
  facts->random = op.hasTag(at::Tag::nondeterministic_seeded);
  facts->generator = -1;
  facts->mixes = takes_cpu_tensors(facts->name.name);
  if (facts->name.name == "aten::_pack_padded_sequence") facts->cpu_results.set(1);
  for (size_t i = 0; i < facts->arguments; i++) {
    const auto& argument = schema.arguments()[i];
    if (argument.alias_info() && argument.alias_info()->isWrite()) facts->written.set(i);
    if (is_running_statistic(facts->name.name, argument.name())) facts->unmarked.set(i);
    if (argument.name() == "training" || argument.name() == "train" || argument.name() == "use_input_stats")
      facts->training = static_cast<int>(i);
    if (facts->random && is_optional_generator(argument)) facts->generator = static_cast<int>(i);
  }
  return facts;
}

}  // namespace

const OperatorFacts& facts_of(const c10::OperatorHandle& op) {
  // A schema keeps its address while its operator is registered. A library that is unloaded gives it back: hence the
  // comparison.
  thread_local ska::flat_hash_map<const c10::FunctionSchema*, std::unique_ptr<OperatorFacts>> known;
  const c10::FunctionSchema& schema = op.schema();
  auto& facts = known[&schema];
  if (C10_UNLIKELY(!facts || facts->arguments != schema.arguments().size() ||
                   facts->returns != schema.returns().size() || facts->name != op.operator_name()))
    facts = read_facts(op);
  return *facts;
}

}  // namespace presil
