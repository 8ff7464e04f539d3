// SPDX-License-Identifier: Apache-2.0
#include "runtime/jobs.h"

#include "runtime/device.h"

#include <c10/util/Exception.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <thread>

namespace presil {
namespace {

std::array<std::atomic<presil_jobs*>, kMaxDevices>& running() {
  static auto* s = new std::array<std::atomic<presil_jobs*>, kMaxDevices>{};
  return *s;
}
std::atomic<presil_report_fn> listener{nullptr};

void on_report(void* context, const presil_report* report) noexcept {
  if (const auto fn = listener.load()) fn(context, report);
}

uint32_t wanted() {
  const Settings& s = settings();
  return s.mode == "model" ? 1 : s.jobs;
}

void begin(int index, presil_device* device) {
  const Settings& s = settings();
  TORCH_CHECK(!transport_is_remote(), "presil: jobs = ", s.jobs,
              " needs simulators in processes of its own; transport is ", s.transport,
              ": set jobs = 1, or transport = \"inproc\"");
  presil_jobs_options options{};
  options.size = sizeof options;
  options.workers = s.jobs;
  options.build = s.build.c_str();
  options.transport = s.transport.c_str();
  options.report = &on_report;
  options.report_context = reinterpret_cast<void*>(static_cast<intptr_t>(index));
  presil_jobs* jobs = nullptr;
  char text[1024] = "";
  const int status = presil_jobs_open(device, &options, &jobs, text, sizeof text);
  if (status) raise_text(status, c10::str("presil: jobs: ", text));
  running()[index] = jobs;
}

}  // namespace

presil_mode mode_of_device() { return wanted() > 1 ? PRESIL_MODE_MODEL : mode_number(settings().mode); }

bool has_jobs(int index) noexcept { return running()[index].load() != nullptr; }

void connect_jobs(int index, presil_device* device) {
  if (wanted() > 1) begin(index, device);
}

void wait_for_jobs(int index) {
  auto* jobs = running()[index].load();
  if (!jobs) return;
  const TimedWait timed;
  char text[2048] = "";
  uint64_t origin = 0;
  const int status = presil_jobs_wait(jobs, text, sizeof text, &origin);
  if (!status) return;
  const std::string from = origin_text(origin);
  raise_text(status, c10::str("presil: ", text, " [", presil_status_name(static_cast<presil_status>(status)), "]",
                              from.empty() ? "" : "\nlaunched by ", from));
}

void end_jobs(int index) {
  auto* jobs = running()[index].load();
  if (!jobs) return;
  struct Close {
    presil_jobs* jobs;
    ~Close() { presil_jobs_close(jobs); }
  };
  const Close close{jobs};
  check(presil_device_synchronize(opened(index)), "waiting for the chip");
  try {
    wait_for_jobs(index);
  } catch (...) {
    running()[index] = nullptr;
    throw;
  }
  running()[index] = nullptr;
}

void cancel_jobs(int index) noexcept {
  if (auto* jobs = running()[index].load()) presil_jobs_cancel(jobs);
}

void finish_jobs() noexcept {
  for (int i = 0; i < kMaxDevices; i++) {
    auto* jobs = running()[i].exchange(nullptr);
    if (!jobs) continue;
    char text[2048] = "";
    if (presil_jobs_wait(jobs, text, sizeof text, nullptr))
      (void)std::fprintf(stderr, "presil: at exit, of a launch that nobody waited for: %s\n", text);
    presil_jobs_close(jobs);
  }
}

presil_jobs_stats jobs_stats(int index) {
  presil_jobs_stats out{};
  out.size = sizeof out;
  if (auto* jobs = running()[index].load()) (void)!presil_jobs_get_stats(jobs, &out);
  return out;
}

void apply_jobs(int64_t jobs) {
  constexpr int64_t kMost = 1024;
  TORCH_CHECK_VALUE(jobs >= 0 && jobs <= kMost, "presil: jobs must be 0 (as many as there are processors) to ", kMost,
                    ", got ", jobs);
  const uint32_t number = jobs ? static_cast<uint32_t>(jobs) : std::max(1u, std::thread::hardware_concurrency());
  if (number == settings().jobs) return;
  const uint32_t before = settings().jobs;
  settings().jobs = number;
  try {
    apply_mode(settings().mode);
  } catch (...) {
    settings().jobs = before;
    throw;
  }
}

void set_jobs_report(presil_report_fn report) { listener = report; }

}  // namespace presil
