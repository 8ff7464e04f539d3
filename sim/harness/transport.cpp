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

}  // namespace presil

struct presil_transport : presil::TransportState {
  explicit presil_transport(uint64_t seed) : bench(seed), bench_wait(bench), waiter(bench_wait) {}

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

namespace {

using presil::ConsoleScope;
using presil::Stopped;
using Ops = presil::TransportOps<presil_transport>;

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

// The new transport, or an error text.
std::unique_ptr<presil_transport> open_transport(const presil_transport_options& o, std::string* error, int* code) {
  auto t = std::make_unique<presil_transport>(o.seed);
  *code = PRESIL_TRANSPORT_EINVAL;
  if (!Ops::take_options(t.get(), o, presil::kWord, error)) return nullptr;
  if (!t->bench.set_coverage(t->settings.coverage, t->settings.coverage_launches, error)) return nullptr;
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
  presil_transport_options o;
  int code = PRESIL_TRANSPORT_EINVAL;
  std::string text = Ops::read_options(options, out, &o);
  if (text.empty() && !cpu_is_good()) {
    text = std::string("open: this library was built for ") + kCpuNames[kCheckedCpu] +
           ", which this CPU has not (rebuild with PRESIL_MARCH)";
  }
  if (text.empty()) {
    if (auto t = open_transport(o, &text, &code)) {
      *out = t.release();
      return 0;
    }
  }
  if (error && error_bytes) snprintf(error, error_bytes, "%s", text.c_str());
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

int check_register(presil_transport* t, const char* what, uint32_t offset, int response) {
  if (response == 0) return 0;
  return t->fail(PRESIL_TRANSPORT_EBUS, presil::register_failed(what, offset, response));
}

int check_offset(presil_transport* t, const char* call, uint32_t offset) {
  if (presil::register_exists(offset, presil::kChipRegisters)) return 0;
  return t->fail(PRESIL_TRANSPORT_EINVAL, presil::no_such_register(call, offset, presil::kChipRegisters));
}

int sim_read32(presil_transport* t, uint32_t offset, uint32_t* value) {
  if (const int bad = check_offset(t, "read32", offset)) return bad;
  return Ops::guarded(t, [&] {
    uint32_t read = 0;
    const int code = check_register(t, "read", offset, t->bench.read32(offset, &read));
    if (!code) *value = read;
    return code;
  });
}

// The cycles of as many read32, without what each of them costs besides.
int sim_read32_many(presil_transport* t, const uint32_t* offsets, size_t count, uint32_t* values) {
  return Ops::guarded(t, [&] {
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
  return Ops::guarded(t, [&] { return check_register(t, "write", offset, t->bench.write32(offset, value)); });
}

int sim_bus_open(presil_transport* t, presil_bus_open* out) {
  *out = t->bench.memory().oldest_open(t->bench.pins(), t->bench.now());
  return 0;
}

constexpr presil_transport_ops kOps =
    presil::transport_table<presil_transport, sim_open, sim_close, sim_info, sim_read32, sim_write32, sim_read32_many>(
        presil::Guard<sim_bus_open, Ops::note>::call);

}  // namespace

extern "C" __attribute__((visibility("default"))) const presil_transport_ops* presil_transport_entry(void) {
  return &kOps;
}
