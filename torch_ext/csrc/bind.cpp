// SPDX-License-Identifier: Apache-2.0
// torch_presil._C: settings, statistics and reports for the Python side. The one file that includes pybind.
#include "device.h"
#include "fallback.h"
#include "generator.h"
#include "weights.h"

#include <pybind11/functional.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <torch/csrc/Generator.h>
#include <torch/csrc/Exceptions.h>

#include <mutex>

namespace py = pybind11;

namespace presil {
namespace {

// Reports arrive on whichever thread ran the launch; they wait here for Python to fetch them.
std::mutex report_mutex;
std::vector<presil_report> reports;
bool collecting = false;
std::atomic<uint64_t> progress_launch{0}, progress_cycles{0};
char progress_label[64] = "";

void on_report(void*, const presil_report* report) {
  std::lock_guard<std::mutex> lock(report_mutex);
  if (collecting) reports.push_back(*report);
}
void on_progress(void*, const char* label, uint64_t launch, uint64_t cycles) {
  std::lock_guard<std::mutex> lock(report_mutex);
  snprintf(progress_label, sizeof progress_label, "%s", label);
  progress_launch = launch;
  progress_cycles = cycles;
}

py::dict to_dict(const presil_report& r) {
  py::dict stalls;
  for (uint32_t e = 0; e < PRESIL_ENGINES; e++) {
    const char* engine = presil_engine_name(e);
    if (!engine) continue;
    py::dict causes;
    for (uint32_t c = 0; c < PRESIL_CAUSES; c++)
      if (const char* cause = presil_cause_name(c)) causes[cause] = r.stalls[e][c];
    stalls[engine] = causes;
  }
  py::dict d;
  d["label"] = r.label;
  d["launch"] = r.launch;
  d["mode"] = r.mode;
  d["macs"] = r.macs;
  d["passes"] = r.passes;
  d["peak_macs_per_cycle"] = r.peak_macs_per_cycle;
  d["cycles"] = r.cycles;
  d["stalls"] = stalls;
  d["read_bytes"] = r.read_bytes;
  d["write_bytes"] = r.write_bytes;
  d["read_beats"] = r.read_beats;
  d["write_beats"] = r.write_beats;
  d["descriptors"] = r.descriptors;
  d["fill"] = r.fill;
  d["drain"] = r.drain;
  d["verified"] = r.verified;
  d["status"] = r.status;
  d["sim_ns"] = r.sim_ns;
  d["twin_ns"] = r.twin_ns;
  d["host_ns"] = r.host_ns;
  d["difference"] = r.difference;
  return d;
}

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

void collect_reports(bool on) {
  for (int i = 0; i < device_count(); i++) {
    presil_set_report(device(i), on ? &on_report : nullptr, nullptr);
    presil_set_progress(device(i), on ? &on_progress : nullptr, nullptr);
  }
  std::lock_guard<std::mutex> lock(report_mutex);
  collecting = on;
  reports.clear();
}

py::list take_reports() {
  std::vector<presil_report> taken;
  {
    std::lock_guard<std::mutex> lock(report_mutex);
    taken.swap(reports);
  }
  py::list out;
  for (const auto& r : taken) out.append(to_dict(r));
  return out;
}

py::dict host_operator_table() {
  py::dict out;
  for (const auto& [name, op] : host_operators()) {
    py::dict d;
    d["calls"] = op.calls;
    d["seconds"] = op.seconds;
    d["reason"] = op.reason;
    out[name.c_str()] = d;
  }
  return out;
}

void set_before_first_use(std::string& setting, const std::string& value, const char* what) {
  if (setting == value) return;
  for (int i = 0; i < device_count(); i++)
    TORCH_CHECK(!opened(i), "presil: ", what, " can't change after the device was first used (it is ", setting, "). Set it, or its environment variable, at the start of the program.");
  setting = value;
}

PYBIND11_MODULE(_C, m) {
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
  m.def("collect_reports", &collect_reports);
  m.def("take_reports", &take_reports);
  m.def("progress", [] { std::lock_guard<std::mutex> lock(report_mutex); return py::make_tuple(std::string(progress_label), progress_launch.load(), progress_cycles.load()); });
  m.def("host_operators", &host_operator_table);
  m.def("reset_host_operators", &reset_host_operators);
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

}  // namespace
}  // namespace presil
