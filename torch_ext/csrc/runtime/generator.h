// SPDX-License-Identifier: Apache-2.0
// The device's random generator owns a CPU generator, so that random operators give the CPU's stream for the same seed.
#pragma once
#include "runtime/device.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Generator.h>

#include <mutex>

namespace presil {

const at::Generator& default_generator(int index);  // index < 0: current device
at::Generator new_generator(int index);
// The CPU generator inside a presil generator.
at::Generator host_generator(const at::Generator& generator);

// The CPU's default engine has the generator's state while this lives, which gets what was drawn: for operators that
// take no generator. One thread at a time.
class UseAsDefaultEngine {
 public:
  explicit UseAsDefaultEngine(const at::Generator& host);
  ~UseAsDefaultEngine();
  UseAsDefaultEngine(const UseAsDefaultEngine&) = delete;
  UseAsDefaultEngine& operator=(const UseAsDefaultEngine&) = delete;

 private:
  std::unique_lock<std::mutex> lock_;
  at::CPUGeneratorImpl *cpu_, *own_;
  at::mt19937 saved_;
};

}  // namespace presil
