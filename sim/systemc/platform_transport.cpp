// SPDX-License-Identifier: Apache-2.0
// presil_transport_ops over the platform. Simulated time passes in open, read32, write32, wait and reset only.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <new>

#include "platform.h"
#include "stage.h"
#include "transport_base.h"

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
  void step() override { run(1); }
  bool can(const Fault& fault, std::string* error) const override {
    const bool here = fault.kind != Fault::kLate && fault.kind != Fault::kUpset;
    if (!here)
      *error = "inject: late and upset are for the plain simulator: a platform's interrupts and state are its own";
    return here;
  }
  void strike(const Fault& fault) override {
    throw Stopped(fault.kind == Fault::kFatal ? "injected $fatal" : "injected $stop");
  }

 private:
  Platform& platform_;
};

Platform* offered = nullptr;
Stage* stage = nullptr;

}  // namespace

struct presil_transport : TransportState {
  explicit presil_transport(Platform& p) : platform(p), wait(p), waiter(wait) {}

  template <class Body> int perform(Body body) {
    const int code = stage->perform(body);
    if (!platform.stopped().empty()) throw Stopped(platform.stopped());
    return code;
  }
  void on_stop() noexcept {}
  bool idle() { return platform.idle(); }
  void begin(uint64_t launch) { platform.launch(launch); }
  void reset(bool) { platform.reset(); }
  uint64_t now() { return platform.dram().now(); }
  uint64_t cycles() { return platform.chip().cycles() - cycles_before; }
  unsigned word() { return platform.chip().word(); }
  void configure(uint64_t seed) { platform.dram().configure(memory_settings, seed); }
  WriteLog& write_log() { return platform.dram().state().write_log(); }
  void launched() {}
  void waited() {}
  void watch(bool on) {
    if (!on) return platform.chip().watch_writes({});
    platform.chip().watch_writes([this](uint64_t address, uint64_t bytes) { note_write(address, bytes); });
  }
  presil_bus_fault fault() { return platform.dram().state().fault(); }
  void set_faults(const Fault* faults, size_t count) { platform.dram().state().set_faults(faults, count); }
  bool traces() { return platform.chip().traces(); }
  std::string no_trace() {
    return "this chip's library (build " + platform.settings().build + ") has no tracing; the trace build has";
  }
  bool trace(const char* path, uint64_t first, uint64_t last) { return platform.chip().trace(path, first, last); }

  Platform& platform;
  PlatformWait wait;
  Waiter waiter;
  uint64_t cycles_before = 0;  // of the chip, when this transport was opened

 private:
  // Writes by DMI, which the DRAM doesn't see.
  void note_write(uint64_t address, uint64_t bytes) {
    for (uint64_t at = address - memory.base(), end = at + bytes; at < end;) {
      const uint64_t first = at % 64, count = std::min(64 - first, end - at);
      write_log().add(at - first, (~uint64_t{0} >> (64 - count)) << first, now());
      at += count;
    }
  }
};

namespace {

using Ops = TransportOps<presil_transport>;

bool taken = false;

int op_open(const presil_transport_options* options, presil_transport** out, char* error, size_t error_bytes) try {
  presil_transport_options o;
  int code = PRESIL_TRANSPORT_EINVAL;
  std::string text = Ops::read_options(options, out, &o);
  if (text.empty() && (!offered || taken)) text = "open: the platform is in use, or there is none";
  if (text.empty()) {
    auto t = std::make_unique<presil_transport>(*offered);
    if (Ops::take_options(t.get(), o, offered->chip().word(), &text)) {
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

// In the simulation.
int access(presil_transport* t, bool write, uint32_t offset, uint32_t* value) {
  const uint32_t registers = t->platform.chip().register_bytes();
  if (!register_exists(offset, registers))
    return t->fail(PRESIL_TRANSPORT_EINVAL, no_such_register(write ? "write32" : "read32", offset, registers));
  const tlm::tlm_response_status status =
      t->platform.host().access(write, t->platform.settings().registers + offset, value);
  if (status == tlm::TLM_OK_RESPONSE) return 0;
  const char* what = write ? "write" : "read";
  if (status == tlm::TLM_ADDRESS_ERROR_RESPONSE)
    return t->fail(PRESIL_TRANSPORT_EBUS, register_failed(what, offset, kAxiDecerr));
  return t->fail(PRESIL_TRANSPORT_EBUS,
                 std::string(what) + " of register " + hex(offset) + ": answered with an error, or not at all");
}

// Letting the simulation run and stopping it again costs more than an access.
int op_read32_many(presil_transport* t, const uint32_t* offsets, size_t count, uint32_t* values) {
  std::vector<uint32_t> read(count);
  const int code = Ops::guarded(t, [&] {
    for (size_t i = 0; i < count; i++) {
      const int failed = access(t, false, offsets[i], &read[i]);
      if (failed) return failed;
    }
    return 0;
  });
  if (!code) std::copy(read.begin(), read.end(), values);
  return code;
}

int op_read32(presil_transport* t, uint32_t offset, uint32_t* value) { return op_read32_many(t, &offset, 1, value); }

int op_write32(presil_transport* t, uint32_t offset, uint32_t value) {
  return Ops::guarded(t, [&] { return access(t, true, offset, &value); });
}

constexpr presil_transport_ops kOps =
    transport_table<presil_transport, op_open, op_close, op_info, op_read32, op_write32, op_read32_many>(nullptr);

}  // namespace

namespace presil {

void offer_platform(Platform* platform) {
  offered = platform;
  if (!stage) stage = new Stage("stage");  // lives as long as the simulation, which nothing ends but the process
}
const presil_transport_ops* platform_transport() { return &kOps; }

}  // namespace presil
