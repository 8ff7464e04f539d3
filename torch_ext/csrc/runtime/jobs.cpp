// SPDX-License-Identifier: Apache-2.0
#include "runtime/jobs.h"

#include "runtime/bundles.h"
#include "runtime/ctrl_c.h"
#include "runtime/device.h"

#include <presil_store.h>

#include <c10/util/Exception.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

namespace presil {
namespace {

struct Running {
  std::atomic<presil_jobs*> jobs{nullptr};
  std::atomic<int> users{0};  // who may still have them from `jobs`
  std::mutex mutex;
  std::atomic<int> status{PRESIL_OK};  // a failure that nobody was told of, also of jobs that have ended
  std::string text;
  uint64_t origin = 0;
  presil_store* store = nullptr;  // of mode "hybrid"
  presil_jobs_timings timings{};
};
std::array<Running, kMaxDevices>& running() {
  static auto* s = new std::array<Running, kMaxDevices>;
  return *s;
}

// The jobs of a device, which no other thread closes meanwhile. Async-signal-safe.
class UseJobs {
 public:
  explicit UseJobs(int index) noexcept : slot_(running()[index]) {
    slot_.users++;
    jobs = slot_.jobs.load();
  }
  ~UseJobs() { slot_.users--; }
  UseJobs(const UseJobs&) = delete;
  UseJobs& operator=(const UseJobs&) = delete;
  presil_jobs* jobs;

