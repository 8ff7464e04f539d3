// SPDX-License-Identifier: Apache-2.0
// presil_transport_ops over every simulation in this process: its registers, its memory, its limits, and codes for what
// is thrown. A simulation says the rest in its presil_transport, which is derived from TransportState:
//
//   static unique_ptr<presil_transport> make(const presil_transport_options&, std::string* error)
//   bool attach(uint64_t seed, std::string* why)  has its options and memory: takes them; a reset follows
//   void close()                             after attach(), before it is deleted
//   template <class Body> int perform(Body)  runs it where simulated time may pass; throws Stopped
//   void describe(presil_transport_info*)    what it is; capabilities beside those of every simulation
//   uint32_t registers()                     bytes of them
//   int access(bool write, uint32_t offset, uint32_t* value)  the bus's response; -1: none; kUnclear
//   bool idle()                              no bus transaction is open
//   void begin(uint64_t launch)              memory model and arbiters as a launch finds them
//   void reset(bool stopped)                 stopped: the model has, or there is none yet
//   uint64_t now(), cycles()                 of the memory; of the chip, since open()
//   unsigned word()                          bytes of the bus
//   void configure(uint64_t seed)            the memory takes memory_settings
//   AxiMemoryState& model()                  of the memory
//   bool traces(); std::string no_trace(); bool trace(const char* path, uint64_t first, uint64_t last)
//   Waiter waiter
//
// and, where it has more to do than TransportState:
//   void on_stop() noexcept                  the model has thrown Stopped
//   void launched(), waited()                after begin() of a launch; after a wait
//   void watch(bool on)                      the log begins or ends
//   std::string timing()                     what cycles depend on beside memory_settings and memory_seed; empty: on
//   more
//   uint32_t chip_mhz()                      its clock, for a DRAM's; 0: not known
#pragma once
#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "axi_memory.h"
#include "guard.h"
#include "mapped_memory.h"
#include "presil_transport.h"
#include "register_rules.h"
#include "stopped.h"
#include "transport_settings.h"
#include "waiter.h"
#include "write_times.h"

namespace presil {

struct TransportState {
  DeviceMemory memory;  // outlives what is derived and points into it
  TransportSettings settings;
  MemorySettings memory_settings;
  std::vector<presil_write_range> ranges;
  std::string error, stop_reason;
  uint64_t memory_seed = 0;
  bool stopped = false, faulty = false;  // faulty: a fault is injected

