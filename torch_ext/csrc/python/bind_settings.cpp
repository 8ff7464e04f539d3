// SPDX-License-Identifier: Apache-2.0
#include "python/bind.h"

#include "runtime/device.h"
#include "runtime/jobs.h"

#include <pybind11/stl.h>

namespace py = pybind11;

namespace presil {
namespace {

const char* precision_name(Fp32Precision p) {
  return p == Fp32Precision::ieee ? "ieee" : p == Fp32Precision::bf16 ? "bf16" : "none";
}
Fp32Precision precision_number(const std::string& name) {
  for (const auto p : {Fp32Precision::follow, Fp32Precision::ieee, Fp32Precision::bf16})
    if (name == precision_name(p)) return p;
  throw py::value_error("fp32_precision must be 'none' (as PyTorch's own settings say), 'ieee' or 'bf16', got '" +
                        name + "'" + (name == "tf32" ? ": the chip has no tf32" : ""));
}

}  // namespace

void bind_settings(py::module_& m) {
  const auto release = py::call_guard<py::gil_scoped_release>();
  m.def("get_mode", [] { return settings().mode; });
  m.def("set_mode", &apply_mode, release);
  m.def("get_store", [] { return settings().store; });
  m.def("get_store_sample", [] { return settings().store_sample; });
  m.def("get_store_seed", [] { return settings().store_seed; });
  m.def("set_store", &apply_store, release);
  m.def("get_unseen", [] { return settings().estimate ? "estimate" : "simulate"; });
  m.def("set_unseen", &apply_unseen, release);
  m.def("get_jobs", [] { return settings().jobs; });
  m.def("set_jobs", &apply_jobs, release);
  m.def("processors", &presil_jobs_processors);
  m.def("get_chip", &chip_name, release);
  m.def("set_chip", [](const std::string& v) {
    set_before_first_use(settings().chip, v, "chip");
    settings().chip_given = !v.empty();
  });
  m.def("get_build", [] { return settings().build; });
  m.def("set_build", [](const std::string& v) {
    set_before_first_use(settings().build, v, "build");
    settings().build_given = true;
  });
  m.def("get_transport", [] { return settings().transport; });
  m.def("set_transport", [](const std::string& v) {
    set_before_first_use(settings().transport, v.empty() ? "inproc" : v, "transport");
  });
  m.def("get_memory_model", [] { return settings().memory_model; });
  m.def("set_memory_model", &apply_memory_model, release);
  m.def("get_watchdog_cycles", [] { return settings().watchdog; });
  m.def("set_watchdog_cycles", &apply_watchdog, release);
  m.def("get_memory_model_seed", [] { return settings().seed; });
  m.def("get_affinity", [] { return settings().affinity; });
  m.def("set_affinity", &apply_affinity, release);
  m.def("get_fp32_precision", [] { return precision_name(settings().fp32); });
  m.def("set_fp32_precision", [](const std::string& v) { settings().fp32 = precision_number(v); });
  m.def("fp32_as_bf16", [](bool conv) { return fp32_as_bf16(conv ? Fp32Op::conv : Fp32Op::matmul); });
  m.def("get_strict", [] { return settings().strict; });
  m.def("set_strict", [](bool v) { settings().strict = v; });
  m.def("get_launch_blocking", [] { return settings().launch_blocking; });
  m.def("set_launch_blocking", [](bool v) { settings().launch_blocking = v; });
}

}  // namespace presil
