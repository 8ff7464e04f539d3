// SPDX-License-Identifier: Apache-2.0
#include "python/bind.h"

#include "host/fallback.h"
#include "observe/launches.h"
#include "observe/moves.h"
#include "runtime/device.h"

#include <pybind11/stl.h>

#include <mutex>
#include <utility>

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
  d["conversions"] = r.conversions;
  d["conversion_bytes"] = r.conversion_bytes;
  d["conversion_ns"] = r.conversion_ns;
  d["difference"] = r.difference;
  d["difference_address"] = r.verified == 0 ? py::object(py::int_(r.difference_address)) : py::none();
  d["difference_cycle"] = r.difference_cycle != UINT64_MAX ? py::object(py::int_(r.difference_cycle)) : py::none();
  return d;
}

// Reports arrive on whichever thread ran the launch; they wait here for Python to fetch them. Any number may listen.
class Collector final : public LaunchListener {
 public:
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
  py::list take() {
    std::vector<std::pair<int, presil_report>> taken;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      taken.swap(reports_);
    }
    py::list out;
    for (const auto& [device, r] : taken) out.append(to_dict(device, r));
    return out;
  }

 private:
  bool listening_ = false;
  std::mutex mutex_;
  std::vector<std::pair<int, presil_report>> reports_;
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
      .def(py::init<>())
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