  int fail(int code, std::string text) {
    error = std::move(text);
    return code;
  }
  void on_stop() noexcept {}
  void launched() {}
  void waited() {}
  void watch(bool) {}
  std::string timing() const { return {}; }
  uint32_t chip_mhz() const { return 0; }
};

// T: presil_transport, complete.
template <class T> struct TransportOps {
  // Runs `body`, which returns a code, in the simulation; what it throws becomes one.
  template <class Body> static int guarded(T* t, Body body) {
    if (t->stopped) return t->fail(PRESIL_TRANSPORT_ESTOPPED, "a reset is needed: " + t->stop_reason);
    try {
      return t->perform(body);
    } catch (const Stopped& stop) {
      t->stopped = true;
      t->stop_reason = stop.what();
      t->on_stop();
      return t->fail(PRESIL_TRANSPORT_ESTOPPED, stop.what());
    }
  }

  static const char* last_error(T* t) noexcept { return t->error.c_str(); }
  static void note(T* t, const char* text) noexcept { keep_text(&t->error, text); }

  static int open(const presil_transport_options* options, presil_transport** out, char* error, size_t error_bytes) {
    presil_transport_options o;
    int code = PRESIL_TRANSPORT_EINVAL;
    std::string text = read_options(options, out, &o);
    if (text.empty()) {
      if (auto t = opened(o, &text, &code)) {
        *out = t.release();
        return 0;
      }
    }
    if (error && error_bytes) snprintf(error, error_bytes, "%s", text.c_str());
    return code;
  }

  static void close(T* t) {
    const std::unique_ptr<T> ends(t);
    if (t) end(t);
  }

  static int info(T* t, presil_transport_info* out) {
    presil_transport_info info = {};
    info.size = sizeof info;
    info.abi = PRESIL_TRANSPORT_ABI;
    info.capabilities = PRESIL_CAP_WRITE_LOG | PRESIL_CAP_WRITE_TIMES | PRESIL_CAP_COHERENT;
    if (t->traces()) info.capabilities |= PRESIL_CAP_TRACE;
    if (t->settings.map) info.capabilities |= PRESIL_CAP_MAPS;
    t->describe(&info);
    presil_transport_tell(&info, out);
    return 0;
  }

  static int read32(T* t, uint32_t offset, uint32_t* value) {
    return guarded(t, [&] {
      uint32_t read = 0;
      const int code = access(t, false, offset, &read);
      if (!code) *value = read;
      return code;
    });
  }

  // The cycles of as many read32, without what each of them costs besides.
  static int read32_many(T* t, const uint32_t* offsets, size_t count, uint32_t* values) {
    return guarded(t, [&] {
      std::vector<uint32_t> read(count);
      for (size_t i = 0; i < count; i++) {
        if (const int failed = access(t, false, offsets[i], &read[i])) return failed;
      }
      std::copy(read.begin(), read.end(), values);
      return 0;
    });
  }

  static int write32(T* t, uint32_t offset, uint32_t value) {
    return guarded(t, [&] { return access(t, true, offset, &value); });
  }

  static int region(T* t, uint32_t index, presil_region* out) {
    if (index) return t->fail(PRESIL_TRANSPORT_EINVAL, "region: there is one");
    *out = {{t->memory.base()}, t->memory.bytes(), t->settings.map ? t->memory.host() : nullptr};
    return 0;
  }

  static int mem_read(T* t, presil_daddr from, void* to, uint64_t bytes) {
    const uint8_t* p = t->memory.at(from.value, bytes);
    if (!p) return outside(t, "mem_read", from, bytes);
    memcpy(to, p, bytes);
    return 0;
  }

  static int mem_write(T* t, presil_daddr to, const void* from, uint64_t bytes) {
    uint8_t* p = t->memory.at(to.value, bytes);
    if (!p) return outside(t, "mem_write", to, bytes);
    memcpy(p, from, bytes);
    return 0;
  }

  // The mapping is what the chip reads and writes: nothing to synchronise.
  static int sync(T* t, presil_daddr base, uint64_t bytes) {
    return t->memory.at(base.value, bytes) ? 0 : outside(t, "sync", base, bytes);
  }

  static int launch(T* t, uint64_t launch) {
    return guarded(t, [&] {
      if (!t->idle()) return busy(t, "launch");
      t->begin(launch);
      t->launched();
      t->waiter.launched();
      return 0;
    });
  }

  static int wait(T* t, presil_wait* w) {
    if (!w || w->size < sizeof *w) return t->fail(PRESIL_TRANSPORT_EINVAL, "wait: size must be set");
    return guarded(t, [&] {
      t->model().write_log().waits(t->now());
      t->waiter.wait(w);
      t->waited();
      return 0;
    });
  }

  static int cycles(T* t, uint64_t* out) {
    *out = t->cycles();
    return 0;
  }

  static int reset(T* t) {
    const bool stopped = std::exchange(t->stopped, false);
    return guarded(t, [&] {
      t->reset(stopped);
      t->begin(0);
      return 0;
    });
  }

  static int trace(T* t, const char* path, uint64_t first, uint64_t last) {
    if (!t->traces()) return t->fail(PRESIL_TRANSPORT_ENOSYS, "trace: " + t->no_trace());
    if (path && (!*path || last < first))
      return t->fail(PRESIL_TRANSPORT_EINVAL, "trace: a path and first_cycle <= last_cycle are needed");
    return guarded(t, [&] {
      if (t->trace(path ? path : "", first, last)) return 0;
      return t->fail(PRESIL_TRANSPORT_EINVAL, std::string("trace: cannot write ") + path);
    });
  }

  static int log_writes(T* t, int on) {
    return guarded(t, [&] {
      on ? t->model().write_log().start(t->memory.bytes()) : t->model().write_log().stop();
      t->watch(on);
      return 0;
    });
  }

  // Works after a stop too: it is then that one wants to know what was written.
  static int fetch_log(T* t, const presil_write_range** ranges, size_t* count) {
    if (!t->model().write_log().on()) return t->fail(PRESIL_TRANSPORT_EINVAL, "write_log_fetch: the log is off");
    t->model().write_log().take(t->memory.base(), &t->ranges);
    *ranges = t->ranges.data();
    *count = t->ranges.size();
    return 0;
  }

  static int write_times(T* t, presil_daddr address, presil_write_time* out) {
    if (tell_times(t->model().write_log(), t->memory.base(), address.value, out)) return 0;
    return t->fail(PRESIL_TRANSPORT_EINVAL, kNoWriteTime);
  }

  static int bus_fault(T* t, presil_bus_fault* out) {
    *out = t->model().fault();
    return 0;
  }

  static int set_memory_model(T* t, const char* memory_model, uint64_t seed) {
    return guarded(t, [&] {
      if (!t->idle()) return busy(t, "set_memory_model");
      std::string error;
      if (!parse_memory(t, memory_model, &error)) return t->fail(PRESIL_TRANSPORT_EINVAL, error);
      t->configure(seed);
      t->memory_seed = seed;
      return 0;
    });
  }

  static int timing(T* t, char* text, size_t bytes) {
    if (t->faulty) return t->fail(PRESIL_TRANSPORT_ENOSYS, "timing: faults are injected");
    const std::string own = t->timing();
    if (own.empty()) return t->fail(PRESIL_TRANSPORT_ENOSYS, "timing: it depends on more than can be said");
    const std::string all =
        own + " memory=" + memory_text(t->memory_settings) + " seed=" + std::to_string(t->memory_seed);
    if (!text || all.size() >= bytes)
      return t->fail(PRESIL_TRANSPORT_EINVAL,
                     "timing: room for " + std::to_string(all.size() + 1) + " bytes is needed");
    memcpy(text, all.c_str(), all.size() + 1);
    return 0;
  }

  static int inject(T* t, const char* text) {
    Fault faults[kMaxFaults];
    size_t count = 0;
    std::string error;
    if (!parse_faults(text, faults, &count, &error)) return t->fail(PRESIL_TRANSPORT_EINVAL, error);
    for (size_t i = 0; i < count; i++) {
      if (!t->waiter.can(faults[i], &error)) return t->fail(PRESIL_TRANSPORT_EINVAL, error);
    }
    t->model().set_faults(faults, count);
    t->waiter.set_faults(faults, count);
    t->faulty = count != 0;
    return 0;
  }

  // The options of open(), as far as they are known; an error text, or an empty one.
  static std::string read_options(const presil_transport_options* options, presil_transport** out,
                                  presil_transport_options* to) {
    *to = {};
    to->memory_fd = -1;
    if (!options || !out || options->size < offsetof(presil_transport_options, memory_base))
      return "open: options and out must be given, options->size set";
    memcpy(to, options, options->size < sizeof *to ? options->size : sizeof *to);
    if (to->abi == PRESIL_TRANSPORT_ABI) return "";
    return "open: ABI " + std::to_string(PRESIL_TRANSPORT_ABI) + " expected, " + std::to_string(to->abi) + " given";
  }

  // Settings and memory of a transport that is being opened.
  static bool take_options(T* t, const presil_transport_options& o, std::string* error) {
    return parse_memory(t, o.memory_model, error) && parse_transport_settings(o.options, &t->settings, error) &&
           t->memory.open(o.memory_fd, o.memory_base.value, o.memory_bytes, error);
  }

 private:
  static bool parse_memory(T* t, const char* text, std::string* error) {
    MemorySettings s;
    if (!parse_memory_settings(text, t->word(), &s, error)) return false;
    if (s.dram.on() && !s.dram.clock) s.dram.clock = t->chip_mhz();
    if (s.dram.on() && !s.dram.clock) {
      *error = "memory model: \"" + std::string(text) + "\": the chip's clock is not known: add clock=MHZ";
      return false;
    }
    t->memory_settings = s;
    return true;
  }
  // With its chip reset; nullptr: a code and a text.
  static std::unique_ptr<T> opened(const presil_transport_options& o, std::string* error, int* code) {
    std::unique_ptr<T> t = T::make(o, error);
    if (!t || !take_options(t.get(), o, error)) return nullptr;
    try {
      t->memory_seed = o.seed;
      if (!t->attach(o.seed, error)) return nullptr;
      t->perform([&] {
        t->reset(true);
        t->begin(0);
        return 0;
      });
      return t;
    } catch (const Stopped& stop) {
      *code = PRESIL_TRANSPORT_ESTOPPED;
      *error = stop.what();
      end(t.get());
    } catch (...) {
      end(t.get());
      throw;
    }
    return nullptr;
  }
  static void end(T* t) {
    t->model().write_log().stop();
    t->model().set_faults(nullptr, 0);
    t->close();
  }
  static int access(T* t, bool write, uint32_t offset, uint32_t* value) {
    if (!register_exists(offset, t->registers()))
      return t->fail(PRESIL_TRANSPORT_EINVAL, no_such_register(write ? "write32" : "read32", offset, t->registers()));
    const int response = t->access(write, offset, value);
    if (response == 0) return 0;
    return t->fail(PRESIL_TRANSPORT_EBUS, register_failed(write ? "write" : "read", offset, response));
  }
  static int busy(T* t, const char* call) {
    return t->fail(PRESIL_TRANSPORT_EINVAL, std::string(call) + ": bus transactions are outstanding");
  }
  static int outside(T* t, const char* what, presil_daddr address, uint64_t bytes) {
    return t->fail(PRESIL_TRANSPORT_EBUS,
                   outside_memory(what, address.value, bytes, t->memory.base(), t->memory.bytes()));
  }
};

// The table; bus_open may be nullptr.
template <class T>
constexpr presil_transport_ops transport_table(int (*bus_open)(presil_transport*, presil_bus_open*)) {
  using Ops = TransportOps<T>;
  return {
      sizeof(presil_transport_ops),
      PRESIL_TRANSPORT_ABI,
      Guard<Ops::open, Ops::note>::call,
      Guard<Ops::close, Ops::note>::call,
      Guard<Ops::info, Ops::note>::call,
      Ops::last_error,
      Guard<Ops::read32, Ops::note>::call,
      Guard<Ops::write32, Ops::note>::call,
      Guard<Ops::region, Ops::note>::call,
      Guard<Ops::mem_read, Ops::note>::call,
      Guard<Ops::mem_write, Ops::note>::call,
      Guard<Ops::sync, Ops::note>::call,
      Guard<Ops::sync, Ops::note>::call,
      Guard<Ops::launch, Ops::note>::call,
      Guard<Ops::wait, Ops::note>::call,
      Guard<Ops::cycles, Ops::note>::call,
      Guard<Ops::reset, Ops::note>::call,
      Guard<Ops::trace, Ops::note>::call,
      Guard<Ops::log_writes, Ops::note>::call,
      Guard<Ops::fetch_log, Ops::note>::call,
      Guard<Ops::bus_fault, Ops::note>::call,
      Guard<Ops::set_memory_model, Ops::note>::call,
      Guard<Ops::inject, Ops::note>::call,
      Guard<Ops::read32_many, Ops::note>::call,
      nullptr,
      Guard<Ops::write_times, Ops::note>::call,
      bus_open,
      nullptr,
      nullptr,
      Guard<Ops::timing, Ops::note>::call,
  };
}

}  // namespace presil
