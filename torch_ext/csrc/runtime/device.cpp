// SPDX-License-Identifier: Apache-2.0
#include "runtime/device.h"

#include <c10/util/Exception.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <mutex>
#include <vector>

namespace presil {
namespace {

constexpr int kMaxDevices = 8;

struct Slot {
  std::atomic<presil_device*> handle{nullptr};
  std::atomic<bool> pending{false};
  char* base = nullptr;  // mapping of the device's memory
  uint64_t bytes = 0;
  std::vector<presil_stream*> streams{nullptr};  // index: StreamId
};

std::array<Slot, kMaxDevices>& slots() {
  static auto* s = new std::array<Slot, kMaxDevices>;  // never destroyed: tensors may outlive static destruction
  return *s;
}
std::mutex& open_mutex() {
  static auto* m = new std::mutex;
  return *m;
}

const pid_t first_process = getpid();
thread_local int tls_device = 0;
thread_local std::array<c10::StreamId, kMaxDevices> tls_stream{};

std::string environment(const char* name, const char* fallback) {
  const char* value = std::getenv(name);
  return value && *value ? value : fallback;
}

presil_mode mode_number(const std::string& mode) {
  if (mode == "rtl") return PRESIL_MODE_RTL;
  if (mode == "model") return PRESIL_MODE_MODEL;
  if (mode == "verify") return PRESIL_MODE_VERIFY;
  TORCH_CHECK_VALUE(false, "presil: mode must be 'rtl', 'model' or 'verify', got '", mode, "'");
}

// Ctrl-C ends a running launch: a call into the driver may take minutes, and Python looks at signals only after it. The old handler
// (Python's: KeyboardInterrupt) runs as well.
struct sigaction previous_interrupt;

void on_interrupt(int number, siginfo_t* info, void* context) {
  for (int i = 0; i < kMaxDevices; i++)
    if (auto* handle = slots()[i].handle.load()) presil_device_cancel(handle);
  if (previous_interrupt.sa_flags & SA_SIGINFO)
    previous_interrupt.sa_sigaction(number, info, context);
  else if (previous_interrupt.sa_handler != SIG_DFL && previous_interrupt.sa_handler != SIG_IGN)
    previous_interrupt.sa_handler(number);
}

void catch_interrupt() {
  struct sigaction action {};
  action.sa_sigaction = on_interrupt;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  // Without a handler of Python's the default stays: the signal ends the process.
  if (sigaction(SIGINT, nullptr, &previous_interrupt) == 0 && previous_interrupt.sa_handler != SIG_DFL && previous_interrupt.sa_handler != SIG_IGN)
    sigaction(SIGINT, &action, nullptr);
}

presil_device* open_device(int index) {
  std::lock_guard<std::mutex> lock(open_mutex());
  Slot& slot = slots()[index];
  if (auto* handle = slot.handle.load()) return handle;
  const Settings& s = settings();
  presil_device_options options{};
  options.size = sizeof options;
  options.mode = mode_number(s.mode);
  options.config = s.chip.c_str();
  options.build = s.build.c_str();
  options.memory_model = s.memory_model.empty() ? nullptr : s.memory_model.c_str();
  options.seed = s.seed;
  presil_device* handle = nullptr;
  check(presil_device_open(&options, &handle), "opening the device");
  presil_device_info info{};
  info.size = sizeof info;
  check(presil_device_get_info(handle, &info), "reading device properties");
  slot.base = static_cast<char*>(presil_host_pointer(handle, info.memory_base, info.memory_bytes));
  TORCH_CHECK(slot.base, "presil:", index, ": the transport does not map device memory, which PyTorch tensors need");
  slot.bytes = info.memory_bytes;
  slot.handle.store(handle);
  static const bool caught = (catch_interrupt(), true);
  (void)caught;
  return handle;
}

}  // namespace

Settings& settings() {
  static auto* s = [] {
    auto* created = new Settings;
    created->chip = environment("PRESIL_CHIP", "base");
    created->mode = environment("PRESIL_MODE", "rtl");
    created->build = environment("PRESIL_BUILD", "fast");
    created->memory_model = environment("PRESIL_MEMORY_MODEL", "");
    return created;
  }();
  return *s;
}

int device_count() noexcept {
  static const int count = [] {
    int n = std::atoi(environment("PRESIL_DEVICES", "1").c_str());
    return n < 1 ? 1 : n > kMaxDevices ? kMaxDevices : n;
  }();
  return count;
}
int current_device() noexcept { return tls_device; }
void set_device_unchecked(int index) noexcept { tls_device = index; }
void set_device(int index) {
  TORCH_CHECK(index >= 0 && index < device_count(), "presil: device index ", index, " is out of range: there ", device_count() == 1 ? "is 1 device" : "are ",
              device_count() == 1 ? "" : std::to_string(device_count()) + " devices", " (PRESIL_DEVICES)");
  tls_device = index;
}

presil_device* device(int index) {
  TORCH_CHECK(getpid() == first_process,
              "presil: the device can't be used in a forked child process, because it shares device memory and the worker with its parent. "
              "Start workers with multiprocessing's 'spawn' method.");
  TORCH_CHECK(index >= 0 && index < device_count(), "presil: device index ", index, " is out of range (", device_count(), " device(s))");
  auto* handle = slots()[index].handle.load(std::memory_order_acquire);
  return handle ? handle : open_device(index);
}
presil_device* opened(int index) noexcept { return index >= 0 && index < kMaxDevices ? slots()[index].handle.load() : nullptr; }

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
  TORCH_CHECK(presil_device_address(device(index), host_pointer, &out), "presil:", index, ": pointer ", host_pointer, " is not in this device's memory");
  return out;
}

