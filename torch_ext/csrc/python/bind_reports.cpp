// SPDX-License-Identifier: Apache-2.0
#include "python/bind.h"

#include "host/fallback.h"
#include "observe/launches.h"
#include "observe/moves.h"
#include "runtime/device.h"

#include <pybind11/stl.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace py = pybind11;

namespace presil {
namespace {

std::mutex progress_mutex;
std::atomic<uint64_t> progress_launch{0}, progress_cycles{0};
char progress_label[64] = "";

void on_progress(void*, const char* label, uint64_t launch, uint64_t cycles) {
  std::lock_guard<std::mutex> lock(progress_mutex);
  snprintf(progress_label, sizeof progress_label, "%s", label);
  progress_launch = launch;
  progress_cycles = cycles;
}

py::dict to_dict(int device, const presil_report& r) {
  const presil_names names = names_of(device);
  py::dict stalls, counters;
  for (uint32_t e = 0; e < names.engine_count; e++) {
    py::dict causes;
    for (uint32_t c = 0; c < names.cause_count; c++)
      if (const char* cause = names.causes[c].name) causes[cause] = r.stalls[e][c];
    if (names.engines[e].name) stalls[names.engines[e].name] = causes;
  }
  for (uint32_t n = 0; n < names.counter_count; n++)
    if (const char* name = names.counters[n].name) counters[name] = r.counters[n];
  py::dict d;
  d["device"] = device;
  d["label"] = r.label;
  d["launch"] = r.launch;
  d["mode"] = r.mode;
  d["macs"] = r.macs;
  d["passes"] = r.passes;
  d["peak_macs_per_cycle"] = r.peak_macs_per_cycle;
  d["cycles"] = r.cycles;
  d["stalls"] = stalls;
  d["counters"] = counters;
  d["read_bytes"] = r.read_bytes;
  d["write_bytes"] = r.write_bytes;
  d["read_beats"] = r.read_beats;
  d["write_beats"] = r.write_beats;
  if (names.commands) d[names.commands] = r.descriptors;
  d["segments"] = r.segments;
  d["fill"] = r.fill;
  d["drain"] = r.drain;
  d["verified"] = r.verified;
  d["status"] = r.status;
  d["site"] = tag_site(r.tag);
  d["sim_ns"] = r.sim_ns;
  d["twin_ns"] = r.twin_ns;
  d["host_ns"] = r.host_ns;
  d["estimated"] = r.estimated != 0;
  d["cycles_error"] = r.cycles_error;
  if (r.estimated) {  // of stalls null: not estimated
    d["bytes_known"] = (r.estimated_too & PRESIL_ESTIMATED_BYTES) != 0;
    d["beats_known"] = (r.estimated_too & PRESIL_ESTIMATED_BEATS) != 0;
    d["stalls_error"] = r.estimated_too & PRESIL_ESTIMATED_STALLS ? py::object(py::float_(r.stalls_error)) : py::none();
  }
  d["conversions"] = r.conversions;
  d["conversion_bytes"] = r.conversion_bytes;
  d["conversion_ns"] = r.conversion_ns;
  d["difference"] = r.difference;
  d["difference_address"] = r.verified == 0 ? py::object(py::int_(r.difference_address)) : py::none();
  d["difference_cycle"] = r.difference_cycle != UINT64_MAX ? py::object(py::int_(r.difference_cycle)) : py::none();
  return d;
}

// As Python has it: steps in at most kSteps equal parts, the most that each of them holds.
constexpr uint64_t kSteps = 32;

struct Held {
  std::string name;
  uint64_t capacity, reserved, steps, peak = 0;
  double mean = 0;
  std::vector<uint64_t> in_use;
};
struct Usage {
  std::vector<presil_traffic> traffic;
  std::vector<std::string> names;  // of traffic
  std::vector<Held> memories;
};

Held held_of(const presil_occupancy& m) {
  Held out{m.name, m.capacity, m.reserved, m.steps, 0, 0, {}};
  const uint64_t parts = std::min(m.steps, kSteps);
  out.in_use.resize(parts);
  for (uint64_t i = 0; i < m.steps; i++) {
    auto& most = out.in_use[i * parts / m.steps];
    most = std::max(most, m.in_use[i]);
    out.peak = std::max(out.peak, m.in_use[i]);
    out.mean += static_cast<double>(m.in_use[i]) / static_cast<double>(m.steps);
  }
  return out;
}

Usage usage_of(const presil_usage& u) {
  Usage out;
  out.traffic.assign(u.traffic, u.traffic + u.traffic_count);
  for (const auto& row : out.traffic) out.names.emplace_back(row.name);
  for (uint32_t i = 0; i < u.memory_count; i++) out.memories.push_back(held_of(u.memories[i]));
  return out;
}

const char* role_name(uint32_t role) {
  static const char* const names[] = {"other",   "weights",      "activations", "residual", "parameters",
                                      "results", "partial sums", "commands",    "alignment"};
  return role < std::size(names) ? names[role] : names[0];
}

void add_usage(py::dict& d, int device, const Usage& usage) {
  py::list traffic, memories;
  for (size_t i = 0; i < usage.traffic.size(); i++) {
    const auto& from = usage.traffic[i];
    py::dict row;
    row["name"] = usage.names[i];
    row["role"] = role_name(from.role);
    row["read_bytes"] = from.read_bytes;
    row["write_bytes"] = from.write_bytes;
    row["again_bytes"] = from.again_bytes;
    row["apart"] = from.apart != 0;
    if (auto* at = from.first.value ? presil_host_pointer(opened(device), from.first, 1) : nullptr)
      row["pointer"] = reinterpret_cast<uintptr_t>(at);
    traffic.append(row);
  }
  for (const auto& from : usage.memories) {
    py::dict row;
    row["name"] = from.name;
    row["capacity"] = from.capacity;
    row["reserved"] = from.reserved ? py::object(py::int_(from.reserved)) : py::none();
    row["steps"] = from.steps;
    row["peak"] = from.peak;
    row["mean"] = from.mean;
    row["in_use"] = from.in_use;
    memories.append(row);
  }
  d["traffic"] = traffic;
  d["memories"] = memories;
}

// Reports arrive on whichever thread ran the launch; they wait here for Python to fetch them. Any number may listen.
class Collector final : public LaunchListener {
 public:
  explicit Collector(bool usage = false) : usage_(usage) {}
  ~Collector() override { stop(); }
  void start() {
    if (!std::exchange(listening_, true)) add_listener(this);
  }
  void stop() {
    if (std::exchange(listening_, false)) remove_listener(this);
  }
  void launched(int device, const presil_report& report) override {
    std::lock_guard<std::mutex> lock(mutex_);
    reports_.emplace_back(device, report);
  }
  bool wants_usage() const override { return usage_; }
  void uses(int device, uint64_t launch, const presil_usage& usage) override {
    Usage kept = usage_of(usage);
    std::lock_guard<std::mutex> lock(mutex_);
    uses_[{device, launch}] = std::move(kept);
  }
  py::list take() {
    std::vector<std::pair<int, presil_report>> taken;
    std::map<std::pair<int, uint64_t>, Usage> uses;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      taken.swap(reports_);
      for (const auto& [device, r] : taken)
        if (auto found = uses_.extract({device, r.launch})) uses.insert(std::move(found));
    }
    py::list out;
    for (const auto& [device, r] : taken) {
      py::dict d = to_dict(device, r);
      if (const auto found = uses.find({device, r.launch}); found != uses.end()) add_usage(d, device, found->second);
      out.append(d);
    }
    return out;
  }

