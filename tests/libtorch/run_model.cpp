// SPDX-License-Identifier: Apache-2.0
// run_model MODULE.pt LOWERED.pt: a scripted module and its lowered form, on the device and against the CPU.
// Status: 0 equal within 1e-5 of the largest value, 1 different, 2 wrong call, 3 something raised.
#include <torch/csrc/jit/backends/backend_detail.h>
#include <torch/script.h>

#include <ATen/Parallel.h>
#include <presil/torch.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

namespace {

int threads_of_process() {
  return static_cast<int>(std::distance(std::filesystem::directory_iterator("/proc/self/task"), {}));
}

// The twin computes with as many threads as torch, also where no Python is: how many more are there for 3 than for 1.
int twin_threads_added() {
  const at::Tensor x = at::ones({512, 512}, at::Device("presil:0"));
  at::set_num_threads(1);
  at::mm(x, x).cpu();
  const int one = threads_of_process();
  at::set_num_threads(3);
  at::mm(x, x).cpu();
  return threads_of_process() - one;
}

double difference(const at::Tensor& got, const at::Tensor& expected) {
  return ((got.to(at::kCPU) - expected).abs().max() / expected.abs().max()).item<double>();
}

bool python_in_process() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (line.find("libpython") != std::string::npos || line.find("torch_python") != std::string::npos) return true;
  return false;
}

int compare(const char* module_path, const char* lowered_path) {
  const c10::InferenceMode inference;
  const at::Device presil("presil:0");
  const at::Tensor x = at::rand({1, 3, 64, 64}) - 0.5;
  auto module = torch::jit::load(module_path, at::kCPU);
  const at::Tensor expected = module.forward({x}).toTensor();

  auto lowered = torch::jit::load(lowered_path, at::kCPU);
  const double host_input = difference(lowered.forward({x}).toTensor(), expected);
  lowered.to(presil);
  const at::Tensor on_device = lowered.forward({x.to(presil)}).toTensor();

  // The same lowering from C++, from the module that was loaded.
  c10::Dict<c10::IValue, c10::IValue> spec(c10::StringType::get(), c10::AnyType::get());
  spec.insert("forward", "");
  auto generated = torch::jit::detail::codegen_backend_module(
      "presil", module, spec, c10::DictType::create(c10::StringType::get(), c10::AnyType::get()));
  const double here = difference(generated.forward({x}).toTensor(), expected);

  module.to(presil);
  const at::Tensor scripted = module.forward({x.to(presil)}).toTensor();
  const double differences[] = {difference(scripted, expected), difference(on_device, expected), host_input, here};
  std::printf("devices=%d scripted=%g lowered=%g lowered_from_host=%g codegen=%g python=%d twin_threads=+%d\n",
              presil::api::device_count(), differences[0], differences[1], differences[2], differences[3],
              python_in_process(), twin_threads_added());
  if (scripted.device() != presil || on_device.device() != presil || python_in_process()) return 1;
  for (const double d : differences)
    if (!(d <= 1e-5)) return 1;
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) return std::fputs("run_model MODULE.pt LOWERED.pt\n", stderr), 2;
  try {
    return compare(arguments[1], arguments[2]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "run_model: %s\n", error.what());
    return 3;
  }
}
