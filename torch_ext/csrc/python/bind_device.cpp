// SPDX-License-Identifier: Apache-2.0
#include "python/bind.h"

#include "runtime/capturing.h"
#include "weights/weights.h"
#include "runtime/device.h"
#include "runtime/jobs.h"
#include "runtime/exit.h"
#include "runtime/generator.h"
#include "runtime/ctrl_c.h"

#include <pybind11/stl.h>
#include <torch/csrc/Generator.h>

namespace py = pybind11;

namespace presil {
namespace {

// None: no launch of this device has hung, or its chip doesn't say.
py::object last_hang(int index) {
  static const char* const verdicts[] = {"hung or slow", "hung", "slow", "timed out"};
  presil_waiting rows[16];
  uint32_t count = 0;
  int verdict = 0;
  check(presil_device_last_hang(device(index), rows, 16, &count, &verdict), "last hang");
  if (!count) return py::none();
  py::list list;
  for (uint32_t i = 0; i < count && i < 16; i++) {
    const presil_waiting& row = rows[i];
    py::dict d;
    d["who"] = row.who;
    d["state"] = row.state;
    d["waits_for"] = row.waits_for;
    d["since_least"] = row.since_least;
    d["since_most"] = row.since_most;
    d["by"] = row.by < 0 ? py::object(py::none()) : py::object(py::str(rows[row.by].who));
    d["in_circle"] = (row.flags & PRESIL_WAITS_CIRCLE) != 0;
    d["forever"] = (row.flags & PRESIL_WAITS_FOREVER) != 0;
    d["works"] = (row.flags & PRESIL_WAITS_WORKS) != 0;
    list.append(d);
  }
  py::dict out;
  out["verdict"] = verdicts[verdict];
  out["rows"] = list;
  return out;
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
  d["transport"] = info.transport;
  const std::pair<const char*, uint32_t> numbers[] = {
      // in the order of presil_info_known
      {"lanes", info.lanes},           {"cells", info.cells},
      {"word_bytes", info.word_bytes}, {"banks", info.banks},
      {"bank_words", info.bank_words}, {"acc_rows", info.acc_rows},
      {"clock_mhz", info.clock_mhz},   {"config_hash", info.config_hash}};
  uint32_t bit = 1;
  for (const auto& [name, value] : numbers) {
    if (info.known & bit) d[name] = value;
    bit <<= 1;
  }
  presil_names n{};
  n.size = sizeof n;
  check(presil_device_get_names(device(index), &n), "reading the chip's names");
  for (uint32_t i = 0; i < n.property_count; i++) d[n.properties[i].name] = n.properties[i].value;
  d["total_memory"] = info.memory_bytes;
  return d;
}

// Of what simulates the chip; "": it doesn't tell, or nothing does (mode "model").
py::dict identity(int index) {
  presil_device_identity who{};
  who.size = sizeof who;
  check(presil_device_identify(device(index), &who), "reading what simulates");
  py::dict d;
  d["rtl"] = who.rtl;
  d["library"] = who.library;
  return d;
}

py::list name_list(const presil_name* names, uint32_t count) {
  py::list out;
  for (uint32_t i = 0; i < count; i++) {
    const presil_name& n = names[i];
    if (!n.name) continue;
    py::dict d;
    d["name"] = n.name;
    if (n.unit) d["unit"] = n.unit;
    if (n.meaning) d["meaning"] = n.meaning;
    if (n.bound) d["bound"] = n.bound;
    if (n.flags & PRESIL_NAME_WORKS) d["works"] = true;
    if (n.flags & PRESIL_NAME_ARRAY) d["array"] = true;
    out.append(d);
  }
  return out;
}

py::dict names(int index) {
  presil_names n{};
  n.size = sizeof n;
  check(presil_device_get_names(device(index), &n), "reading the chip's names");
  py::dict d;
  d["engines"] = name_list(n.engines, n.engine_count);
  d["causes"] = name_list(n.causes, n.cause_count);
  d["counters"] = name_list(n.counters, n.counter_count);
  if (n.commands) d["commands"] = n.commands;
  py::list properties;
  for (uint32_t i = 0; i < n.property_count; i++) {
    const presil_property& p = n.properties[i];
    py::dict one;
    one["name"] = p.name;
    one["value"] = p.value;
    if (p.unit) one["unit"] = p.unit;
    if (p.meaning) one["meaning"] = p.meaning;
    properties.append(one);
  }
  d["properties"] = properties;
  return d;
}

py::dict verified(int index) {
  presil_verified v{};
  v.size = sizeof v;
  check(presil_device_get_verified(device(index), &v), "reading what was verified");
  py::dict d;
  d["compared"] = v.compared;
  d["differed"] = v.differed;
  d["not_compared"] = v.not_compared;
  return d;
}

}  // namespace

static py::dict stats_of_jobs(int index) {
  const presil_jobs_stats s = jobs_stats(checked_index(index));
  py::dict d;
  d["jobs"] = s.workers;
  d["launches"] = s.launches;
  d["waiting"] = s.waiting;
  d["lost"] = s.lost;
  d["restarts"] = s.restarts;
  d["peak_bytes"] = s.peak_bytes;
  d["copied_bytes"] = s.copied_bytes;
  d["copy_seconds"] = static_cast<double>(s.copy_ns) * 1e-9;
  d["blocked_seconds"] = static_cast<double>(s.blocked_ns) * 1e-9;
  d["busy_seconds"] = static_cast<double>(s.busy_ns) * 1e-9;
  d["seconds_left"] = static_cast<double>(s.left_ns) * 1e-9;
  d["known"] = s.known;
  d["sampled"] = s.sampled;
  d["unknown"] = s.unknown;
  d["never"] = s.never;
  d["estimated"] = s.estimated;
  return d;
}

static void synchronize(int i) {
  refuse_capture(checked_index(i), "synchronize", "wait for the whole graph after a replay");
  if (opened(i)) check(presil_device_synchronize(device(i)), "synchronize");
  wait_for_jobs(i);
}

void bind_device(py::module_& m) {
  const auto release = py::call_guard<py::gil_scoped_release>();
  m.def("device_count", &device_count);
  m.def("chip_names", &names);
  m.def("verified", &verified);
  m.def("current_device", &current_device);
  m.def("set_device", &set_device);
  m.def("in_bad_fork", &in_bad_fork);
  m.def("is_open", [](int i) { return opened(i) != nullptr; });
  m.def("open", [](int i) { device(i); }, release);
  m.def("start", [](int i) { check(presil_device_start(device(i)), "starting the simulator"); }, release);
  m.def("synchronize", &synchronize, release);
  // False: it has, and nothing was waited for.
  m.def(
      "synchronize_without_jobs",
      [](int i) {
        const bool has = has_jobs(checked_index(i));
        if (!has) synchronize(i);
        return !has;
      },
      release);
  m.def("jobs_stats", &stats_of_jobs);
  m.def("jobs_ready", [](int i, double seconds) { return jobs_ready(checked_index(i), seconds); }, release);
  m.def("waits_begun", &waits_begun);
  m.def(
      "before_exit",
      [] {
        drain_autograd();
        finish_all();
      },
      release);
  m.def(
      "reset",
      [](int i) {
        check(presil_device_reset(device(i)), "device reset");
        forget_jobs(i);
      },
      release);
  m.def("stream_priority", [](int64_t id) { return stream_priority(id); });
  m.def("cancel", [](int i) {
    if (opened(i)) presil_device_cancel(opened(i));
    cancel_jobs(checked_index(i));
  });
  m.def(
      "nop",
      [](int i) {
        check(presil_nop(device(i), nullptr), "nop");
        mark_pending(i);
      },
      release);
  m.def("properties", &properties);
  m.def("identity", &identity);
  m.def("default_generator", [](int i) {
    return py::reinterpret_steal<py::object>(THPGenerator_Wrap(default_generator(checked_index(i))));
  });
  m.def("clear_weights_cache", &clear_weights_cache, release);
  m.def("weights_cache_entries", &weights_cache_entries);
  m.def(
      "trace",
      [](int i, const std::string& path, uint64_t first, uint64_t count) {
        TORCH_CHECK(
            path.empty() || !has_jobs(checked_index(i)),
            "presil: a waveform is of a simulator in this process: set jobs = 1 for it, and no mode \"hybrid\"");
        check(presil_device_trace(device(i), path.empty() ? nullptr : path.c_str(), first, count), "trace");
      },
      release);
  m.def("device_address", [](int i, uintptr_t p) { return address_of(i, reinterpret_cast<const void*>(p)).value; });
  m.def("last_hang", &last_hang);
  m.def("inject", [](int i, const std::string& fault) {
    check(presil_inject(device(i), fault.empty() ? nullptr : fault.c_str()), "inject");
  });
}

}  // namespace presil
