// SPDX-License-Identifier: Apache-2.0
// Launches as bundles (docs/replay.md): one capture a device at a time, and beneath it, on all devices, that of what
// fails, which rests meanwhile.
#pragma once
#include <presil_bundle_capture.h>

#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace presil {

struct CaptureOptions {
  uint64_t first = 0, launches = 0;  // launches 0: all
  uint32_t last = 0;
  std::string labels;  // regular expression; empty: any
  bool overwrite = false;
  std::vector<std::pair<std::string, std::string>> file_labels;
};

// Raise. end_capture returns how many launches are in the file.
void begin_capture(int device, const std::string& path, const CaptureOptions& options);
uint64_t end_capture(int device);

// A directory: each launch that fails, on any device, open or opened later, leaves a bundle there; empty: none does.
// PRESIL_CAPTURE_FAILURES names the first.
void set_capture_failures(const std::string& directory);
std::string capture_failures();
void capture_failures_of(int index, presil_device* device);  // of a device that was opened, or got or lost its jobs

// While it lives that device's failures are captured by nobody, and no thread begins anything here: for who gives the
// device its jobs or takes them away. capture_failures_of() goes on, behind it.
class RestFailures {
 public:
  explicit RestFailures(int index) noexcept;

 private:
  std::unique_lock<std::mutex> lock_;
};

// What is known of where a launch comes from: text on the enqueuing thread, as long as somebody captures.
struct LaunchOrigin {
  std::string lines, module;
};
using OriginKeeper = void (*)(bool on);
using OriginFinder = bool (*)(uint64_t origin, LaunchOrigin* out);
void set_origin_keeper(OriginKeeper keep, OriginFinder find);

}  // namespace presil
