// SPDX-License-Identifier: Apache-2.0
// The devices as torch sees them: one presil_device an index, opened at first use; the calling thread's current device.
#pragma once
#include "runtime/errors.h"
#include "runtime/settings.h"
#include "runtime/streams.h"
#include "runtime/waits.h"

#include <presil.h>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <atomic>
#include <string>

namespace presil {

constexpr auto kDevice = c10::DeviceType::PrivateUse1;
inline c10::Device make_device(int index) { return c10::Device(kDevice, static_cast<c10::DeviceIndex>(index)); }
constexpr int kMaxDevices = 8;

int device_count() noexcept;
int current_device() noexcept;
void set_device(int index);  // raises on a bad index
void set_device_unchecked(int index) noexcept;
int checked_index(int index);  // the index; raises if there is no such device

// The driver's device; opens it. Raises in a forked child of a process that had opened one.
presil_device* device(int index);
std::string chip_name();  // configuration: as set, of an open device, or the default; empty: there is none
// Null when it was never opened: for questions that must not start anything.
presil_device* opened(int index) noexcept;
// A child of fork() of a process that had opened a device: it shares device memory with its parent, and has neither
// worker nor simulator.
bool in_bad_fork() noexcept;
// Called for each device that is opened, after it is; one in the process.
void set_open_listener(void (*listener)(int index, presil_device* device)) noexcept;
// Kinds of operators (presil_op_kind) that some chip has whose device was opened, a bit each: one look at a number,
// where question.h's chip_has() asks a device.
extern std::atomic<uint64_t> opened_kinds;
inline uint64_t kinds_of_chips() noexcept { return opened_kinds.load(std::memory_order_relaxed); }
void reports_changed(int index, presil_device* device);  // calls it again: who reports, the device or its jobs
int device_of_pointer(const void* p) noexcept;           // -1: not device memory
presil_daddr address_of(int index, const void* host_pointer);
presil_mode mode_number(const std::string& mode);  // raises on another word than rtl, model, verify
void finish_all() noexcept;                        // waits for all devices; errors are left

// Work was enqueued (on any thread). With launch_blocking it is waited for here, so that its error is raised where it
// was launched.
void mark_pending(int index);
// Host access to device memory comes after this: returns at once if nothing is enqueued; raises what the launches
// raised.
inline void wait_pending(int index) {
  const TimedWait timed;
  if (auto* handle = opened(index)) check(presil_device_synchronize(handle), "waiting for the chip");
}

// The same for whoever touches these bytes alone: where the chip has a memory of its own, the rest stays there.
// bytes 0: waits, and brings nothing.
void wait_for_host(int index, const void* at, size_t bytes);

}  // namespace presil
