// SPDX-License-Identifier: Apache-2.0
// presil_transport_ops over the platform. Simulated time passes in open, read32, write32, wait and reset only.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <new>

#include "device_memory.h"
#include "guard.h"
#include "platform.h"
#include "registers.h"
#include "settings.h"
#include "stage.h"
#include "stopped.h"
#include "waiter.h"
#include "write_times.h"

namespace {

using namespace presil;

class PlatformWait : public Waitable {
 public:
  explicit PlatformWait(Platform& platform) : platform_(platform) {}
  uint64_t now() const override { return platform_.chip().cycles(); }
  uint64_t last_beat() const override { return platform_.chip().last_beat(); }
  bool irq() const override { return platform_.irq(); }
  void run(uint64_t limit) override {
    platform_.host().synchronize();
    platform_.chip().run(limit);
    if (!platform_.stopped().empty()) throw Stopped(platform_.stopped());
  }
  void end(const Fault& fault) override {
    throw Stopped(fault.kind == Fault::kFatal ? "injected $fatal" : "injected $stop");
  }

 private:
  Platform& platform_;
};

Platform* offered = nullptr;
Stage* stage = nullptr;

}  // namespace

struct presil_transport {
  explicit presil_transport(Platform& p) : platform(p), wait(p), waiter(wait) {}

  Platform& platform;
  DeviceMemory memory;
  PlatformWait wait;
  Waiter waiter;
  TransportSettings settings;
  MemorySettings memory_settings;
  uint64_t cycles_before = 0;  // of the chip, when this transport was opened
  std::vector<presil_write_range> ranges;
  std::string error, stop_reason;
  bool stopped = false;
};