c10::StreamId current_stream_id(int index) noexcept { return tls_stream[index]; }
void set_current_stream_id(int index, c10::StreamId id) noexcept { tls_stream[index] = id; }
c10::StreamId new_stream_id(int index, int priority) {
  presil_stream* stream = nullptr;
  check(presil_stream_create(device(index), priority, &stream), "creating a stream");
  std::lock_guard<std::mutex> lock(open_mutex());
  slots()[index].streams.push_back(stream);
  return static_cast<c10::StreamId>(slots()[index].streams.size() - 1);
}
presil_stream* stream_of(int index, c10::StreamId id) {
  if (id == 0) return nullptr;
  std::lock_guard<std::mutex> lock(open_mutex());
  auto& streams = slots()[index].streams;
  TORCH_CHECK(id > 0 && static_cast<size_t>(id) < streams.size(), "presil:", index, ": no stream with id ", id);
  return streams[id];
}

void check(int status, const char* what) {
  if (status == PRESIL_OK) return;
  const std::string text = std::string("presil: ") + what + ": " + presil_error_text();
  switch (status) {
    case PRESIL_EINVAL:
      TORCH_CHECK_VALUE(false, text);
    case PRESIL_ENOMEM:
    case PRESIL_EHOSTMEM:
      TORCH_CHECK_WITH(OutOfMemoryError, false, text);
    case PRESIL_EUNSUPPORTED:
      TORCH_CHECK_NOT_IMPLEMENTED(false, text);
    default:
      TORCH_CHECK(false, text, " [", presil_status_name(static_cast<presil_status>(status)), "]");
  }
}

void mark_pending(int index) noexcept { slots()[index].pending.store(true, std::memory_order_release); }
void wait_pending(int index) {
  Slot& slot = slots()[index];
  if (!slot.pending.load(std::memory_order_acquire)) return;
  slot.pending.store(false);
  check(presil_device_synchronize(slot.handle.load()), "waiting for the chip");
}

void apply_mode(const std::string& mode) {
  const presil_mode number = mode_number(mode);
  for (int i = 0; i < device_count(); i++)
    if (auto* handle = opened(i)) check(presil_device_set_mode(handle, number), "switching the mode");
  settings().mode = mode;
}

void close_all() noexcept {
  for (int i = 0; i < device_count(); i++) {
    Slot& slot = slots()[i];
    if (auto* handle = slot.handle.load()) (void)!presil_device_synchronize(handle);
  }
}

}  // namespace presil
