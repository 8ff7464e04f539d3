// SPDX-License-Identifier: Apache-2.0
#include "python/bind.h"

#include "host/alias.h"
#include "runtime/device.h"
#include "weights/watch.h"

#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

namespace presil {

void bind_host(pybind11::module_& m) {
  // A CPU tensor over the same memory, after the launches that write it; it keeps the memory alive. For reading only:
  // the weights' cache doesn't see writes through it.
  m.def(
      "host_view",
      [](const at::Tensor& t) {
        TORCH_CHECK_VALUE(t.device().type() == kDevice && t.has_storage(),
                          "host_view: expected a tensor on a presil device with memory, got one on ", t.device());
        wait_pending(t.device().index());
        HostViews views;
        return views.to_host(t);
      },
      pybind11::call_guard<pybind11::gil_scoped_release>());
  // For tests: what packed weights stand on.
  pybind11::class_<Watch>(m, "Watch")
      .def(pybind11::init([](const std::vector<at::Tensor>& tensors) {
        std::vector<const at::Tensor*> watched;
        for (const auto& t : tensors) watched.push_back(&t);
        return std::make_unique<Watch>(watched);
      }))
      .def("current", &Watch::current)
      .def_property_readonly("unwritten", &Watch::unwritten);
  // The bytes are handed to somebody whose writes nobody announces.
  m.def("expose", [](const at::Tensor& t) { expose(t); });
  m.def("expose_bytes", [](uintptr_t begin, size_t bytes) { expose(reinterpret_cast<const void*>(begin), bytes); });
}

}  // namespace presil
