// SPDX-License-Identifier: Apache-2.0
// torch.profiler: each launch is a kernel on its device's track, linked to the operator that enqueued it.
// Time on that track is simulated: it starts at the profiler's start, advances by cycles / clock during a launch and
// stands still between launches. In mode model nothing advances: duration 0, and counters null.
#include "observe/launches.h"
#include "runtime/device.h"

#include <libkineto.h>
#include <output_base.h>
#include <torch/csrc/profiler/standalone/privateuse1_profiler.h>

#include <array>
#include <chrono>
#include <mutex>
#include <vector>

namespace presil {
namespace {

using libkineto::ActivityType;
using libkineto::CpuTraceBuffer;
using libkineto::GenericTraceActivity;

constexpr int kLaunches = 0;  // the one row of a device's track

int64_t epoch_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

thread_local std::vector<uint32_t> outer_correlations;

struct Launch {
  int device;
  presil_report report;
};

std::string stalls_json(int device, const presil_report& r) {
  const presil_names names = names_of(device);
  std::string out = "{";
  for (uint32_t e = 0; e < names.engine_count; e++) {
    std::string causes;
    for (uint32_t c = 0; c < names.cause_count; c++)
      if (r.stalls[e][c] && names.causes[c].name)
        causes += (causes.empty() ? "\"" : ", \"") + std::string(names.causes[c].name) +
                  "\": " + std::to_string(r.stalls[e][c]);
    if (!causes.empty() && names.engines[e].name)
      out += (out.size() > 1 ? ", \"" : "\"") + std::string(names.engines[e].name) + "\": {" + causes + "}";
  }
  return out + "}";
}

void add_counters(GenericTraceActivity& a, int device, const presil_report& r) {
  a.addMetadata("launch", r.launch);
  a.addMetadata("macs", r.macs);
  if (r.mode == PRESIL_MODE_MODEL || r.cycles == 0) {
    for (const char* name : {"cycles", "utilization", "read_bytes", "write_bytes", "stalls"})
      a.addMetadata(name, "null");
    return;
  }
  a.addMetadata("cycles", r.cycles);
  a.addMetadata("utilization", r.peak_macs_per_cycle ? static_cast<double>(r.macs * r.passes) /
                                                           static_cast<double>(r.cycles * r.peak_macs_per_cycle)
                                                     : 0.0);
  a.addMetadata("read_bytes", r.read_bytes);
  a.addMetadata("write_bytes", r.write_bytes);
  a.addMetadata("stalls", stalls_json(device, r));
}

class Session final : public libkineto::IActivityProfilerSession, LaunchListener {
 public:
  void start() override {
    for (int i = 0; i < device_count(); i++) finish(i);  // what was enqueued before is not part of it
    start_ns_ = epoch_ns();
    add_listener(this);
  }
  void stop() override {
    for (int i = 0; i < device_count(); i++) finish(i);
    remove_listener(this);
    end_ns_ = epoch_ns();
  }
  std::vector<std::string> errors() override { return {}; }

  void processTrace(libkineto::ActivityLogger& logger) override {
    processTrace(
        logger, [](int32_t) { return static_cast<const libkineto::ITraceActivity*>(nullptr); }, start_ns_, end_ns_);
  }
  void processTrace(libkineto::ActivityLogger& logger, libkineto::getLinkedActivityCallback linked, int64_t,
                    int64_t) override {
    buffer_ = std::make_unique<CpuTraceBuffer>();
    buffer_->span = libkineto::TraceSpan(start_ns_, end_ns_, "presil");
    std::array<uint64_t, 256> cycles{};  // of the launches so far, by device
    std::array<bool, 256> shown{};
    for (const Launch& launch : launches_) {
      if (!shown[launch.device])
        logger.handleResourceInfo({kLaunches, kLaunches, launch.device,
                                   "presil:" + std::to_string(launch.device) + " launches (simulated time)"},
                                  start_ns_);
      shown[launch.device] = true;
      add(launch, cycles[launch.device], linked, logger);
      cycles[launch.device] += launch.report.cycles;
    }
  }

