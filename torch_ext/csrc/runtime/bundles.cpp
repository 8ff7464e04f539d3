// SPDX-License-Identifier: Apache-2.0
#include "runtime/bundles.h"

#include "runtime/device.h"
#include "runtime/jobs.h"

#include <c10/util/Exception.h>
#include <torch/version.h>

#include <array>
#include <cstdlib>
#include <mutex>
#include <optional>

namespace presil {
namespace {

struct Bundles {
  std::mutex mutex;
  std::array<presil_bundle_capture*, kMaxDevices> files{}, failures{};
  std::optional<std::string> directory;  // none: nobody has asked yet
  OriginKeeper keep = nullptr;
  OriginFinder find = nullptr;
};
Bundles& bundles() {
  static auto* c = new Bundles;
  return *c;
}

// On the thread that runs launches; no exception may leave.
void say_origin(void*, const presil_capture_launch* launch, presil_bundle_label_fn add, void* to) noexcept try {
  LaunchOrigin origin;
  add(to, "operator", launch->label);
  const OriginFinder find = bundles().find;
  if (!find || !launch->origin || !find(launch->origin, &origin)) return;
  if (!origin.module.empty()) add(to, "module", origin.module.c_str());
  if (!origin.lines.empty()) add(to, "file", origin.lines.c_str());
} catch (...) {}

presil_bundle_capture_options options_of(const CaptureOptions& o, const std::vector<presil_bundle_pair>& pairs) {
  presil_bundle_capture_options out{};
  out.size = sizeof out;
  out.last = o.last;
  out.first = o.first;
  out.launches = o.launches;
  out.labels = o.labels.empty() ? nullptr : o.labels.c_str();
  out.overwrite = o.overwrite;
  out.torch_version = TORCH_VERSION;
  out.file_labels = pairs.data();
  out.file_label_count = static_cast<uint32_t>(pairs.size());
  out.describe = &say_origin;
  return out;
}

void check_capture(int status, const char* text) {
  if (status != PRESIL_OK) raise_text(status, text);
}

// With the mutex.
void keep_origins(Bundles& c) {
  bool any = false;
  for (int i = 0; i < kMaxDevices; i++) any = any || c.files[i] || c.failures[i];
  if (c.keep) c.keep(any);
}

void open_failures(Bundles& c, int index, presil_device* handle) {
  if (c.failures[index] || c.files[index] || !c.directory || c.directory->empty()) return;
  char error[512] = "";
  auto options = options_of({}, {});
  presil_capture_source source{};
  source.size = sizeof source;
  if (jobs_source(index, &source)) options.source = &source;
  check_capture(
      presil_bundle_capture_failures(handle, c.directory->c_str(), &options, &c.failures[index], error, sizeof error),
      error);
}

void end_one(presil_bundle_capture** capture, uint64_t* count) {
  char error[512] = "";
  auto* taken = std::exchange(*capture, nullptr);
  check_capture(presil_bundle_capture_close(taken, count, error, sizeof error), error);
}

void read_environment(Bundles& c) {
  if (c.directory) return;
  const char* directory = std::getenv("PRESIL_CAPTURE_FAILURES");
  c.directory = directory ? directory : "";
}

}  // namespace

void begin_capture(int index, const std::string& path, const CaptureOptions& o) {
  auto* handle = device(index);
  auto& c = bundles();
  std::lock_guard<std::mutex> lock(c.mutex);
  TORCH_CHECK(!has_jobs(index), "presil: a capture of all launches needs them in one process: set "
                                "torch.backends.presil.jobs = 1 before it, and no mode \"hybrid\"");
  TORCH_CHECK(!c.files[index], "presil: device ", index, " is being captured already: contexts can't be nested");
  if (c.failures[index]) end_one(&c.failures[index], nullptr);
  std::vector<presil_bundle_pair> pairs;
  for (const auto& [key, value] : o.file_labels) pairs.push_back({key.c_str(), value.c_str()});
  const auto options = options_of(o, pairs);
  char error[512] = "";
  const int status = presil_bundle_capture_open(handle, path.c_str(), &options, &c.files[index], error, sizeof error);
  if (status != PRESIL_OK) open_failures(c, index, handle);
  keep_origins(c);
  check_capture(status, error);
}

uint64_t end_capture(int index) {
  auto& c = bundles();
  std::lock_guard<std::mutex> lock(c.mutex);
  uint64_t count = 0;
  char error[512] = "";
  auto* taken = std::exchange(c.files[index], nullptr);
  const int status = presil_bundle_capture_close(taken, &count, error, sizeof error);
  if (auto* handle = opened(index)) open_failures(c, index, handle);
  keep_origins(c);
  check_capture(status, error);
  return count;
}

void set_capture_failures(const std::string& directory) {
  auto& c = bundles();
  std::lock_guard<std::mutex> lock(c.mutex);
  c.directory = directory;
  for (int i = 0; i < device_count(); i++) {
    if (c.failures[i]) end_one(&c.failures[i], nullptr);
    if (auto* handle = opened(i)) open_failures(c, i, handle);
  }
  keep_origins(c);
}

std::string capture_failures() {
  auto& c = bundles();
  std::lock_guard<std::mutex> lock(c.mutex);
  read_environment(c);
  return *c.directory;
}

void capture_failures_of(int index, presil_device* handle) {
  auto& c = bundles();
  std::lock_guard<std::mutex> lock(c.mutex);
  read_environment(c);
  open_failures(c, index, handle);
  keep_origins(c);
}

RestFailures::RestFailures(int index) noexcept : lock_(bundles().mutex) {
  auto& c = bundles();
  if (c.failures[index])
    (void)!presil_bundle_capture_close(std::exchange(c.failures[index], nullptr), nullptr, nullptr, 0);
}

void set_origin_keeper(OriginKeeper keep, OriginFinder find) {
  auto& c = bundles();
  std::lock_guard<std::mutex> lock(c.mutex);
  c.keep = keep;
  c.find = find;
  keep_origins(c);
}

}  // namespace presil