 private:
  Running& slot_;
};

void close_store(Running& slot) noexcept {
  presil_store_timings_free(&slot.timings);
  presil_store_close(std::exchange(slot.store, nullptr));
}

void tell_of_store(void*, const char* text) noexcept {
  (void)std::fprintf(stderr, "presil: the timing store: %s; launches run on the RTL, and are not kept\n", text);
}

void open_store(Running& slot) {
  const Settings& s = settings();
  presil_store_options options{};
  options.size = sizeof options;
  options.path = s.store.empty() ? nullptr : s.store.c_str();
  presil_store_use use{};
  use.size = sizeof use;
  use.sample = s.store_sample;
  use.sample_seed = s.store_seed;
  use.warn = &tell_of_store;
  use.estimate = s.estimate;
  int status = presil_store_open(&options, &slot.store);
  if (!status) status = presil_store_timings(slot.store, &use, &slot.timings);
  if (!status) return;
  close_store(slot);
  raise_text(status, c10::str("presil: mode hybrid: ", presil_store_error()));
}

void close_jobs(int index) noexcept {
  Running& slot = running()[index];
  auto* jobs = slot.jobs.exchange(nullptr);
  while (jobs && slot.users) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  presil_jobs_close(jobs);
  close_store(slot);
}

// An error of the queue stays where the user will ask for it.
void wait_for_queue(presil_device* device) noexcept {
  presil_event* event = nullptr;
  if (!device || presil_event_create(device, &event)) return;
  if (!presil_event_record(event, nullptr)) (void)!presil_event_synchronize(event);
  presil_event_destroy(event);
}

// What the twin has not run yet is in no process's list.
bool queue_is_empty_by(presil_device* device, std::chrono::steady_clock::time_point end) noexcept {
  presil_event* event = nullptr;
  if (!device || presil_event_create(device, &event)) return true;
  bool empty = presil_event_record(event, nullptr) || presil_event_query(event);
  while (!empty && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    empty = presil_event_query(event);
  }
  presil_event_destroy(event);
  return empty;
}

struct JobsFailure {
  int status = PRESIL_OK;
  std::string text;
  uint64_t origin = 0;
};
JobsFailure take_failure(int index) {
  Running& slot = running()[index];
  std::lock_guard<std::mutex> lock(slot.mutex);
  return {slot.status.exchange(PRESIL_OK), std::exchange(slot.text, {}), slot.origin};
}

std::atomic<presil_report_fn> listener{nullptr};

void on_report(void* context, const presil_report* report) noexcept {
  if (const auto fn = listener.load()) fn(context, report);
}

bool is_hybrid() { return settings().mode == "hybrid"; }

bool wanted() { return is_hybrid() || (settings().mode != "model" && settings().jobs > 1); }

void begin(int index, presil_device* device) {
  const Settings& s = settings();
  const RestFailures rest(index);  // the jobs tell of them from now on
  presil_jobs_options options{};
  options.size = sizeof options;
  options.workers = s.jobs;
  options.build = transport_is_remote() && !s.build_given ? nullptr : s.build.c_str();
  options.transport_first = static_cast<uint32_t>(index) * s.jobs;
  options.transport = s.transport.c_str();
  options.report = &on_report;
  options.report_context = reinterpret_cast<void*>(static_cast<intptr_t>(index));
  Running& slot = running()[index];
  if (is_hybrid()) {
    open_store(slot);
    options.timings = &slot.timings;
  }
  presil_jobs* jobs = nullptr;
  char text[1024] = "";
  const int status = presil_jobs_open(device, &options, &jobs, text, sizeof text);
  if (status) {
    close_store(slot);
    raise_text(status, c10::str(is_hybrid() ? "presil: mode hybrid: " : "presil: jobs: ", text));
  }
  slot.jobs = jobs;
}

}  // namespace

presil_mode mode_of_device() { return wanted() ? PRESIL_MODE_MODEL : mode_number(settings().mode); }

presil_mode mode_without_jobs(const std::string& mode) {
  const presil_mode number = mode_number(mode);
  return number == PRESIL_MODE_HYBRID ? PRESIL_MODE_VERIFY : number;
}

bool has_jobs(int index) noexcept { return running()[index].jobs.load() != nullptr; }

bool jobs_source(int index, presil_capture_source* out) {
  auto* jobs = running()[index].jobs.load();
  if (jobs) presil_jobs_source(jobs, out);
  return jobs;
}

void connect_jobs(int index, presil_device* device) {
  if (wanted()) begin(index, device);
}

bool jobs_ready(int index, double seconds) noexcept {
  const UseJobs use(index);
  if (!use.jobs) return true;
  expect_interrupts();
  const auto end = std::chrono::steady_clock::now() + std::chrono::nanoseconds(static_cast<int64_t>(seconds * 1e9));
  if (!queue_is_empty_by(opened(index), end)) return false;
  const auto left = std::chrono::nanoseconds(end - std::chrono::steady_clock::now()).count();
  return presil_jobs_ready(use.jobs, left > 0 ? static_cast<uint64_t>(left) : 0);
}

void settle_jobs(int index) noexcept {
  if (!has_jobs(index)) return;
  const UseJobs use(index);
  if (!use.jobs) return;
  expect_interrupts();
  const TimedWait timed;
  char text[2048] = "";
  uint64_t origin = 0;
  const int status = presil_jobs_wait(use.jobs, text, sizeof text, &origin);
  Running& slot = running()[index];
  std::lock_guard<std::mutex> lock(slot.mutex);
  if (!status || slot.status) return;  // the first one wins
  slot.text = text;
  slot.origin = origin;
  slot.status = status;
}

void raise_failure_of_jobs(int index) {
  if (!running()[index].status.load()) return;
  const auto [status, text, origin] = take_failure(index);
  if (!status) return;
  const std::string from = origin_text(origin);
  raise_text(status, c10::str("presil: waiting for the chip: ", text, " [",
                              presil_status_name(static_cast<presil_status>(status)), "]",
                              from.empty() ? "" : "\nlaunched by ", from));
}

void wait_for_jobs(int index) {
  settle_jobs(index);
  raise_failure_of_jobs(index);
}

void end_jobs(int index) noexcept {
  if (!has_jobs(index) || in_bad_fork()) return;
  wait_for_queue(opened(index));
  settle_jobs(index);
  const RestFailures rest(index);  // a thread that begins a capture must not get these jobs
  close_jobs(index);
}

void forget_jobs(int index) noexcept {
  cancel_jobs(index);
  settle_jobs(index);
  (void)take_failure(index);
}

void cancel_jobs(int index) noexcept {
  const UseJobs use(index);
  if (use.jobs) presil_jobs_cancel(use.jobs);
}

void finish_jobs() noexcept {
  if (in_bad_fork()) return;
  for (int i = 0; i < kMaxDevices; i++) {
    settle_jobs(i);  // Ctrl-C still finds them
    if (const auto failure = take_failure(i); failure.status)
      (void)std::fprintf(stderr, "presil: at exit, of a launch that nobody waited for: %s\n", failure.text.c_str());
    const RestFailures rest(i);
    close_jobs(i);
  }
}

presil_jobs_stats jobs_stats(int index) {
  presil_jobs_stats out{};
  out.size = sizeof out;
  const UseJobs use(index);
  if (use.jobs) (void)!presil_jobs_get_stats(use.jobs, &out);
  return out;
}

void apply_jobs(int64_t jobs) {
  constexpr int64_t kMost = 1024;
  TORCH_CHECK_VALUE(jobs >= 0 && jobs <= kMost, "presil: jobs must be 0 (as many as there are processors) to ", kMost,
                    ", got ", jobs);
  const uint32_t number = jobs ? static_cast<uint32_t>(jobs) : presil_jobs_processors();
  if (number != settings().jobs) apply_mode_and_jobs(settings().mode, number);
}

void set_jobs_report(presil_report_fn report) { listener = report; }

}  // namespace presil
