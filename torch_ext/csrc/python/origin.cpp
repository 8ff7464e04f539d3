// SPDX-License-Identifier: Apache-2.0
#include "python/frames.h"
#include "python/origin.h"

#include "runtime/before_launch.h"
#include "runtime/bundles.h"
#include "runtime/errors.h"

#include <ATen/SequenceNumber.h>
#include <c10/core/GradMode.h>
#include <c10/util/Type.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/graph_task.h>

#include <array>
#include <atomic>
#include <mutex>
#include <sstream>
#include <string>
#include <unordered_map>

namespace presil {
namespace {

// ---- origins: the last kOrigins launches
constexpr int kLines = 3;
constexpr uint64_t kOrigins = 32768;  // more than the queues of all devices hold, and what waits for processes (jobs)

struct Origin {
  uint64_t id = 0;
  uint64_t sequence = 0;       // of the autograd node that the forward made, or that runs now
  const char* node = nullptr;  // mangled type of the running node; null: forward
  int count = 0;
  CodePosition line[kLines];
};
std::array<Origin, kOrigins> origins;
std::mutex origin_mutex;
uint64_t last_origin = 0;

// ---- texts, as long as somebody captures launches (runtime/bundles.h): found on the thread that runs them, which may
// not wait for the GIL
constexpr size_t kKept = 65536;
std::atomic<bool> keep_texts{false};
std::unordered_map<uint64_t, LaunchOrigin> kept;  // under origin_mutex
thread_local std::string module_path;

void keep_origins(bool on) {
  keep_texts = on;
  if (on) return;
  std::lock_guard<std::mutex> lock(origin_mutex);
  kept.clear();
}

bool find_origin(uint64_t id, LaunchOrigin* out) {
  std::lock_guard<std::mutex> lock(origin_mutex);
  const auto found = kept.find(id);
  if (found == kept.end()) return false;
  *out = found->second;
  return true;
}

std::string describe(uint64_t id);

// Enqueuing threads hold no locks here, so that they may take the GIL.
void keep_text(uint64_t id) {
  LaunchOrigin origin{describe(id), module_path};
  std::lock_guard<std::mutex> lock(origin_mutex);
  if (kept.size() >= kKept) kept.clear();
  kept.emplace(id, std::move(origin));
}

// Called from C: nothing may be thrown. Without memory there is no origin (0).
uint64_t note_origin() noexcept try {
  Origin origin;
  if (const auto node = torch::autograd::get_current_node()) {
    origin.node = typeid(*node).name();
    origin.sequence = node->sequence_nr();
  } else if (c10::GradMode::is_enabled()) {
    origin.sequence = at::sequence_number::peek();
  }
  origin.count = user_lines(origin.line, kLines);
  {
    std::lock_guard<std::mutex> lock(origin_mutex);
    origin.id = ++last_origin;
    origins[origin.id % kOrigins] = origin;
  }
  if (keep_texts.load(std::memory_order_relaxed)) keep_text(origin.id);
  return origin.id;
} catch (...) {
  return 0;
}

// ---- text; with the GIL
void say_lines(std::ostringstream& out, const Origin& origin) {
  for (int i = 0; i < origin.count; i++) {
    PyCodeObject* code = origin.line[i].code;
    const char* file = PyUnicode_AsUTF8(code->co_filename);
    const char* name = PyUnicode_AsUTF8(code->co_qualname);
    out << (i ? "\n  called from " : "") << "File \"" << (file ? file : "?") << "\", line "
        << PyCode_Addr2Line(code, origin.line[i].instruction) << ", in " << (name ? name : "?");
  }
  PyErr_Clear();
}

// The newest forward launch whose node this is: the node took the number just before the launch.
const Origin* forward_of(const Origin& backward) {
  const Origin* best = nullptr;
  for (const auto& o : origins)
    if (o.id && o.id < backward.id && !o.node && o.count && o.sequence == backward.sequence + 1 &&
        (!best || o.id > best->id))
      best = &o;
  return best;
}

std::string describe(uint64_t id) {
  if (python_is_ending()) return "";
  Origin origin, forward;
  {
    std::lock_guard<std::mutex> lock(origin_mutex);
    origin = origins[id % kOrigins];
    if (origin.id != id) return "";
    if (const Origin* found = origin.node ? forward_of(origin) : nullptr) forward = *found;
  }
  const PyGILState_STATE gil = PyGILState_Ensure();
  std::ostringstream out;
  if (origin.node)
    out << "the backward pass, in " << c10::demangle(origin.node)
        << (forward.count  ? ", whose forward was\n  "
            : origin.count ? "\n  "
                           : "");
  say_lines(out, forward.count ? forward : origin);
  PyGILState_Release(gil);
  return out.str();
}

}  // namespace

void set_module_path(std::string path) { module_path = std::move(path); }

void watch_origins() {
  set_origin_keeper(&keep_origins, &find_origin);
  set_origin_text(&describe);
  set_origin_source(&note_origin);
}

}  // namespace presil
