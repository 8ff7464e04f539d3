// SPDX-License-Identifier: Apache-2.0
#include "jit/lowered_method.h"

#include "runtime/device.h"

#include <ATen/ATen.h>
#include <c10/core/DeviceGuard.h>

namespace presil {

using c10::IValue;

Program::Program(torch::jit::Module module, std::string method, c10::Device device,
                 std::optional<c10::ScalarType> dtype)
    : module_(std::move(module)), method_(std::move(method)), device_(device), dtype_(dtype) {}

const Program::Copy& Program::copy_on(c10::Device device) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto known = copies_.find(device.index());
  if (known != copies_.end()) return known->second;
  torch::jit::Module module = module_.deepcopy();  // attributes that the method writes are this copy's
  module.to(device);
  const auto graph = module.get_method(method_).graph()->copy();
  move_constants(graph->block(), device);
  return copies_.emplace(device.index(), Copy{module, torch::jit::Code(graph, method_)}).first->second;
}

std::vector<IValue> Program::run(c10::impl::GenericList inputs) {
  std::optional<c10::Device> given;
  std::optional<c10::ScalarType> input_dtype;
  bool from_host = false;
  const auto look = [&](const at::Tensor& t) {
    if (t.device().type() == kDevice && !given) given = t.device();
    if (t.is_floating_point() && !input_dtype) input_dtype = t.scalar_type();
    from_host |= t.is_cpu() && t.dim() > 0;
    return t;
  };
  for (const IValue& input : inputs) map_value(input, look);
  const c10::Device device = given.value_or(device_);
  const c10::DeviceGuard guard(device);
  const Copy& copy = copy_on(device);

  const auto in = [&](const at::Tensor& t) {
    TORCH_CHECK_VALUE(t.is_cpu() || t.device() == device, "presil: a lowered module got inputs on ", device, " and on ",
                      t.device(), ": move them to one device");
    const at::Tensor moved = t.to(device);
    return dtype_ && t.is_floating_point() ? moved.to(*dtype_) : moved;
  };
  torch::jit::Stack stack{copy.module._ivalue()};
  for (const IValue& input : inputs) stack.push_back(map_value(input, in));
  torch::jit::InterpreterState(copy.code).run(stack);

  const bool to_host = from_host && !given;
  const auto out = [&](const at::Tensor& t) {
    const at::Tensor converted = dtype_ && input_dtype && t.scalar_type() == *dtype_ ? t.to(*input_dtype) : t;
    return to_host ? converted.to(at::kCPU) : converted;
  };
  const IValue& result = stack.front();
  std::vector<IValue> results;
  if (!result.isTuple()) return {map_value(result, out)};
  for (const IValue& item : result.toTupleRef().elements()) results.push_back(map_value(item, out));
  return results;
}

}  // namespace presil
