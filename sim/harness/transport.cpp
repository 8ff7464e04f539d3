// SPDX-License-Identifier: Apache-2.0
// The C boundary: presil_transport_ops over a Bench. Nothing C++ gets out of here.
#include "presil_transport.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "bench.h"
#include "device_memory.h"
#include "guard.h"
#include "presil_rtl_hash.h"
#include "registers.h"
#include "settings.h"
#include "stopped.h"
#include "waiter.h"
#include "write_times.h"

namespace presil {

class BenchWait : public Waitable {
 public:
  explicit BenchWait(Bench& bench) : bench_(bench) {}
  uint64_t now() const override { return bench_.now(); }
  uint64_t last_beat() const override { return bench_.memory().last_beat(); }
  bool irq() const override { return bench_.pins().irq; }
  void run(uint64_t limit) override { bench_.run(limit); }
  void end(const Fault& fault) override {
    if (fault.kind == Fault::kFatal) vl_fatal("inject", 0, "", "injected $fatal");
    vl_stop("inject", 0, "");
  }

 private:
  Bench& bench_;
};

}  // namespace presil

struct presil_transport {
  explicit presil_transport(uint64_t seed) : bench(seed), bench_wait(bench), waiter(bench_wait) {}

  presil::DeviceMemory memory;  // outlives the bench that points into it
  presil::Console console;
  presil::Bench bench;
  presil::BenchWait bench_wait;
  presil::Waiter waiter;
  presil::TransportSettings settings;
  presil::MemorySettings memory_settings;
  std::vector<presil_write_range> ranges;
  std::string error, stop_reason;
  bool stopped = false;
};