  std::unique_ptr<libkineto::DeviceInfo> getDeviceInfo() override {
    return nullptr;
  }  // kineto gives processes 0 to 15 a name of its own ("GPU 0"), later than ours; so the row is named
  std::vector<libkineto::ResourceInfo> getResourceInfos() override { return {}; }
  std::unique_ptr<CpuTraceBuffer> getTraceBuffer() override { return std::move(buffer_); }

  // Around each operator, on its thread.
  void pushCorrelationId(uint64_t id) override {
    outer_correlations.push_back(set_tag(TagHalf::Correlation, static_cast<uint32_t>(id)));
  }
  void popCorrelationId() override {
    if (outer_correlations.empty()) return;
    (void)set_tag(TagHalf::Correlation, outer_correlations.back());
    outer_correlations.pop_back();
  }

 private:
  void launched(int device, const presil_report& report) override {
    std::lock_guard<std::mutex> lock(mutex_);
    launches_.push_back({device, report});
  }

  // An error of a launch stays where the user will ask for it: this waits for the end, and reports nothing.
  static void finish(int index) {
    presil_event* event = nullptr;
    if (!opened(index) || presil_event_create(opened(index), &event)) return;
    if (!presil_event_record(event, nullptr)) (void)!presil_event_synchronize(event);
    presil_event_destroy(event);
  }

  void add(const Launch& launch, uint64_t cycles_before, const libkineto::getLinkedActivityCallback& linked,
           libkineto::ActivityLogger& logger) {
    presil_device_info info{};
    info.size = sizeof info;
    const bool clocked =
        opened(launch.device) && presil_device_get_info(opened(launch.device), &info) == PRESIL_OK && info.clock_mhz;
    const uint64_t mhz = clocked ? info.clock_mhz : 1000;  // a cycle is a nanosecond, as in the trace of `presil perf`
    const auto at = [&](uint64_t cycles) { return start_ns_ + static_cast<int64_t>(cycles * 1000 / mhz); };
    buffer_->emplace_activity(buffer_->span, ActivityType::CONCURRENT_KERNEL, launch.report.label);
    GenericTraceActivity& a = *buffer_->activities.back();
    a.startTime = at(cycles_before);
    a.endTime = at(cycles_before + launch.report.cycles);
    a.device = launch.device;
    a.resource = kLaunches;
    const uint32_t correlation = tag_correlation(launch.report.tag);
    a.id = static_cast<int32_t>(correlation);
    a.linked = correlation && linked ? linked(static_cast<int32_t>(correlation)) : nullptr;
    if (a.linked) a.addMetadataQuoted("operator", a.linked->name());
    add_counters(a, launch.device, launch.report);
    logger.handleActivity(a);
  }

  std::mutex mutex_;
  std::vector<Launch> launches_;
  std::unique_ptr<CpuTraceBuffer> buffer_;
  int64_t start_ns_ = 0, end_ns_ = 0;
};

class Profiler final : public libkineto::IActivityProfiler {
 public:
  const std::string& name() const override {
    static const std::string name = "presil";
    return name;
  }
  const std::set<ActivityType>& availableActivities() const override {
    static const std::set<ActivityType> types{ActivityType::CONCURRENT_KERNEL, ActivityType::PRIVATEUSE1_RUNTIME,
                                              ActivityType::PRIVATEUSE1_DRIVER};
    return types;
  }
  std::unique_ptr<libkineto::IActivityProfilerSession> configure(const std::set<ActivityType>& types,
                                                                 const libkineto::Config&) override {
    return types.count(ActivityType::CONCURRENT_KERNEL) ? std::make_unique<Session>() : nullptr;
  }
  std::unique_ptr<libkineto::IActivityProfilerSession> configure(int64_t, int64_t, const std::set<ActivityType>& types,
                                                                 const libkineto::Config& config) override {
    return configure(types, config);
  }
};
REGISTER_PRIVATEUSE1_PROFILER(Profiler);

}  // namespace
}  // namespace presil
