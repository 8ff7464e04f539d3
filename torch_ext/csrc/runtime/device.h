// SPDX-License-Identifier: Apache-2.0
// The devices as torch sees them: one presil_device an index, opened at first use; the calling thread's current device and stream.
#pragma once
#include <presil.h>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <atomic>
#include <string>

namespace presil {

constexpr auto kDevice = c10::DeviceType::PrivateUse1;

// What the user can change at run time (torch.backends.presil); a change closes nothing: mode switches when idle, chip and memory model before the first use.
struct Settings {
  std::string chip = "base";
  std::string build = "fast";
  std::string mode = "rtl";
  std::string memory_model;  // empty: the default one
  uint64_t seed = 0;
  bool fp32_as_bf16 = false;  // torch.backends.presil.fp32_precision = "bf16"
  bool strict = false;        // a fallback is an error
};
Settings& settings();

int device_count() noexcept;
int current_device() noexcept;
void set_device(int index);           // raises on a bad index
void set_device_unchecked(int index) noexcept;

// The driver's device; opens it. Raises in a forked child.
presil_device* device(int index);
// Null when it was never opened: for questions that must not start anything.
presil_device* opened(int index) noexcept;
int device_of_pointer(const void* p) noexcept;  // -1: not device memory
void close_all() noexcept;

c10::StreamId current_stream_id(int index) noexcept;
void set_current_stream_id(int index, c10::StreamId id) noexcept;
c10::StreamId new_stream_id(int index, int priority);
presil_stream* stream_of(int index, c10::StreamId id);
inline presil_stream* current_stream(int index) { return stream_of(index, current_stream_id(index)); }

// Raises the Python exception that belongs to a driver status, with the driver's text. what: the operator or call.
void check(int status, const char* what);

// Work was enqueued; host access to device memory must wait for it first.
void mark_pending(int index) noexcept;
void wait_pending(int index);  // returns at once if nothing is pending; raises what the launches raised
void apply_mode(const std::string& mode);  // to all open devices and later ones

presil_daddr address_of(int index, const void* host_pointer);

}  // namespace presil
