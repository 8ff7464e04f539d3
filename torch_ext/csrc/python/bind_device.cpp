// SPDX-License-Identifier: Apache-2.0
#include "python/bind.h"

#include "ops/weights.h"
#include "runtime/device.h"
#include "runtime/generator.h"

#include <pybind11/stl.h>
#include <torch/csrc/Generator.h>

namespace py = pybind11;

namespace presil {
namespace {

py::dict properties(int index) {
  presil_device_info info{};
  info.size = sizeof info;
  check(presil_device_get_info(device(index), &info), "reading device properties");
  py::dict d;
  d["chip"] = info.chip;
  d["config"] = info.config;
  d["build"] = info.build;
  d["simulator"] = info.simulator;
  d["lanes"] = info.lanes;
  d["cells"] = info.cells;
  d["word_bytes"] = info.word_bytes;
  d["banks"] = info.banks;
  d["bank_words"] = info.bank_words;
  d["acc_rows"] = info.acc_rows;
  d["clock_mhz"] = info.clock_mhz;
  d["config_hash"] = info.config_hash;
  d["total_memory"] = info.memory_bytes;
  return d;
}
void set_before_first_use(std::string& setting, const std::string& value, const char* what) {
  if (setting == value) return;
  for (int i = 0; i < device_count(); i++)
    TORCH_CHECK(!opened(i), "presil: ", what, " can't change after the device was first used (it is ", setting, "). Set it, or its environment variable, at the start of the program.");
  setting = value;
}

}  // namespace

void bind_device(py::module_& m) {
  const auto release = py::call_guard<py::gil_scoped_release>();
  m.def("device_count", &device_count);
  m.def("current_device", &current_device);
  m.def("set_device", &set_device);
  m.def("is_open", [](int i) { return opened(i) != nullptr; });
  m.def("open", [](int i) { device(i); }, release);
  m.def("start", [](int i) { check(presil_device_start(device(i)), "starting the simulator"); }, release);
  m.def("synchronize", [](int i) { if (opened(i)) { wait_pending(i); check(presil_device_synchronize(device(i)), "synchronize"); } }, release);
  m.def("synchronize_all", &close_all, release);
  m.def("reset", [](int i) { check(presil_device_reset(device(i)), "device reset"); }, release);
  m.def("cancel", [](int i) { if (opened(i)) presil_device_cancel(opened(i)); });
  m.def("nop", [](int i) { check(presil_nop(device(i), nullptr), "nop"); mark_pending(i); }, release);
  m.def("properties", &properties);
  m.def("default_generator", [](int i) { return py::reinterpret_steal<py::object>(THPGenerator_Wrap(default_generator(i))); });
  m.def("clear_weights_cache", &clear_weights_cache, release);
  m.def("weights_cache_entries", &weights_cache_entries);
  m.def("get_mode", [] { return settings().mode; });
  m.def("set_mode", &apply_mode, release);
  m.def("get_chip", [] { return settings().chip; });
  m.def("set_chip", [](const std::string& v) { set_before_first_use(settings().chip, v, "chip"); });
  m.def("get_build", [] { return settings().build; });
  m.def("set_build", [](const std::string& v) { set_before_first_use(settings().build, v, "build"); });
  m.def("get_memory_model", [] { return settings().memory_model; });
  m.def("set_memory_model", [](const std::string& v, uint64_t seed) {
    for (int i = 0; i < device_count(); i++) if (opened(i)) check(presil_device_set_memory_model(device(i), v.c_str(), seed), "memory model");
    settings().memory_model = v;
    settings().seed = seed;
  }, release);
  m.def("get_fp32_as_bf16", [] { return settings().fp32_as_bf16; });
  m.def("set_fp32_as_bf16", [](bool v) { settings().fp32_as_bf16 = v; });
  m.def("get_strict", [] { return settings().strict; });
  m.def("set_strict", [](bool v) { settings().strict = v; });
  m.def("trace", [](int i, const std::string& path, uint64_t first, uint64_t count) { check(presil_device_trace(device(i), path.empty() ? nullptr : path.c_str(), first, count), "trace"); }, release);
  m.def("device_address", [](int i, uintptr_t p) { return address_of(i, reinterpret_cast<const void*>(p)).value; });
  m.def("inject", [](int i, const std::string& fault) { check(presil_inject(device(i), fault.empty() ? nullptr : fault.c_str()), "inject"); });
}

}  // namespace presil
