// SPDX-License-Identifier: Apache-2.0
#include "runtime/exit.h"
#include "runtime/device.h"

#include <c10/util/Exception.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>

#include <dirent.h>

#include <cstdio>
#include <cstring>
#include <thread>

namespace presil {
namespace {

struct Pass final : torch::autograd::Node {
  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override { return {}; }
};

// Autograd starts its threads with the first backward; there is no way to ask it.
bool has_autograd_threads() {
  DIR* tasks = opendir("/proc/self/task");
  if (!tasks) return true;
  bool found = false;
  while (const dirent* entry = readdir(tasks)) {
    char path[64], name[32] = "";
    snprintf(path, sizeof path, "/proc/self/task/%.20s/comm", entry->d_name);
    if (FILE* file = fopen(path, "r")) {
      if (fgets(name, sizeof name, file) && strncmp(name, "pt_autograd", 11) == 0) found = true;
      fclose(file);
    }
  }
  closedir(tasks);
  return found;
}

void send_through(int index) {
  const c10::Device place(kDevice, static_cast<c10::DeviceIndex>(
                                       index));  // all that the engine looks at: no memory, so that no device is opened
  c10::Storage nothing(c10::Storage::use_byte_size_t{}, 0, c10::DataPtr(nullptr, place), nullptr, /*resizable=*/false);
  at::Tensor gradient = at::detail::make_tensor<c10::TensorImpl>(
      std::move(nothing), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), c10::scalarTypeToTypeMeta(c10::kFloat));
  auto node = c10::make_intrusive<Pass>();
  node->add_input_metadata(gradient);
  torch::autograd::Engine::get_default_engine().execute({torch::autograd::Edge(node, 0)}, {gradient},
                                                        /*keep_graph=*/false, /*create_graph=*/false,
                                                        /*accumulate_grad=*/true);
}

}  // namespace

void drain_autograd() {
  if (in_bad_fork() || !has_autograd_threads()) return;
  // In a thread of its own, so that the task carries nothing of the caller's thread-local state.
  std::thread([] {
    for (int i = 0; i < device_count(); i++) {
      try {
        send_through(i);
      } catch (const std::exception& error) {
        TORCH_WARN("presil: at exit: autograd's thread of presil:", i, " does not answer: ", error.what());
      }
    }
  }).join();
}

}  // namespace presil
