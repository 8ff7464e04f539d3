// SPDX-License-Identifier: Apache-2.0
// The frames of CPython 3.11 are read without the GIL, which is safe for the thread's own stack; references can't be
// counted without it. So code objects are kept for ever in a table, entered under the GIL when they are first seen: a
// code object in the table can't be freed, and its address can't become another's.
#define Py_BUILD_CORE
extern "C" {
#include <Python.h>
#include <internal/pycore_frame.h>
}
#undef Py_BUILD_CORE

#include "python/origin.h"

#include "runtime/device.h"

#include <ATen/Parallel.h>
#include <ATen/SequenceNumber.h>
#include <c10/core/GradMode.h>
#include <c10/util/Type.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/graph_task.h>

#include <array>
#include <mutex>
#include <sstream>

#if PY_VERSION_HEX < 0x030B0000 || PY_VERSION_HEX >= 0x030C0000
#error "origin.cpp reads the frames of CPython 3.11: adapt it to this version"
#endif

namespace presil {
namespace {

// ---- code objects that live for ever; the low bit says: of torch or of this package, not the user's
constexpr size_t kCodes = 1 << 14;
std::array<std::atomic<uintptr_t>, kCodes> codes{};
std::atomic<size_t> code_count{0};

bool is_library(PyCodeObject* code) {
  static auto* roots = new std::array<std::string, 2>;
  static const bool known = [] {
    int i = 0;
    for (const char* name : {"torch", "torch_presil"}) {
      PyObject* key = PyUnicode_FromString(name);
      PyObject* module =
          key ? PyImport_GetModule(key)
              : nullptr;  // an import would run bytecode, and could take a KeyboardInterrupt that is lost here
      Py_XDECREF(key);
      PyObject* file = module ? PyObject_GetAttrString(module, "__file__") : nullptr;
      if (file && PyUnicode_Check(file)) {
        const std::string path = PyUnicode_AsUTF8(file);
        (*roots)[i++] = path.substr(0, path.rfind('/') + 1);
      }
      Py_XDECREF(file);
      Py_XDECREF(module);
      PyErr_Clear();
    }
    return true;
  }();
  (void)known;
  const char* name = PyUnicode_AsUTF8(code->co_filename);
  if (!name || *name == '<') return !name || strncmp(name, "<frozen", 7) == 0;
  for (const auto& root : *roots)
    if (!root.empty() && strncmp(name, root.c_str(), root.size()) == 0) return true;
  return false;
}

// 0: not in the table.
uintptr_t known_code(PyCodeObject* code) {
  const auto address = reinterpret_cast<uintptr_t>(code);
  for (size_t i = 0, at = (address >> 5) * 0x9E3779B97F4A7C15ull >> 50; i < 16; i++, at = (at + 1) % kCodes) {
    const uintptr_t found = codes[at].load(std::memory_order_acquire);
    if ((found & ~uintptr_t{1}) == address) return found;
    if (!found) return 0;
  }
  return 0;
}

uintptr_t enter_code(PyCodeObject* code) {
  if (_Py_IsFinalizing() || code_count.load() > kCodes / 2) return 0;
  const PyGILState_STATE gil = PyGILState_Ensure();
  uintptr_t entered = known_code(code);
  const auto address = reinterpret_cast<uintptr_t>(code);
  for (size_t i = 0, at = (address >> 5) * 0x9E3779B97F4A7C15ull >> 50; !entered && i < 16;
       i++, at = (at + 1) % kCodes) {
    if (codes[at].load()) continue;
    Py_INCREF(code);
    entered = address | (is_library(code) ? 1 : 0);
    codes[at].store(entered, std::memory_order_release);
    code_count++;
  }
  PyGILState_Release(gil);
  return entered;
}

// ---- origins: the last kOrigins launches
constexpr int kLines = 3, kDepth = 64;
constexpr uint64_t kOrigins = 4096;  // more than the queues of all devices hold

struct Origin {
  uint64_t id = 0;
  uint64_t sequence = 0;       // of the autograd node that the forward made, or that runs now
  const char* node = nullptr;  // mangled type of the running node; null: forward
  int count = 0;
  PyCodeObject* code[kLines];
  int instruction[kLines];  // bytes
};
std::array<Origin, kOrigins> origins;
std::mutex origin_mutex;
uint64_t last_origin = 0;

void note_lines(Origin& origin) {
  PyThreadState* thread = PyGILState_GetThisThreadState();
  if (!thread || !thread->cframe) return;
  int depth = 0;
  for (_PyInterpreterFrame* frame = thread->cframe->current_frame; frame && depth < kDepth && origin.count < kLines;
       frame = frame->previous, depth++) {
    if (!frame->f_code) continue;
    uintptr_t known = known_code(frame->f_code);
    if (!known) known = enter_code(frame->f_code);
    if (!known || (known & 1)) continue;
    origin.code[origin.count] = frame->f_code;
    origin.instruction[origin.count++] = _PyInterpreterFrame_LASTI(frame) * static_cast<int>(sizeof(_Py_CODEUNIT));
  }
}

void follow_threads() {
  static std::atomic<int> last{0};
  const int threads = at::get_num_threads();
  if (last.load(std::memory_order_relaxed) == threads) return;
  last = threads;
  for (int i = 0; i < device_count(); i++)
    if (auto* handle = opened(i)) (void)!presil_device_set_twin_threads(handle, static_cast<uint32_t>(threads));
}

// Called from C: nothing may be thrown. Without memory there is no origin (0).
uint64_t note_origin() noexcept try {
  follow_threads();
  Origin origin;
  if (const auto node = torch::autograd::get_current_node()) {
    origin.node = typeid(*node).name();
    origin.sequence = node->sequence_nr();
  } else if (c10::GradMode::is_enabled()) {
    origin.sequence = at::sequence_number::peek();
  }
  note_lines(origin);
  std::lock_guard<std::mutex> lock(origin_mutex);
  origin.id = ++last_origin;
  origins[origin.id % kOrigins] = origin;
  return origin.id;
} catch (...) {
  return 0;
}

// ---- text; with the GIL
void say_lines(std::ostringstream& out, const Origin& origin) {
  for (int i = 0; i < origin.count; i++) {
    const char* file = PyUnicode_AsUTF8(origin.code[i]->co_filename);
    const char* name = PyUnicode_AsUTF8(origin.code[i]->co_qualname);
    out << (i ? "\n  called from " : "") << "File \"" << (file ? file : "?") << "\", line "
        << PyCode_Addr2Line(origin.code[i], origin.instruction[i]) << ", in " << (name ? name : "?");
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
  if (_Py_IsFinalizing()) return "";
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

void watch_origins() {
  set_origin_text(&describe);
  presil_set_origin(&note_origin);
}

}  // namespace presil