namespace {

bool taken = false;

int fail(presil_transport* t, int code, std::string text) {
  t->error = std::move(text);
  return code;
}

int stop(presil_transport* t, const std::string& why) {
  t->stopped = true;
  t->stop_reason = why;
  return fail(t, PRESIL_TRANSPORT_ESTOPPED, why);
}

// Runs `body`, which returns a code; what it throws becomes one.
template <class Body> int guarded(presil_transport* t, Body body) {
  if (t->stopped) return fail(t, PRESIL_TRANSPORT_ESTOPPED, "a reset is needed: " + t->stop_reason);
  try {
    const int code = stage->perform(body);
    return t->platform.stopped().empty() ? code : stop(t, t->platform.stopped());
  } catch (const Stopped& s) {
    return stop(t, s.what());
  } catch (const std::bad_alloc&) {
    return fail(t, PRESIL_TRANSPORT_ENOMEM, "out of host memory");
  } catch (const std::exception& e) {
    return fail(t, PRESIL_TRANSPORT_EIO, e.what());
  }
}

int op_open(const presil_transport_options* options, presil_transport** out, char* error, size_t error_bytes) try {
  std::string text;
  int code = PRESIL_TRANSPORT_EINVAL;
  presil_transport_options o = {};
  o.memory_fd = -1;
  if (!options || !out || options->size < offsetof(presil_transport_options, memory_base)) {
    text = "open: options and out must be given, options->size set";
  } else if (!offered || taken) {
    text = "open: the platform is in use, or there is none";
  } else {
    memcpy(&o, options, options->size < sizeof o ? options->size : sizeof o);
    auto t = std::make_unique<presil_transport>(*offered);
    if (o.abi != PRESIL_TRANSPORT_ABI) {
      text = "open: ABI " + std::to_string(PRESIL_TRANSPORT_ABI) + " expected, " + std::to_string(o.abi) + " given";
    } else if (parse_memory_settings(o.memory_model, offered->chip().word(), &t->memory_settings, &text) &&
               parse_transport_settings(o.options, &t->settings, &text) &&
               t->memory.open(o.memory_fd, o.memory_base.value, o.memory_bytes, &text)) {
      Platform& p = t->platform;
      p.map(t->memory.base(), t->memory.host(), t->memory.bytes());
      p.dram().configure(t->memory_settings, o.seed);
      p.chip().set_monitored(t->settings.monitor);
      stage->perform([&] {
        p.reset();
        p.launch(0);
        return 0;
      });
      if (p.stopped().empty()) {
        t->cycles_before = p.chip().cycles();
        taken = true;
        *out = t.release();
        return 0;
      }
      text = p.stopped();
      code = PRESIL_TRANSPORT_ESTOPPED;
      p.map(0, nullptr, 0);
    }
  }
  if (error && error_bytes) snprintf(error, error_bytes, "%s", text.c_str());
  return code;
} catch (const std::exception& e) {
  offered->map(0, nullptr, 0);
  if (error && error_bytes) snprintf(error, error_bytes, "open: %s", e.what());
  return PRESIL_TRANSPORT_EINVAL;
}

// What the chip was doing for this client has to end before its memory goes.
void op_close(presil_transport* t) {
  if (!t) return;
  try {
    stage->perform([&] {
      t->platform.reset();  // ends a waveform too
      return 0;
    });
  } catch (...) {  // a chip that stops in its reset is left as it is: the next open() resets it again
  }
  t->platform.dram().state().write_log().stop();
  t->platform.chip().watch_writes({});
  t->platform.dram().state().set_faults(nullptr, 0);
  t->platform.map(0, nullptr, 0);
  taken = false;
  delete t;
}

int op_info(presil_transport* t, presil_transport_info* out) {
  presil_transport_info info = {};
  const PlatformSettings& s = t->platform.settings();
  info.size = sizeof info;
  info.abi = PRESIL_TRANSPORT_ABI;
  info.capabilities = PRESIL_CAP_WRITE_LOG | PRESIL_CAP_WRITE_TIMES | PRESIL_CAP_COHERENT;
  if (!t->platform.chip().loosely_timed()) info.capabilities |= PRESIL_CAP_CLOCKED;
  if (t->platform.chip().traces()) info.capabilities |= PRESIL_CAP_TRACE;
  if (t->settings.map) info.capabilities |= PRESIL_CAP_MAPS;
  info.clock_mhz = s.clock_mhz;
  snprintf(info.chip, sizeof info.chip, "%s", t->platform.chip().kind());
  snprintf(info.config, sizeof info.config, "%s", s.config.c_str());
  snprintf(info.build, sizeof info.build, "%s", s.build.c_str());
  snprintf(info.text, sizeof info.text, "%s", t->platform.chip().about().c_str());
  snprintf(info.rtl, sizeof info.rtl, "%s", t->platform.chip().rtl_hash().c_str());
  snprintf(info.library, sizeof info.library, "%s", t->platform.chip().library().c_str());
  presil_transport_tell(&info, out);
  return 0;
}

const char* op_last_error(presil_transport* t) noexcept { return t->error.c_str(); }

// In the simulation.
int access(presil_transport* t, bool write, uint32_t offset, uint32_t* value) {
  if (!register_exists(offset))
    return fail(t, PRESIL_TRANSPORT_EINVAL, no_such_register(write ? "write32" : "read32", offset));
  const tlm::tlm_response_status status =
      t->platform.host().access(write, t->platform.settings().registers + offset, value);
  if (status == tlm::TLM_OK_RESPONSE) return 0;
  const char* what = write ? "write" : "read";
  if (status == tlm::TLM_ADDRESS_ERROR_RESPONSE)
    return fail(t, PRESIL_TRANSPORT_EBUS, register_failed(what, offset, kAxiDecerr));
  return fail(t, PRESIL_TRANSPORT_EBUS,
              std::string(what) + " of register " + hex(offset) + ": answered with an error, or not at all");
}

// Letting the simulation run and stopping it again costs more than an access.
int op_read32_many(presil_transport* t, const uint32_t* offsets, size_t count, uint32_t* values) try {
  std::vector<uint32_t> read(count);
  const int code = guarded(t, [&] {
    for (size_t i = 0; i < count; i++) {
      const int failed = access(t, false, offsets[i], &read[i]);
      if (failed) return failed;
    }
    return 0;
  });
  if (!code) std::copy(read.begin(), read.end(), values);
  return code;
} catch (const std::bad_alloc&) {
  return fail(t, PRESIL_TRANSPORT_ENOMEM, "out of host memory");
}

int op_read32(presil_transport* t, uint32_t offset, uint32_t* value) { return op_read32_many(t, &offset, 1, value); }

int op_write32(presil_transport* t, uint32_t offset, uint32_t value) {
  return guarded(t, [&] { return access(t, true, offset, &value); });
}

int op_region(presil_transport* t, uint32_t index, presil_region* out) {
  if (index) return fail(t, PRESIL_TRANSPORT_EINVAL, "region: there is one");
  *out = {{t->memory.base()}, t->memory.bytes(), t->settings.map ? t->memory.host() : nullptr};
  return 0;
}

int outside(presil_transport* t, const char* what, presil_daddr address, uint64_t bytes) {
  return fail(t, PRESIL_TRANSPORT_EBUS,
              outside_memory(what, address.value, bytes, t->memory.base(), t->memory.bytes()));
}

int op_mem_read(presil_transport* t, presil_daddr from, void* to, uint64_t bytes) {
  const uint8_t* p = t->memory.at(from.value, bytes);
  if (!p) return outside(t, "mem_read", from, bytes);
  memcpy(to, p, bytes);
  return 0;
}

int op_mem_write(presil_transport* t, presil_daddr to, const void* from, uint64_t bytes) {
  uint8_t* p = t->memory.at(to.value, bytes);
  if (!p) return outside(t, "mem_write", to, bytes);
  memcpy(p, from, bytes);
  return 0;
}

int op_sync(presil_transport* t, presil_daddr base, uint64_t bytes) {
  return t->memory.at(base.value, bytes) ? 0 : outside(t, "sync", base, bytes);
}

int op_launch(presil_transport* t, uint64_t launch) {
  return guarded(t, [&] {
    if (!t->platform.idle()) return fail(t, PRESIL_TRANSPORT_EINVAL, "launch: bus transactions are outstanding");
    t->platform.launch(launch);
    t->waiter.launched();
    return 0;
  });
}

int op_wait(presil_transport* t, presil_wait* w) {
  if (!w || w->size < sizeof *w) return fail(t, PRESIL_TRANSPORT_EINVAL, "wait: size must be set");
  return guarded(t, [&] {
    t->platform.dram().state().write_log().waits(t->platform.dram().now());
    t->waiter.wait(w);
    return 0;
  });
}

int op_cycles(presil_transport* t, uint64_t* cycles) {
  *cycles = t->platform.chip().cycles() - t->cycles_before;
  return 0;
}

int op_reset(presil_transport* t) {
  t->stopped = false;
  return guarded(t, [&] {
    t->platform.reset();
    t->platform.launch(0);
    return 0;
  });
}

int op_trace(presil_transport* t, const char* path, uint64_t first, uint64_t last) {
  if (!t->platform.chip().traces())
    return fail(t, PRESIL_TRANSPORT_ENOSYS,
                "trace: this chip's library (build " + t->platform.settings().build +
                    ") has no tracing; the trace build has");
  if (path && (!*path || last < first))
    return fail(t, PRESIL_TRANSPORT_EINVAL, "trace: a path and first_cycle <= last_cycle are needed");
  return guarded(t, [&] {
    return t->platform.chip().trace(path ? path : "", first, last)
               ? 0
               : fail(t, PRESIL_TRANSPORT_EINVAL, std::string("trace: cannot write ") + path);
  });
}

// Writes by DMI, which the DRAM doesn't see.
void note_write(presil_transport* t, uint64_t address, uint64_t bytes) {
  WriteLog& log = t->platform.dram().state().write_log();
  const uint64_t now = t->platform.dram().now();
  for (uint64_t at = address - t->memory.base(), end = at + bytes; at < end;) {
    const uint64_t first = at % 64, count = std::min(64 - first, end - at);
    log.add(at - first, (~uint64_t{0} >> (64 - count)) << first, now);
    at += count;
  }
}

int op_write_log(presil_transport* t, int on) {
  return guarded(t, [&] {
    WriteLog& log = t->platform.dram().state().write_log();
    on ? log.start(t->memory.bytes()) : log.stop();
    t->platform.chip().watch_writes(
        on ? Chip::WriteWatch([t](uint64_t address, uint64_t bytes) { note_write(t, address, bytes); })
           : Chip::WriteWatch());
    return 0;
  });
}

int op_write_log_fetch(presil_transport* t, const presil_write_range** ranges, size_t* count) try {
  WriteLog& log = t->platform.dram().state().write_log();
  if (!log.on()) return fail(t, PRESIL_TRANSPORT_EINVAL, "write_log_fetch: the log is off");
  log.take(t->memory.base(), &t->ranges);
  *ranges = t->ranges.data();
  *count = t->ranges.size();
  return 0;
} catch (const std::bad_alloc&) {
  return fail(t, PRESIL_TRANSPORT_ENOMEM, "out of host memory");
}

int op_write_times(presil_transport* t, presil_daddr address, presil_write_time* out) {
  return presil::tell_times(t->platform.dram().state().write_log(), t->memory.base(), address.value, out)
             ? 0
             : fail(t, PRESIL_TRANSPORT_EINVAL, presil::kNoWriteTime);
}

int op_bus_fault(presil_transport* t, presil_bus_fault* out) {
  *out = t->platform.dram().state().fault();
  return 0;
}

int op_set_memory_model(presil_transport* t, const char* memory_model, uint64_t seed) {
  return guarded(t, [&] {
    if (!t->platform.idle())
      return fail(t, PRESIL_TRANSPORT_EINVAL, "set_memory_model: bus transactions are outstanding");
    std::string error;
    if (!parse_memory_settings(memory_model, t->platform.chip().word(), &t->memory_settings, &error))
      return fail(t, PRESIL_TRANSPORT_EINVAL, error);
    t->platform.dram().configure(t->memory_settings, seed);
    return 0;
  });
}

int op_inject(presil_transport* t, const char* text) {
  Fault faults[kMaxFaults];
  size_t count = 0;
  std::string error;
  if (!parse_faults(text, faults, &count, &error)) return fail(t, PRESIL_TRANSPORT_EINVAL, error);
  t->platform.dram().state().set_faults(faults, count);
  t->waiter.set_faults(faults, count);
  return 0;
}

void note(presil_transport* t, const char* text) noexcept { keep_text(&t->error, text); }

// Whatever they throw stays here.
const presil_transport_ops kOps = {
    sizeof(presil_transport_ops),
    PRESIL_TRANSPORT_ABI,
    Guard<op_open, note>::call,
    Guard<op_close, note>::call,
    Guard<op_info, note>::call,
    op_last_error,
    Guard<op_read32, note>::call,
    Guard<op_write32, note>::call,
    Guard<op_region, note>::call,
    Guard<op_mem_read, note>::call,
    Guard<op_mem_write, note>::call,
    Guard<op_sync, note>::call,
    Guard<op_sync, note>::call,
    Guard<op_launch, note>::call,
    Guard<op_wait, note>::call,
    Guard<op_cycles, note>::call,
    Guard<op_reset, note>::call,
    Guard<op_trace, note>::call,
    Guard<op_write_log, note>::call,
    Guard<op_write_log_fetch, note>::call,
    Guard<op_bus_fault, note>::call,
    Guard<op_set_memory_model, note>::call,
    Guard<op_inject, note>::call,
    Guard<op_read32_many, note>::call,
    nullptr,
    Guard<op_write_times, note>::call,
    nullptr,
};

}  // namespace

namespace presil {

void offer_platform(Platform* platform) {
  offered = platform;
  if (!stage) stage = new Stage("stage");  // lives as long as the simulation, which nothing ends but the process
}
const presil_transport_ops* platform_transport() { return &kOps; }

}  // namespace presil
