// SPDX-License-Identifier: Apache-2.0
#include "python/bind.h"

#include "graph/graph.h"

#include <pybind11/stl.h>
#include <torch/csrc/Generator.h>
#include <torch/csrc/utils/pybind.h>

namespace py = pybind11;

namespace presil {
namespace {

at::GraphCaptureMode mode_of(const std::string& name) {
  if (name == "global" || name == "default") return at::GraphCaptureMode::Global;
  if (name == "thread_local") return at::GraphCaptureMode::ThreadLocal;
  if (name == "relaxed") return at::GraphCaptureMode::Relaxed;
  TORCH_CHECK_VALUE(false, "presil: capture_error_mode must be 'global', 'thread_local' or 'relaxed', got '", name,
                    "'");
}

}  // namespace

void bind_graph(py::module_& m) {
  const auto release = py::call_guard<py::gil_scoped_release>();
  py::class_<Graph>(m, "Graph")
      .def(py::init<>())
      .def(
          "capture_begin", [](Graph& g, PoolId pool, const std::string& mode) { g.capture_begin(pool, mode_of(mode)); },
          release)
      .def("capture_end", &Graph::capture_end, release)
      .def("abandon", &Graph::abandon, release)
      .def("replay", &Graph::replay, release)
      .def("reset", &Graph::reset, release)
      .def("pool", &Graph::pool)
      .def("steps", &Graph::steps)
      .def("debug_dump", &Graph::debug_dump)
      .def("register_generator_state", &Graph::register_generator);
  m.def("graph_pool_handle", &GraphPool::new_id);
  m.def("is_current_stream_capturing",
        [] { return stream_is_capturing(current_device(), current_stream_id(current_device())); });
  m.def("refuse_capture", &refuse_capture);
}

}  // namespace presil
