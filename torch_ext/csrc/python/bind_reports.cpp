// SPDX-License-Identifier: Apache-2.0
#include "python/bind.h"

#include "host/fallback.h"
#include "observe/launches.h"
#include "observe/moves.h"
#include "runtime/device.h"

#include <pybind11/stl.h>

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

struct Collector final : LaunchListener {
  void launched(int, const presil_report& report) override {
    std::lock_guard<std::mutex> lock(report_mutex);
    reports.push_back(report);
  }
};
Collector collector;
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
void collect_reports(bool on) {
  for (int i = 0; i < device_count(); i++) presil_set_progress(device(i), on ? &on_progress : nullptr, nullptr);
  if (on != collecting) on ? add_listener(&collector) : remove_listener(&collector);
  collecting = on;
  std::lock_guard<std::mutex> lock(report_mutex);
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

py::dict host_move_table() {
  py::dict out;
  for (const auto& [kind, move] : host_moves()) {
    py::dict d;
    d["calls"] = move.calls;
    d["bytes"] = move.bytes;
    d["seconds"] = move.seconds;
    out[kind.c_str()] = d;
  }
  return out;
}
}  // namespace

void bind_reports(py::module_& m) {
  m.def("collect_reports", &collect_reports);
  m.def("take_reports", &take_reports);
  m.def("progress", [] {
    std::lock_guard<std::mutex> lock(report_mutex);
    return py::make_tuple(std::string(progress_label), progress_launch.load(), progress_cycles.load());
  });
  m.def("host_operators", &host_operator_table);
  m.def("host_moves", &host_move_table);
  m.def("reset_host_operators", &reset_host_operators);
  m.def("reset_host_moves", &reset_host_moves);
}

}  // namespace presil
