// SPDX-License-Identifier: Apache-2.0
// The C boundary: presil_transport_ops over a Bench. Nothing C++ gets out of here.
#include "presil_transport.h"

#include <cstdio>
#include <cstring>
#include <memory>

#include "bench.h"
#include "presil_rtl_hash.h"
#include "transport_base.h"

namespace presil {

class BenchWait : public Waitable {
 public:
  explicit BenchWait(Bench& bench) : bench_(bench) {}
  uint64_t now() const override { return bench_.now(); }
  uint64_t last_beat() const override { return bench_.memory().last_beat(); }
  bool irq() const override { return bench_.pins().irq; }
  void run(uint64_t limit) override { bench_.run(limit); }
  void step() override { bench_.step(); }
  bool can(const Fault& fault, std::string* error) const override { return bench_.can(fault, error); }
  void strike(const Fault& fault) override {
    if (fault.kind == Fault::kUpset) return bench_.upset(fault);
    if (fault.kind == Fault::kFatal) vl_fatal("inject", 0, "", "injected $fatal");
    vl_stop("inject", 0, "");
  }

 private:
  Bench& bench_;
};

namespace {

constexpr int kCheckedCpu =
#if defined(__AVX512F__)
    2;
#elif defined(__AVX2__)
    1;
#else
    0;
#endif
constexpr const char* kCpuNames[] = {"baseline x86-64", "AVX2", "AVX-512"};

bool cpu_is_good() {
#if defined(__AVX512F__)
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw");
#elif defined(__AVX2__)
  return __builtin_cpu_supports("avx2");
#else
  return true;
#endif
}

}  // namespace

}  // namespace presil

struct presil_transport : presil::TransportState {
  explicit presil_transport(uint64_t seed) : bench(seed), bench_wait(bench), waiter(bench_wait) {}
  static std::unique_ptr<presil_transport> make(const presil_transport_options& o, std::string* error, int* code);
  void close() { bench.enter(); }

  template <class Body> int perform(Body body) {
    presil::ConsoleScope scope(&console);
    bench.enter();
    return body();
  }
  void on_stop() noexcept {
    bench.drop_trace();
    waited();
  }
  void launched() { bench.launch_coverage(); }
  void waited() noexcept {
    if (bench.keep_coverage() || !console.log) return;
    console.log(console.log_context, "coverage can't be written any more (a full disk?): it ends here");
  }
  void describe(presil_transport_info* info);
  uint32_t registers() const { return presil::kChipRegisters; }
  int access(bool write, uint32_t offset, uint32_t* value) {
    return write ? bench.write32(offset, *value) : bench.read32(offset, value);
  }
  bool idle() { return bench.memory().idle(bench.pins()); }
  void begin(uint64_t launch) { bench.launch(launch); }
  void reset(bool was_stopped) { was_stopped ? bench.restart() : bench.reset(); }
  uint64_t now() { return bench.now(); }
  uint64_t cycles() { return bench.now(); }
  unsigned word() const { return presil::kWord; }
  void configure(uint64_t seed) { bench.memory().configure(memory_settings, seed); }
  presil::WriteLog& write_log() { return bench.memory().write_log(); }
  void watch(bool) {}
  presil_bus_fault fault() { return bench.memory().fault(); }
  void set_faults(const presil::Fault* faults, size_t count) { bench.memory().set_faults(faults, count); }
  bool traces() const { return PRESIL_SIM_TRACE; }
  std::string no_trace() const {
    return "this library (build " PRESIL_SIM_BUILD ") has no tracing; the trace build has";
  }
  bool trace(const char* path, uint64_t first, uint64_t last) { return bench.trace(path, first, last); }

  presil::Console console;
  presil::Bench bench;
  presil::BenchWait bench_wait;
  presil::Waiter waiter;
};

std::unique_ptr<presil_transport> presil_transport::make(const presil_transport_options& o, std::string* error,
                                                         int* code) {
  if (!presil::cpu_is_good()) {
    *error = std::string("open: this library was built for ") + presil::kCpuNames[presil::kCheckedCpu] +
             ", which this CPU has not (rebuild with PRESIL_MARCH)";
    return nullptr;
  }
  auto t = std::make_unique<presil_transport>(o.seed);
  if (!presil::TransportOps<presil_transport>::take_options(t.get(), o, presil::kWord, error)) return nullptr;
  if (!t->bench.set_coverage(t->settings.coverage, t->settings.coverage_launches, error)) return nullptr;
  if (t->settings.monitor) t->bench.set_monitored(*t->settings.monitor);
  t->console.log = o.log;
  t->console.log_context = o.log_context;
  presil::ConsoleScope scope(&t->console);
  t->bench.memory().map(t->memory.base(), t->memory.host(), t->memory.bytes());
  t->bench.memory().configure(t->memory_settings, o.seed);
  try {
    t->bench.restart();
    t->bench.launch(0);
  } catch (const presil::Stopped& stop) {
    *code = PRESIL_TRANSPORT_ESTOPPED;
    *error = stop.what();
    return nullptr;
  }
  return t;
}

void presil_transport::describe(presil_transport_info* info) {
  info->capabilities |= PRESIL_CAP_CLOCKED;
  info->clock_mhz = PRESIL_SIM_CLOCK_MHZ;
  snprintf(info->chip, sizeof info->chip, "%s", PRESIL_SIM_CHIP);
  snprintf(info->config, sizeof info->config, "%s", PRESIL_SIM_CONFIG);
  snprintf(info->build, sizeof info->build, "%s", PRESIL_SIM_BUILD);
  snprintf(info->text, sizeof info->text, "Verilator %s, g++ %s, %s", Verilated::productVersion(), __VERSION__,
           presil::kCpuNames[presil::kCheckedCpu]);
  snprintf(info->rtl, sizeof info->rtl, "%s", PRESIL_SIM_RTL_HASH);
  presil::build_id(&presil::kCpuNames, info->library, sizeof info->library);
}

namespace {

using Ops = presil::TransportOps<presil_transport>;

int sim_bus_open(presil_transport* t, presil_bus_open* out) {
  *out = t->bench.memory().oldest_open(t->bench.pins(), t->bench.now());
  return 0;
}

constexpr presil_transport_ops kOps =
    presil::transport_table<presil_transport>(presil::Guard<sim_bus_open, Ops::note>::call);

}  // namespace

extern "C" __attribute__((visibility("default"))) const presil_transport_ops* presil_transport_entry(void) {
  return &kOps;
}
