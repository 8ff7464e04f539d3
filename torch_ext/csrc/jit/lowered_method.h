// SPDX-License-Identifier: Apache-2.0
// One lowered method with its weights on a device: what a handle of the backend stands for.
#pragma once
#include "jit/lower.h"

#include <torch/csrc/jit/runtime/interpreter.h>
#include <torch/custom_class.h>

#include <map>
#include <memory>
#include <mutex>

namespace presil {

class Program final : public torch::CustomClassHolder {
 public:
  // device: where it runs when no input says otherwise. dtype: of the module's constants, if lowering converted them.
  Program(torch::jit::Module module, std::string method, c10::Device device, std::optional<c10::ScalarType> dtype);
  // The method's result; a tuple's elements one by one, as the interface has it. Inputs of a presil device run there
  // and give results there; CPU inputs are copied to `device`, results copied back. May be called from several threads.
  std::vector<c10::IValue> run(c10::impl::GenericList inputs);

 private:
  struct Copy {  // of the module on one device
    torch::jit::Module module;
    torch::jit::Code code;
  };
  const Copy& copy_on(c10::Device device);

  const torch::jit::Module module_;
  const std::string method_;
  const c10::Device device_;
  const std::optional<c10::ScalarType> dtype_;
  std::mutex mutex_;
  std::map<c10::DeviceIndex, Copy> copies_;
};

}  // namespace presil
