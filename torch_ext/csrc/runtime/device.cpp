// SPDX-License-Identifier: Apache-2.0
#include "runtime/device.h"

#include "runtime/before_launch.h"
#include "runtime/bundles.h"
#include "runtime/ctrl_c.h"
#include "runtime/jobs.h"
#include "runtime/writes.h"

#include <ATen/Parallel.h>
#include <c10/util/Exception.h>
#include <pthread.h>

#include <array>
#include <cstdlib>
#include <mutex>
#include <utility>

namespace presil {
namespace {

struct Slot {
  std::atomic<presil_device*> handle{nullptr};
  char* base = nullptr;  // mapping of the device's memory
  uint64_t bytes = 0;
};

std::array<Slot, kMaxDevices>& slots() {
  static auto* s = new std::array<Slot, kMaxDevices>;  // never destroyed: tensors may outlive static destruction
  return *s;
}
std::mutex& open_mutex() {
  static auto* m = new std::mutex;
  return *m;
}

std::atomic<void (*)(int, presil_device*)> open_listener{nullptr};
std::atomic<bool> bad_fork{false};
thread_local int tls_device = 0;

void once_in_a_process() {
  catch_interrupts();
  prepare_launches();
  pthread_atfork(nullptr, nullptr, [] { bad_fork = true; });
}

presil_device* open_device(int index) {
  std::lock_guard<std::mutex> lock(open_mutex());
  Slot& slot = slots()[index];
  if (auto* handle = slot.handle.load()) return handle;
  const Settings& s = settings();
  presil_device_options options{};
  options.size = sizeof options;
  options.mode = mode_of_device();
  // A server says what it has, unless something was asked for; the twin alone needs a name.
  const bool ask = transport_is_remote() && options.mode != PRESIL_MODE_MODEL;
  options.config = (ask && !s.chip_given) || s.chip.empty() ? nullptr : s.chip.c_str();
  options.build = transport_is_remote() && !s.build_given ? nullptr : s.build.c_str();
  options.transport = s.transport.c_str();
  options.transport_index = static_cast<uint32_t>(index);
  options.host_memory = 2;
  options.hang_cycles = s.watchdog;
  options.memory_model = s.memory_model.empty() ? nullptr : s.memory_model.c_str();
  options.seed = s.seed;
  options.twin_threads = static_cast<uint32_t>(at::get_num_threads());
  options.affinity = s.affinity.c_str();
  presil_device* handle = nullptr;
  check(presil_device_open(&options, &handle), "opening the device");
  presil_device_info info{};
  info.size = sizeof info;
  check(presil_device_get_info(handle, &info), "reading device properties");
  slot.base = static_cast<char*>(presil_host_pointer(handle, info.memory_base, info.memory_bytes));
  TORCH_CHECK(slot.base, "presil:", index, ": device memory is not mapped, which PyTorch tensors need");
  if (ask || s.chip.empty()) settings().chip = info.config;
  if (ask) settings().build = info.build;
  slot.bytes = info.memory_bytes;
  try {
    connect_jobs(index, handle);
  } catch (...) {  // open without them it would be the twin alone, and compare nothing
    slot.base = nullptr;
    presil_device_close(handle);
    throw;
  }
  opened_kinds |= presil_op_kinds(handle);
  slot.handle.store(handle);
  reports_changed(index, handle);
  capture_failures_of(index, handle);
  static const bool once = (once_in_a_process(), true);
  (void)once;
  return handle;
}

// Of the one chip that has a default. No simulator is needed to ask; empty: there is none, which opening it tells.
std::string ask_default_chip() {
  presil_device_options options{};
  options.size = sizeof options;
  options.transport = "inproc";
  options.memory_bytes = 64 << 20;
  presil_device* handle = nullptr;
  if (presil_device_open(&options, &handle) != PRESIL_OK) return "";
  presil_device_info info{};
  info.size = sizeof info;
  const int status = presil_device_get_info(handle, &info);
  presil_device_close(handle);
  return status == PRESIL_OK ? info.config : "";
}

// Asked once, as a device of its own has to be opened for it; again where the environment that says which chips there
// are has changed, or where there was none.
std::string default_chip() {
  static auto* mutex = new std::mutex;
  static auto* known = new std::pair<std::string, std::string>;  // the environment, the chip's name
  const auto text = [](const char* name) -> std::string { return std::getenv(name) ? std::getenv(name) : ""; };
  const std::string where = text("PRESIL_CHIP_LIBRARY") + '\n' + text("PRESIL_LIBRARY_PATH");
  std::lock_guard<std::mutex> lock(*mutex);
  if (known->second.empty() || known->first != where) *known = {where, ask_default_chip()};
  return known->second;
}

}  // namespace

std::string chip_name() { return settings().chip.empty() ? default_chip() : settings().chip; }

std::atomic<uint64_t> opened_kinds{0};

void reports_changed(int index, presil_device* handle) {
  if (auto* listener = open_listener.load()) listener(index, handle);
}

std::atomic<WaitListener> wait_listener{nullptr};

presil_mode mode_number(const std::string& mode) {
  if (mode == "rtl") return PRESIL_MODE_RTL;
  if (mode == "model") return PRESIL_MODE_MODEL;
  if (mode == "verify") return PRESIL_MODE_VERIFY;
  if (mode == "hybrid") return PRESIL_MODE_HYBRID;
  TORCH_CHECK_VALUE(false, "presil: mode must be 'rtl', 'model', 'verify' or 'hybrid', got '", mode, "'");
}

int device_count() noexcept {
  static const int count = [] {
    const char* text = std::getenv("PRESIL_DEVICES");
    const int n = text && *text ? std::atoi(text) : 1;
    return n < 1 ? 1 : n > kMaxDevices ? kMaxDevices : n;
  }();
  return count;
}
int current_device() noexcept { return tls_device; }
void set_device_unchecked(int index) noexcept { tls_device = index; }
int checked_index(int index) {
  TORCH_CHECK(index >= 0 && index < device_count(), "presil: device index ", index, " is out of range: there ",
              device_count() == 1 ? "is " : "are ", device_count(), device_count() == 1 ? " device" : " devices",
              " (PRESIL_DEVICES)");
  return index;
}
void set_device(int index) { tls_device = checked_index(index); }

presil_device* device(int index) {
  TORCH_CHECK(!in_bad_fork(), "presil: the device can't be used in a forked child process, because it shares device "
                              "memory and the worker with its parent. "
                              "Start workers with multiprocessing's 'spawn' method.");
  auto* handle = slots()[checked_index(index)].handle.load(std::memory_order_acquire);
  return handle ? handle : open_device(index);
}
presil_device* opened(int index) noexcept {
  return index >= 0 && index < kMaxDevices ? slots()[index].handle.load(std::memory_order_acquire) : nullptr;
}
void set_open_listener(void (*listener)(int index, presil_device* device)) noexcept { open_listener = listener; }
bool in_bad_fork() noexcept { return bad_fork.load(std::memory_order_relaxed); }

int device_of_pointer(const void* p) noexcept {
  for (int i = 0; i < device_count(); i++) {
    const Slot& slot = slots()[i];
    if (slot.base && p >= slot.base && p < slot.base + slot.bytes) return i;
  }
  return -1;
}
presil_daddr address_of(int index, const void* host_pointer) {
  presil_daddr out{};
  if (!host_pointer) return out;
  TORCH_CHECK(presil_device_address(device(index), host_pointer, &out), "presil:", index, ": pointer ", host_pointer,
              " is not in this device's memory");
  return out;
}

void wait_for_host(int index, const void* at, size_t bytes) {
  if (C10_UNLIKELY(memory_exposed.load(std::memory_order_relaxed))) return wait_pending(index);
  const TimedWait timed;
  if (auto* handle = opened(index)) check(presil_host_access(handle, at, bytes), "waiting for the chip");
}

void mark_pending(int index) {
  if (C10_UNLIKELY(settings().launch_blocking)) wait_pending(index);
}

void finish_all() noexcept {
  for (int i = 0; i < device_count(); i++)
    if (auto* handle = opened(i)) (void)!presil_device_synchronize(handle);
  finish_jobs();
}

}  // namespace presil
