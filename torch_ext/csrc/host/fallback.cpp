// SPDX-License-Identifier: Apache-2.0
#include "host/fallback.h"
#include "runtime/generator.h"
#include "ops/weights.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/library.h>

#include <chrono>
#include <set>
#include <mutex>

namespace presil {
namespace {

std::mutex count_mutex;
std::map<std::string, HostOperator>& counts() {
  static auto* m = new std::map<std::string, HostOperator>;
  return *m;
}

bool is_optional_generator(const c10::Argument& argument) {
  static const auto type = c10::OptionalType::create(c10::GeneratorType::get());
  return argument.type()->kind() == c10::TypeKind::OptionalType && *argument.type() == *type;
}

// One call: the arguments on the stack are replaced by host views, results by device tensors.
class Call {
 public:
  Call(const c10::OperatorHandle& op, torch::jit::Stack* stack)
      : op_(op), schema_(op.schema()), stack_(stack), first_(stack->size() - schema_.arguments().size()), random_(op.hasTag(at::Tag::nondeterministic_seeded)) {}

  void run() {
    for (size_t i = 0; i < schema_.arguments().size(); i++) map_argument(i);
    if (device_argument_) views_.set_index(*device_argument_);
    refuse_mixed_devices();
    const int index = views_.index();
    if (index >= 0) wait_pending(index);
    use_device_generator();
    const auto start = std::chrono::steady_clock::now();
    redispatch();
    views_.finish();
    map_results();
    note_host_operator(c10::toString(op_.operator_name()).c_str(), "no kernel on the chip", std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }

 private:
  at::Tensor host(const at::Tensor& t, const c10::Argument& argument) {
    if (t.defined() && argument.alias_info() && argument.alias_info()->isWrite()) weights_changed(t);
    return views_.to_host(t);
  }

  void map_argument(size_t i) {
    c10::IValue& v = (*stack_)[first_ + i];
    const auto& argument = schema_.arguments()[i];
    if (v.isTensor()) {
      if (v.toTensor().defined()) v = host(v.toTensor(), argument);
    } else if (v.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& t : v.toTensorVector()) list.push_back(host(t, argument));
      v = std::move(list);
    } else if (v.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> list;
      for (const auto& t : v.toOptionalTensorVector()) list.push_back(t ? std::optional<at::Tensor>(host(*t, argument)) : std::nullopt);
      v = std::move(list);
    } else if (v.isDevice()) {
      if (v.toDevice().type() == kDevice) {
        device_argument_ = v.toDevice().index() < 0 ? current_device() : v.toDevice().index();
        v = c10::Device(c10::kCPU);
      }
    } else if (v.isGenerator()) {
      generator_given_ = true;
      if (v.toGenerator().device().type() == kDevice) v = host_generator(v.toGenerator());
    } else if (v.isStorage()) {
      if (v.toStorage().device_type() == kDevice) v = views_.to_host(v.toStorage());
    } else if (v.isNone() && random_ && is_optional_generator(argument)) {
      generator_slot_ = static_cast<int>(i);
    }
  }

  // CPU kernels would silently accept a CPU operand beside the views; 0-dimensional CPU tensors are allowed as everywhere in PyTorch.
  void refuse_mixed_devices() const {
    if (!views_.has_cpu_tensor() || views_.index() < 0 || device_argument_) return;
    static const std::set<std::string> allowed{"aten::set_", "aten::index", "aten::index_put_", "aten::_index_put_impl_", "aten::_unsafe_index", "aten::_unsafe_index_put", "aten::copy_",
                                               "aten::tensor_split", "aten::_pack_padded_sequence", "aten::_pad_packed_sequence", "aten::_pack_padded_sequence_backward",
                                               "aten::repeat_interleave", "aten::_ctc_loss", "aten::_ctc_loss_backward"};
    TORCH_CHECK(allowed.count(op_.operator_name().name), "Expected all tensors to be on the same device, but found at least two devices, presil:", views_.index(), " and cpu! (when calling ",
                c10::toString(op_.operator_name()), ")");
  }

  void use_device_generator() {
    if (!random_ || views_.index() < 0) return;
    const auto generator = host_generator(default_generator(views_.index()));
    if (generator_slot_ >= 0) {
      (*stack_)[first_ + generator_slot_] = generator;
    } else if (!generator_given_) {
      swap_ = generator;  // e.g. native_dropout: takes the CPU's default engine
    }
  }

  void redispatch() {
    AllocateOnDevice scope(views_.index());
    if (!swap_.defined()) return op_.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack_);
    static std::mutex engine_mutex;
    std::lock_guard<std::mutex> lock(engine_mutex);
    auto* cpu = at::get_generator_or_default<at::CPUGeneratorImpl>(std::nullopt, at::detail::getDefaultCPUGenerator());
    auto* own = static_cast<at::CPUGeneratorImpl*>(swap_.unsafeGetGeneratorImpl());
    struct Restore {
      at::CPUGeneratorImpl *cpu, *own;
      at::mt19937 saved;
      ~Restore() {
        own->set_engine(cpu->engine());
        cpu->set_engine(saved);
      }
    } restore{cpu, own, cpu->engine()};
    cpu->set_engine(own->engine());
    op_.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack_);
  }

  void map_results() {
    const size_t first = stack_->size() - schema_.returns().size();
    for (size_t i = first; i < stack_->size(); i++) {
      c10::IValue& v = (*stack_)[i];
      if (v.isTensor()) {
        v = views_.to_device(v.toTensor());
      } else if (v.isTensorList()) {
        c10::List<at::Tensor> list;
        for (const at::Tensor& t : v.toTensorVector()) list.push_back(views_.to_device(t));
        v = std::move(list);
      } else if (v.isOptionalTensorList()) {
        c10::List<std::optional<at::Tensor>> list;
        for (const auto& t : v.toOptionalTensorVector()) list.push_back(t ? std::optional<at::Tensor>(views_.to_device(*t)) : std::nullopt);
        v = std::move(list);
      }
    }
  }

  const c10::OperatorHandle& op_;
  const c10::FunctionSchema& schema_;
  torch::jit::Stack* stack_;
  const size_t first_;
  const bool random_;
  HostViews views_;
  std::optional<int> device_argument_;
  bool generator_given_ = false;
  int generator_slot_ = -1;
  at::Generator swap_;
};

}  // namespace

std::map<std::string, HostOperator> host_operators() {
  std::lock_guard<std::mutex> lock(count_mutex);
  return counts();
}
void reset_host_operators() {
  std::lock_guard<std::mutex> lock(count_mutex);
  counts().clear();
}
void note_host_operator(const char* name, const std::string& reason, double seconds) {
  TORCH_CHECK(!settings().strict, "presil: strict mode: operator ", name, " would run on the host (", reason, "). Set torch.backends.presil.strict = False to allow it.");
  std::lock_guard<std::mutex> lock(count_mutex);
  auto& entry = counts()[name];
  entry.calls++;
  entry.seconds += seconds;
  if (entry.reason.empty()) entry.reason = reason;
}

void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) { Call(op, stack).run(); }

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>()); }
TORCH_LIBRARY_IMPL(aten, Conjugate, m) { m.impl("_copy_from", torch::CppFunction::makeFallthrough()); }
TORCH_LIBRARY_IMPL(aten, Negative, m) { m.impl("_copy_from", torch::CppFunction::makeFallthrough()); }

}  // namespace presil
