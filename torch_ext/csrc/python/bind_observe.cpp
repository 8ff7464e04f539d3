// SPDX-License-Identifier: Apache-2.0
#include "python/bind.h"

#include "observe/observer.h"
#include "observe/source.h"
#include "python/frames.h"

#include <pybind11/stl.h>

#include <cstring>

namespace py = pybind11;

namespace presil {
namespace {

// Files below these folders are no line of the user's: torch and this package. Written once, at import.
std::vector<std::string>& library_folders() {
  static auto* folders = new std::vector<std::string>;
  return *folders;
}

bool is_library(const char* file) {
  if (strncmp(file, "<frozen", 7) == 0 || strncmp(file, "<eval_with_key>", 15) == 0) return true;
  for (const auto& folder : library_folders())
    if (strncmp(file, folder.c_str(), folder.size()) == 0) return true;
  return false;
}

uint32_t number_of(PyFrameObject* frame, PyCodeObject* code, const char* file) {
  const char* function = PyUnicode_AsUTF8(code->co_qualname);
  if (!function) PyErr_Clear();
  return intern_source(file, PyFrame_GetLineNumber(frame), function ? function : "?");
}

// With the GIL held.
uint32_t innermost_user_line() {
  PyFrameObject* frame = PyThreadState_GetFrame(PyThreadState_Get());
  uint32_t number = 0;
  while (frame && !number) {
    PyCodeObject* code = PyFrame_GetCode(frame);
    const char* file = PyUnicode_AsUTF8(code->co_filename);
    if (!file)
      PyErr_Clear();
    else if (!is_library(file))
      number = number_of(frame, code, file);
    PyFrameObject* outer = PyFrame_GetBack(frame);
    Py_DECREF(code);
    Py_DECREF(frame);
    frame = outer;
  }
  Py_XDECREF(frame);
  return number;
}

uint32_t source_from_python() {
  // A thread that Python doesn't know has no frames, and must not enter an interpreter that is going away.
  if (!Py_IsInitialized() || python_is_ending() || !PyGILState_GetThisThreadState()) return 0;
  const PyGILState_STATE state = PyGILState_Ensure();
  uint32_t number = 0;
  {
    const WithoutException pending;
    number = innermost_user_line();
  }
  PyGILState_Release(state);
  return number;
}

py::object line_of(uint32_t source) {
  if (source == 0) return py::none();
  const SourceLine s = source_line(source);
  py::dict d;
  d["file"] = s.file;
  d["line"] = s.line;
  d["function"] = s.function;
  return d;
}

py::dict to_dict(const ObservedRow& r) {
  py::dict d;
  d["op"] = r.op;
  d["where"] = r.where;
  d["reason"] = r.reason.empty() ? py::object(py::none()) : py::str(r.reason);
  d["source"] = line_of(r.source);
  d["backward"] = r.backward;
  d["calls"] = r.calls;
  d["launches"] = r.launches;
  d["unclocked"] = r.unclocked;
  d["failed"] = r.failed;
  d["cycles"] = r.cycles;
  d["macs"] = r.macs;
  d["dram_bytes"] = r.dram_bytes;
  d["host_bytes"] = r.host_bytes;
  d["host_seconds"] = 1e-9 * static_cast<double>(r.host_ns);
  d["wait_seconds"] = 1e-9 * static_cast<double>(r.wait_ns);
  d["sim_seconds"] = 1e-9 * static_cast<double>(r.sim_ns);
  return d;
}

py::list rows_as_dicts() {
  std::vector<ObservedRow> rows;
  {
    py::gil_scoped_release release;
    rows = stop_observing();
  }
  py::list out;
  for (const auto& r : rows) out.append(to_dict(r));
  return out;
}

}  // namespace

void bind_observe(py::module_& m) {
  set_source_hook(&source_from_python);
  m.def("set_library_folders", [](std::vector<std::string> folders) { library_folders() = std::move(folders); });
  m.def("use_public_frames", &use_public_frames);
  m.def("frame_effort", [] {
    const FrameEffort effort = frame_effort();
    return py::make_tuple(effort.frames, effort.gil);
  });
  m.def("current_source", [] { return line_of(current_source()); });
  m.def("note_operator", [](const std::string& name, const std::string& reason) { observe_note(name, reason); });
  m.def("start_observing", &start_observing, py::call_guard<py::gil_scoped_release>());
  m.def("stop_observing", &rows_as_dicts);
}

}  // namespace presil