namespace {

using presil::ConsoleScope;
using presil::Guard;
using presil::keep_text;
using presil::Stopped;

constexpr int kCheckedCpu =
#if defined(__AVX512F__)
    2;
#elif defined(__AVX2__)
    1;
#else
    0;
#endif
constexpr const char* kCpuNames[] = {"baseline x86-64", "AVX2", "AVX-512"};

int fail(presil_transport* t, int code, std::string text) {
  t->error = std::move(text);
  return code;
}

// Runs `body`, which returns a code, as the model of this transport; what it throws becomes a code.
template <class Body> int guarded(presil_transport* t, Body body) {
  try {
    if (t->stopped) return fail(t, PRESIL_TRANSPORT_ESTOPPED, "a reset is needed: " + t->stop_reason);
    ConsoleScope scope(&t->console);
    t->bench.enter();
    return body();
  } catch (const Stopped& stop) {
    t->stopped = true;
    t->stop_reason = stop.what();
    t->bench.drop_trace();
    return fail(t, PRESIL_TRANSPORT_ESTOPPED, stop.what());
  } catch (const std::bad_alloc&) {
    return fail(t, PRESIL_TRANSPORT_ENOMEM, "out of host memory");
  } catch (const std::exception& e) {
    return fail(t, PRESIL_TRANSPORT_EIO, e.what());
  }
}

bool cpu_is_good() {
#if defined(__AVX512F__)
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw");
#elif defined(__AVX2__)
  return __builtin_cpu_supports("avx2");
#else
  return true;
#endif
}

// The new transport, or an error text.
std::unique_ptr<presil_transport> open_transport(const presil_transport_options& o, std::string* error, int* code) {
  auto t = std::make_unique<presil_transport>(o.seed);
  *code = PRESIL_TRANSPORT_EINVAL;
  if (!presil::parse_memory_settings(o.memory_model, presil::kWord, &t->memory_settings, error)) return nullptr;
  if (!presil::parse_transport_settings(o.options, &t->settings, error)) return nullptr;
  if (!t->memory.open(o.memory_fd, o.memory_base.value, o.memory_bytes, error)) return nullptr;
  t->bench.set_coverage(t->settings.coverage);
  if (t->settings.monitor) t->bench.set_monitored(*t->settings.monitor);
  t->console.log = o.log;
  t->console.log_context = o.log_context;
  ConsoleScope scope(&t->console);
  t->bench.memory().map(t->memory.base(), t->memory.host(), t->memory.bytes());
  t->bench.memory().configure(t->memory_settings, o.seed);
  *code = PRESIL_TRANSPORT_ESTOPPED;
  try {
    t->bench.restart();
    t->bench.launch(0);
  } catch (const Stopped& stop) {
    *error = stop.what();
    return nullptr;
  }
  *code = 0;
  return t;
}

int sim_open(const presil_transport_options* options, presil_transport** out, char* error, size_t error_bytes) {
  std::string text;
  int code = PRESIL_TRANSPORT_EINVAL;
  try {
    presil_transport_options o = {};
    o.memory_fd = -1;
    if (!options || !out || options->size < offsetof(presil_transport_options, memory_base)) {
      text = "open: options and out must be given, options->size set";
    } else {
      memcpy(&o, options, options->size < sizeof o ? options->size : sizeof o);
      if (o.abi != PRESIL_TRANSPORT_ABI) {
        text = "open: ABI " + std::to_string(PRESIL_TRANSPORT_ABI) + " expected, " + std::to_string(o.abi) + " given";
      } else if (!cpu_is_good()) {
        text = std::string("open: this library was built for ") + kCpuNames[kCheckedCpu] +
               ", which this CPU has not (rebuild with PRESIL_MARCH)";
      } else if (auto t = open_transport(o, &text, &code)) {
        *out = t.release();
        return 0;
      }
    }
  } catch (const std::bad_alloc&) {
    code = PRESIL_TRANSPORT_ENOMEM;
  } catch (const std::exception& e) {
    code = PRESIL_TRANSPORT_EIO;
    if (error && error_bytes) snprintf(error, error_bytes, "%s", e.what());
    return code;
  }
  if (error && error_bytes) snprintf(error, error_bytes, "%s", text.empty() ? "out of host memory" : text.c_str());
  return code;
}

void sim_close(presil_transport* t) {
  if (!t) return;
  t->bench.enter();
  delete t;
}

int sim_info(presil_transport* t, presil_transport_info* out) {
  presil_transport_info info = {};
  info.size = sizeof info;
  info.abi = PRESIL_TRANSPORT_ABI;
  info.capabilities = PRESIL_CAP_CLOCKED | PRESIL_CAP_WRITE_LOG | PRESIL_CAP_WRITE_TIMES | PRESIL_CAP_COHERENT;
  if (PRESIL_SIM_TRACE) info.capabilities |= PRESIL_CAP_TRACE;
  if (t->settings.map) info.capabilities |= PRESIL_CAP_MAPS;
  info.clock_mhz = PRESIL_SIM_CLOCK_MHZ;
  snprintf(info.chip, sizeof info.chip, "%s", PRESIL_SIM_CHIP);
  snprintf(info.config, sizeof info.config, "%s", PRESIL_SIM_CONFIG);
  snprintf(info.build, sizeof info.build, "%s", PRESIL_SIM_BUILD);
  snprintf(info.text, sizeof info.text, "Verilator %s, g++ %s, %s", Verilated::productVersion(), __VERSION__,
           kCpuNames[kCheckedCpu]);
  snprintf(info.rtl, sizeof info.rtl, "%s", PRESIL_SIM_RTL_HASH);
  presil::build_id(&kCpuNames, info.library, sizeof info.library);
  presil_transport_tell(&info, out);
  return 0;
}

const char* sim_last_error(presil_transport* t) noexcept { return t->error.c_str(); }

int check_register(presil_transport* t, const char* what, uint32_t offset, int response) {
  if (response == 0) return 0;
  return fail(t, PRESIL_TRANSPORT_EBUS, presil::register_failed(what, offset, response));
}

int check_offset(presil_transport* t, const char* call, uint32_t offset) {
  return presil::register_exists(offset) ? 0 : fail(t, PRESIL_TRANSPORT_EINVAL, presil::no_such_register(call, offset));
}

int sim_read32(presil_transport* t, uint32_t offset, uint32_t* value) {
  if (const int bad = check_offset(t, "read32", offset)) return bad;
  return guarded(t, [&] {
    uint32_t read = 0;
    const int code = check_register(t, "read", offset, t->bench.read32(offset, &read));
    if (!code) *value = read;
    return code;
  });
}

// The cycles of as many read32, without what each of them costs besides.
int sim_read32_many(presil_transport* t, const uint32_t* offsets, size_t count, uint32_t* values) {
  return guarded(t, [&] {
    std::vector<uint32_t> read(count);
    for (size_t i = 0; i < count; i++) {
      if (const int bad = check_offset(t, "read32", offsets[i])) return bad;
      if (const int failed = check_register(t, "read", offsets[i], t->bench.read32(offsets[i], &read[i])))
        return failed;
    }
    std::copy(read.begin(), read.end(), values);
    return 0;
  });
}

int sim_write32(presil_transport* t, uint32_t offset, uint32_t value) {
  if (const int bad = check_offset(t, "write32", offset)) return bad;
  return guarded(t, [&] { return check_register(t, "write", offset, t->bench.write32(offset, value)); });
}

int sim_region(presil_transport* t, uint32_t index, presil_region* out) {
  if (index) return fail(t, PRESIL_TRANSPORT_EINVAL, "region: there is one");
  *out = {{t->memory.base()}, t->memory.bytes(), t->settings.map ? t->memory.host() : nullptr};
  return 0;
}

int outside(presil_transport* t, const char* what, presil_daddr address, uint64_t bytes) {
  return fail(t, PRESIL_TRANSPORT_EBUS,
              presil::outside_memory(what, address.value, bytes, t->memory.base(), t->memory.bytes()));
}

int sim_mem_read(presil_transport* t, presil_daddr from, void* to, uint64_t bytes) {
  const uint8_t* p = t->memory.at(from.value, bytes);
  if (!p) return outside(t, "mem_read", from, bytes);
  memcpy(to, p, bytes);
  return 0;
}

int sim_mem_write(presil_transport* t, presil_daddr to, const void* from, uint64_t bytes) {
  uint8_t* p = t->memory.at(to.value, bytes);
  if (!p) return outside(t, "mem_write", to, bytes);
  memcpy(p, from, bytes);
  return 0;
}

// The mapping is what the chip reads and writes: nothing to synchronise.
int sim_sync(presil_transport* t, presil_daddr base, uint64_t bytes) {
  return t->memory.at(base.value, bytes) ? 0 : outside(t, "sync", base, bytes);
}

int sim_launch(presil_transport* t, uint64_t launch) {
  return guarded(t, [&] {
    if (!t->bench.memory().idle(t->bench.pins()))
      return fail(t, PRESIL_TRANSPORT_EINVAL, "launch: bus transactions are outstanding");
    t->bench.launch(launch);
    t->waiter.launched();
    return 0;
  });
}

int sim_wait(presil_transport* t, presil_wait* w) {
  if (!w || w->size < sizeof *w) return fail(t, PRESIL_TRANSPORT_EINVAL, "wait: size must be set");
  return guarded(t, [&] {
    t->bench.memory().write_log().waits(t->bench.now());
    t->waiter.wait(w);
    return 0;
  });
}

int sim_cycles(presil_transport* t, uint64_t* cycles) {
  *cycles = t->bench.now();
  return 0;
}

int sim_reset(presil_transport* t) {
  const bool stopped = t->stopped;
  t->stopped = false;
  return guarded(t, [&] {
    stopped ? t->bench.restart() : t->bench.reset();
    t->bench.launch(0);
    return 0;
  });
}

int sim_trace(presil_transport* t, const char* path, uint64_t first, uint64_t last) {
  if (!PRESIL_SIM_TRACE)
    return fail(t, PRESIL_TRANSPORT_ENOSYS,
                "trace: this library (build " PRESIL_SIM_BUILD ") has no tracing; the trace build has");
  if (path && (!*path || last < first))
    return fail(t, PRESIL_TRANSPORT_EINVAL, "trace: a path and first_cycle <= last_cycle are needed");
  return guarded(t, [&] {
    return t->bench.trace(path ? path : "", first, last)
               ? 0
               : fail(t, PRESIL_TRANSPORT_EINVAL, std::string("trace: cannot write ") + path);
  });
}

int sim_write_log(presil_transport* t, int on) {
  return guarded(t, [&] {
    on ? t->bench.memory().write_log().start(t->memory.bytes()) : t->bench.memory().write_log().stop();
    return 0;
  });
}

// Works after a stop too: it is then that one wants to know what was written.
int sim_write_log_fetch(presil_transport* t, const presil_write_range** ranges, size_t* count) try {
  if (!t->bench.memory().write_log().on()) return fail(t, PRESIL_TRANSPORT_EINVAL, "write_log_fetch: the log is off");
  t->bench.memory().write_log().take(t->memory.base(), &t->ranges);
  *ranges = t->ranges.data();
  *count = t->ranges.size();
  return 0;
} catch (const std::bad_alloc&) {
  return fail(t, PRESIL_TRANSPORT_ENOMEM, "out of host memory");
}

int sim_write_times(presil_transport* t, presil_daddr address, presil_write_time* out) {
  return presil::tell_times(t->bench.memory().write_log(), t->memory.base(), address.value, out)
             ? 0
             : fail(t, PRESIL_TRANSPORT_EINVAL, presil::kNoWriteTime);
}

int sim_bus_fault(presil_transport* t, presil_bus_fault* out) {
  *out = t->bench.memory().fault();
  return 0;
}

int sim_bus_open(presil_transport* t, presil_bus_open* out) {
  *out = t->bench.memory().oldest_open(t->bench.pins(), t->bench.now());
  return 0;
}

int sim_set_memory_model(presil_transport* t, const char* memory_model, uint64_t seed) {
  return guarded(t, [&] {
    if (!t->bench.memory().idle(t->bench.pins()))
      return fail(t, PRESIL_TRANSPORT_EINVAL, "set_memory_model: bus transactions are outstanding");
    std::string error;
    if (!presil::parse_memory_settings(memory_model, presil::kWord, &t->memory_settings, &error))
      return fail(t, PRESIL_TRANSPORT_EINVAL, error);
    t->bench.memory().configure(t->memory_settings, seed);
    return 0;
  });
}

int sim_inject(presil_transport* t, const char* text) {
  presil::Fault faults[presil::kMaxFaults];
  size_t count = 0;
  std::string error;
  if (!presil::parse_faults(text, faults, &count, &error)) return fail(t, PRESIL_TRANSPORT_EINVAL, error);
  t->bench.memory().set_faults(faults, count);
  t->waiter.set_faults(faults, count);
  return 0;
}

void note(presil_transport* t, const char* text) noexcept { keep_text(&t->error, text); }

// Whatever they throw stays here.
const presil_transport_ops kOps = {
    sizeof(presil_transport_ops),
    PRESIL_TRANSPORT_ABI,
    Guard<sim_open, note>::call,
    Guard<sim_close, note>::call,
    Guard<sim_info, note>::call,
    sim_last_error,
    Guard<sim_read32, note>::call,
    Guard<sim_write32, note>::call,
    Guard<sim_region, note>::call,
    Guard<sim_mem_read, note>::call,
    Guard<sim_mem_write, note>::call,
    Guard<sim_sync, note>::call,
    Guard<sim_sync, note>::call,
    Guard<sim_launch, note>::call,
    Guard<sim_wait, note>::call,
    Guard<sim_cycles, note>::call,
    Guard<sim_reset, note>::call,
    Guard<sim_trace, note>::call,
    Guard<sim_write_log, note>::call,
    Guard<sim_write_log_fetch, note>::call,
    Guard<sim_bus_fault, note>::call,
    Guard<sim_set_memory_model, note>::call,
    Guard<sim_inject, note>::call,
    Guard<sim_read32_many, note>::call,
    nullptr,
    Guard<sim_write_times, note>::call,
    Guard<sim_bus_open, note>::call,
};

}  // namespace

extern "C" __attribute__((visibility("default"))) const presil_transport_ops* presil_transport_entry(void) {
  return &kOps;
}