 private:
  const bool usage_;  // also what launches move and hold: "traffic", "memories", where the chip tells
  bool listening_ = false;
  std::mutex mutex_;
  std::vector<std::pair<int, presil_report>> reports_;
  std::map<std::pair<int, uint64_t>, Usage> uses_;  // of launches (device, number) without a report yet
};

// The one that shows progress, too: of commands.
Collector& main_collector() {
  static auto* collector = new Collector;
  return *collector;
}

void collect_reports(bool on) {
  for (int i = 0; i < device_count(); i++) presil_set_progress(device(i), on ? &on_progress : nullptr, nullptr);
  on ? main_collector().start() : main_collector().stop();
  (void)main_collector().take();
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

// Of activations to the chip's own layouts and back, over all devices: what the driver has counted.
struct Conversions {
  HostMove packed, unpacked;
};
Conversions counted() {
  Conversions all;
  presil_memory_stats s{};
  for (int i = 0; i < device_count(); i++) {
    s.size = sizeof s;
    if (auto* handle = opened(i); !handle || presil_memory_get_stats(handle, &s)) continue;
    all.packed.calls += static_cast<int64_t>(s.packs);
    all.packed.bytes += static_cast<int64_t>(s.pack_bytes);
    all.packed.seconds += 1e-9 * static_cast<double>(s.pack_ns);
    all.unpacked.calls += static_cast<int64_t>(s.unpacks);
    all.unpacked.bytes += static_cast<int64_t>(s.unpack_bytes);
    all.unpacked.seconds += 1e-9 * static_cast<double>(s.unpack_ns);
  }
  return all;
}
Conversions& at_reset() {
  static Conversions before;
  return before;
}

void add_move(py::dict& out, const char* kind, const HostMove& now, const HostMove& before) {
  if (now.calls == before.calls) return;
  py::dict d;
  d["calls"] = now.calls - before.calls;
  d["bytes"] = now.bytes - before.bytes;
  d["seconds"] = now.seconds - before.seconds;
  out[kind] = d;
}

void reset_moves() {
  reset_host_moves();
  at_reset() = counted();
}

py::dict host_move_table() {
  py::dict out;
  const Conversions now = counted();
  add_move(out, "activations to the chip's layout", now.packed, at_reset().packed);
  add_move(out, "activations from the chip's layout", now.unpacked, at_reset().unpacked);
  for (const auto& [kind, move] : host_moves()) add_move(out, kind.c_str(), move, {});
  return out;
}
}  // namespace

void bind_reports(py::module_& m) {
  m.def("collect_reports", &collect_reports);
  m.def("take_reports", [] { return main_collector().take(); });
  py::class_<Collector>(m, "Collector")
      .def(py::init<bool>(), py::arg("usage") = false)
      .def("start", &Collector::start)
      .def("stop", &Collector::stop)
      .def("take", &Collector::take);
  m.def("progress", [] {
    std::lock_guard<std::mutex> lock(progress_mutex);
    return py::make_tuple(std::string(progress_label), progress_launch.load(), progress_cycles.load());
  });
  // Of what this thread launches from now on, in its reports; not while explain() records. Returns the one before.
  m.def("set_site", [](uint32_t site) { return set_tag(TagHalf::Site, site); });
  m.def("host_operators", &host_operator_table);
  m.def("host_moves", &host_move_table);
  m.def("reset_host_operators", &reset_host_operators);
  m.def("reset_host_moves", &reset_moves);
}

}  // namespace presil
