// SPDX-License-Identifier: Apache-2.0
// The calling thread's lines of Python, for whoever notes where work comes from. Any thread, with the GIL or without.
#pragma once
#include <Python.h>

#include <cstdint>

namespace presil {

struct CodePosition {
  PyCodeObject* code = nullptr;  // lives for ever
  int instruction = 0;           // byte, for PyCode_Addr2Line
};

// The innermost lines that are neither torch's nor this package's, at most `most`; their number.
int user_lines(CodePosition* lines, int most);
// CPython 3.11's frames are read as they lie, without the GIL; those of others, and of 3.11 after `true`, through the
// public interface, with it.
void use_public_frames(bool on);

// What the calling thread has spent on lines so far.
struct FrameEffort {
  uint64_t frames = 0;  // that were looked at
  uint64_t gil = 0;     // times that the GIL was taken
};
FrameEffort frame_effort();

inline bool python_is_ending() {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsFinalizing();
#else
  return _Py_IsFinalizing();
#endif
}

// With the GIL, while it lives: what the thread left pending (an exception on its way) is out of sight, and comes back.
class WithoutException {
 public:
#if PY_VERSION_HEX >= 0x030C0000
  WithoutException() : raised_(PyErr_GetRaisedException()) {}
  ~WithoutException() { PyErr_SetRaisedException(raised_); }
#else
  WithoutException() { PyErr_Fetch(&type_, &raised_, &trace_); }
  ~WithoutException() { PyErr_Restore(type_, raised_, trace_); }
#endif
  WithoutException(const WithoutException&) = delete;
  WithoutException& operator=(const WithoutException&) = delete;

 private:
  PyObject* raised_ = nullptr;
#if PY_VERSION_HEX < 0x030C0000
  PyObject *type_ = nullptr, *trace_ = nullptr;
#endif
};

}  // namespace presil
