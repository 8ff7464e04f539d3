// SPDX-License-Identifier: Apache-2.0
// The torch::jit backend "presil": torch._C._jit_to_backend("presil", module, {"forward": spec}). TorchScript is
// deprecated upstream; this serves who has it. A spec is "", None, or a dictionary of strings: device ("presil",
// "presil:1"; default: the current one), dtype ("float32", "bfloat16", "float16"; default: as the module has it).
#include "jit/lowered_method.h"
#include "runtime/device.h"

#include <torch/csrc/jit/backends/backend.h>
#include <torch/csrc/jit/backends/backend_preprocess.h>

namespace presil {
namespace {

using c10::IValue;

struct Spec {
  c10::Device device{kDevice, -1};
  std::optional<c10::ScalarType> dtype;
};

c10::ScalarType dtype_named(const std::string& name) {
  if (name == "float32") return c10::kFloat;
  if (name == "bfloat16") return c10::kBFloat16;
  if (name == "float16") return c10::kHalf;
  TORCH_CHECK_VALUE(false, "presil: method_compile_spec: dtype must be 'float32', 'bfloat16' or 'float16', got '", name,
                    "'");
}

void set_option(Spec& spec, const std::string& key, const IValue& value) {
  if (key.empty()) return;  // {"": ""} is how the interface's users say "nothing"
  TORCH_CHECK_VALUE(value.isString(), "presil: method_compile_spec: the value of '", key, "' must be a string, got ",
                    value.tagKind());
  if (key == "dtype") {
    spec.dtype = dtype_named(value.toStringRef());
  } else if (key == "device") {
    spec.device = c10::Device(value.toStringRef());
    TORCH_CHECK_VALUE(spec.device.type() == kDevice,
                      "presil: method_compile_spec: device must be 'presil' or 'presil:<index>', got '",
                      value.toStringRef(), "'");
    TORCH_CHECK_VALUE(spec.device.index() < device_count(), "presil: method_compile_spec: there is no device '",
                      value.toStringRef(), "': this process has ", device_count());
  } else {
    TORCH_CHECK_VALUE(false, "presil: method_compile_spec: unknown option '", key, "' (device, dtype)");
  }
}

Spec read_spec(const IValue& value) {
  Spec spec;
  if (value.isNone() || (value.isString() && value.toStringRef().empty())) return spec;
  TORCH_CHECK_VALUE(value.isGenericDict(),
                    "presil: method_compile_spec: a method's spec must be \"\", None or a dictionary of strings, got ",
                    value.tagKind());
  for (const auto& item : value.toGenericDict()) {
    TORCH_CHECK_VALUE(item.key().isString(), "presil: method_compile_spec: options are named by strings, got ",
                      item.key().tagKind());
    set_option(spec, item.key().toStringRef(), item.value());
  }
  return spec;
}

// Ahead of time, without a device: what is saved with the module. One lowered module for each method, since each may
// have its own dtype.
IValue preprocess(const torch::jit::Module& module, const c10::Dict<IValue, IValue>& method_compile_spec,
                  const torch::jit::BackendDebugHandleGenerator&) {
  TORCH_CHECK_VALUE(!method_compile_spec.empty(),
                    "presil: method_compile_spec names no method: {\"forward\": \"\"} lowers forward()");
  c10::impl::GenericDict lowered(c10::StringType::get(), c10::AnyType::get());
  for (const auto& item : method_compile_spec) {
    const std::string& name = item.key().toStringRef();
    TORCH_CHECK_VALUE(module.find_method(name), "presil: method_compile_spec names '", name,
                      "', which the module does not have");
    lowered.insert(name, lower_module(module, {name}, read_spec(item.value()).dtype)._ivalue());
  }
  return lowered;
}

struct Backend final : torch::jit::PyTorchBackendInterface {
  bool is_available() override { return device_count() > 0; }

  c10::impl::GenericDict compile(IValue processed, c10::impl::GenericDict method_compile_spec) override {
    c10::impl::GenericDict handles(c10::StringType::get(), c10::AnyType::get());
    const auto lowered = processed.toGenericDict();
    for (const auto& item : method_compile_spec) {
      const Spec spec = read_spec(item.value());
      const c10::Device device(
          kDevice, static_cast<c10::DeviceIndex>(spec.device.index() < 0 ? current_device() : spec.device.index()));
      handles.insert(item.key(), IValue::make_capsule(c10::make_intrusive<Program>(
                                     lowered.at(item.key()).toModule(), item.key().toStringRef(), device, spec.dtype)));
    }
    return handles;
  }

  c10::impl::GenericList execute(IValue handle, c10::impl::GenericList inputs) override {
    auto program = c10::static_intrusive_pointer_cast<Program>(handle.toCapsule());
    c10::impl::GenericList results(c10::AnyType::get());
    for (IValue& value : program->run(std::move(inputs))) results.push_back(std::move(value));
    return results;
  }
};

const auto backend_class = torch::jit::backend<Backend>("presil");
const auto backend_preprocess = torch::jit::backend_preprocess_register("presil", preprocess);

}  // namespace
}  // namespace presil
