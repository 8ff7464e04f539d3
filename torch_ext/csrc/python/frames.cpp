// SPDX-License-Identifier: Apache-2.0
// References can't be counted without the GIL, so code objects are kept for ever in a table, entered under the GIL when
// they are first seen: a code object in the table can't be freed, and its address can't become another's.
#include "python/frames.h"

#include <array>
#include <atomic>
#include <cstring>
#include <string>

#if PY_VERSION_HEX >= 0x030B0000 && PY_VERSION_HEX < 0x030C0000
#define PRESIL_READS_FRAMES 1
#define Py_BUILD_CORE
extern "C" {
#include <internal/pycore_frame.h>
}
#undef Py_BUILD_CORE
#endif

namespace presil {
namespace {

constexpr int kDepth = 64;  // frames that are looked at

// Code objects that live for ever; the low bit says: of torch or of this package, not the user's
constexpr size_t kCodes = 1 << 14;
std::array<std::atomic<uintptr_t>, kCodes> codes{};
std::atomic<size_t> code_count{0};

thread_local FrameEffort effort;

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

// 0: there is no room.
uintptr_t put_in_table(PyCodeObject* code) {
  const auto address = reinterpret_cast<uintptr_t>(code);
  for (size_t i = 0, at = (address >> 5) * 0x9E3779B97F4A7C15ull >> 50; i < 16; i++, at = (at + 1) % kCodes) {
    if (codes[at].load()) continue;
    Py_INCREF(code);
    const uintptr_t entered = address | (is_library(code) ? 1 : 0);
    codes[at].store(entered, std::memory_order_release);
    code_count++;
    return entered;
  }
  return 0;
}

uintptr_t enter_code(PyCodeObject* code) {
  if (python_is_ending() || code_count.load() > kCodes / 2) return 0;
  const PyGILState_STATE gil = PyGILState_Ensure();
  effort.gil++;
  uintptr_t entered = known_code(code);
  if (!entered) {
    const WithoutException pending;
    entered = put_in_table(code);
  }
  PyGILState_Release(gil);
  return entered;
}

bool is_users(PyCodeObject* code) {
  effort.frames++;
  uintptr_t known = known_code(code);
  if (!known) known = enter_code(code);
  return known && !(known & 1);
}

std::atomic<bool> public_frames{false};

int public_lines(CodePosition* lines, int most) {
  // A thread that Python doesn't know has no frames, and must not enter an interpreter that is going away.
  if (!Py_IsInitialized() || python_is_ending() || !PyGILState_GetThisThreadState()) return 0;
  const PyGILState_STATE gil = PyGILState_Ensure();
  effort.gil++;
  int count = 0;
  {
    const WithoutException pending;
    PyFrameObject* frame = PyThreadState_GetFrame(PyThreadState_Get());
    for (int depth = 0; frame && depth < kDepth && count < most; depth++) {
      PyCodeObject* code = PyFrame_GetCode(frame);
      if (is_users(code)) lines[count++] = {code, PyFrame_GetLasti(frame)};
      PyFrameObject* outer = PyFrame_GetBack(frame);
      Py_DECREF(code);
      Py_DECREF(frame);
      frame = outer;
    }
    Py_XDECREF(frame);
  }
  PyGILState_Release(gil);
  return count;
}

}  // namespace

void use_public_frames(bool on) { public_frames = on; }
FrameEffort frame_effort() { return effort; }

int user_lines(CodePosition* lines, int most) {
#ifdef PRESIL_READS_FRAMES
  if (public_frames.load(std::memory_order_relaxed)) return public_lines(lines, most);
  PyThreadState* thread = PyGILState_GetThisThreadState();
  if (!thread || !thread->cframe) return 0;
  int count = 0, depth = 0;
  for (_PyInterpreterFrame* frame = thread->cframe->current_frame; frame && depth < kDepth && count < most;
       frame = frame->previous, depth++) {
    if (frame->f_code && is_users(frame->f_code))
      lines[count++] = {frame->f_code, _PyInterpreterFrame_LASTI(frame) * static_cast<int>(sizeof(_Py_CODEUNIT))};
  }
  return count;
#else
  return public_lines(lines, most);
#endif
}

}  // namespace presil
