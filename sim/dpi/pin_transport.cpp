// SPDX-License-Identifier: Apache-2.0
// presil_transport_ops over a PinBench: what its fiber serves.
#include <cstdio>

#include "pin_bench.h"
#include "transport_base.h"

struct presil_transport : presil::TransportState {
  explicit presil_transport(presil::PinBench* b) : bench(b), waiter(*b) {}
  static std::unique_ptr<presil_transport> make(const presil_transport_options& o, std::string* error, int* code);
  void close() {
    write_log().stop();
    set_faults(nullptr, 0);
    bench->close();
    bench->memory().map(0, nullptr, 0);
  }

  template <class Body> int perform(Body body) { return body(); }
  void on_stop() noexcept {}
  void describe(presil_transport_info* info) {
    const uint64_t capabilities = info->capabilities | PRESIL_CAP_CLOCKED;
    *info = bench->info();
    info->capabilities = capabilities;
  }
  uint32_t registers() const { return bench->registers(); }
  int access(bool write, uint32_t offset, uint32_t* value) { return bench->access(write, offset, value); }
  bool idle() { return bench->idle(); }
  void begin(uint64_t launch) { bench->launch(launch); }
  void launched() {}
  void waited() {}
  void reset(bool) { bench->reset(); }
  uint64_t now() { return bench->now(); }
  uint64_t cycles() { return bench->now(); }
  unsigned word() { return bench->word(); }
  void configure(uint64_t seed) { bench->memory().configure(memory_settings, seed); }
  presil::WriteLog& write_log() { return bench->memory().write_log(); }
  void watch(bool) {}
  presil_bus_fault fault() { return bench->memory().fault(); }
  void set_faults(const presil::Fault* faults, size_t count) { bench->memory().set_faults(faults, count); }
  bool traces() const { return false; }
  std::string no_trace() const { return "not in the DPI module; waveforms: use the simulator's own commands"; }
  bool trace(const char*, uint64_t, uint64_t) { return false; }

  presil::PinBench* bench;
  presil::Waiter waiter;
};

std::unique_ptr<presil_transport> presil_transport::make(const presil_transport_options& o, std::string* error,
                                                         int* code) {
  presil::PinBench* bench = presil::PinBench::current();
  auto t = std::make_unique<presil_transport>(bench);
  if (!presil::TransportOps<presil_transport>::take_options(t.get(), o, bench->word(), error)) return nullptr;
  bench->memory().map(t->memory.base(), t->memory.host(), t->memory.bytes());
  t->configure(o.seed);
  bench->open(t->settings.monitor.value_or(true));
  try {
    bench->reset();
    bench->launch(0);
  } catch (const presil::Stopped& stop) {
    *code = PRESIL_TRANSPORT_ESTOPPED;
    *error = stop.what();
    t->close();
    return nullptr;
  }
  return t;
}

namespace {

constexpr presil_transport_ops kOps = presil::transport_table<presil_transport>(nullptr);

}  // namespace

const presil_transport_ops* presil::pin_transport() { return &kOps; }
