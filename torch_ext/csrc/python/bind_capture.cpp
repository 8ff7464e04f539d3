// SPDX-License-Identifier: Apache-2.0
#include "python/bind.h"
#include "python/origin.h"

#include "runtime/bundles.h"
#include "runtime/device.h"

#include <pybind11/stl.h>

namespace py = pybind11;

namespace presil {

void bind_capture(py::module_& m) {
  // Without the GIL: both wait for the launches that are running.
  m.def(
      "begin_capture",
      [](int device, const std::string& path, uint64_t first, uint64_t launches, uint32_t last,
         const std::string& labels, bool overwrite, std::vector<std::pair<std::string, std::string>> file_labels) {
        begin_capture(checked_index(device), path, {first, launches, last, labels, overwrite, std::move(file_labels)});
      },
      py::call_guard<py::gil_scoped_release>());
  m.def(
      "end_capture", [](int device) { return end_capture(checked_index(device)); },
      py::call_guard<py::gil_scoped_release>());
  m.def("set_capture_failures", &set_capture_failures, py::call_guard<py::gil_scoped_release>());
  m.def("capture_failures", &capture_failures, py::call_guard<py::gil_scoped_release>());
  m.def("set_module_path", &set_module_path);
}

}  // namespace presil
