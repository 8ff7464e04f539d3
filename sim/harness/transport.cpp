// SPDX-License-Identifier: Apache-2.0
// The C boundary: presil_transport_ops over a Bench. Nothing C++ gets out of here.
#include "presil_transport.h"

#include <cstdio>
#include <cstring>
#include <memory>

#include "huge_code.h"
#include "presil_rtl_hash.h"
#include "rtl_bench.h"
#include "transport_base.h"

namespace presil {

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

#if PRESIL_SIM_HUGE_CODE
// While the library is loaded: nobody runs it yet.
const bool kOnHugePage = code_on_huge_page(reinterpret_cast<const void*>(&code_on_huge_page));
#endif

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
  explicit presil_transport(const presil_transport_options& o);
  static std::unique_ptr<presil_transport> make(const presil_transport_options& o, std::string* error);
  bool attach(uint64_t seed, std::string* why);
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
  std::string timing() const {
    return "rtl=" PRESIL_SIM_RTL_HASH " harness=" PRESIL_SIM_HARNESS_HASH " chip=" PRESIL_SIM_CHIP "/" PRESIL_SIM_CONFIG
           " build=" PRESIL_SIM_BUILD " verilator=" +
           std::string(Verilated::productVersion());
  }
  uint32_t registers() const { return presil::kChipRegisters; }
  uint32_t chip_mhz() const { return PRESIL_SIM_CLOCK_MHZ; }
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
  presil::AxiMemoryState& model() { return bench.memory(); }
  bool traces() const { return PRESIL_SIM_TRACE; }
  std::string no_trace() const {
    return "this library (build " PRESIL_SIM_BUILD ") has no tracing; the trace build has";
  }
  bool trace(const char* path, uint64_t first, uint64_t last) { return bench.trace(path, first, last); }

  presil::Console console;
  presil::Bench bench;
  presil::Waiter waiter;
};

presil_transport::presil_transport(const presil_transport_options& o) : bench(o.seed), waiter(bench) {
  console.log = o.log;
  console.log_context = o.log_context;
}

std::unique_ptr<presil_transport> presil_transport::make(const presil_transport_options& o, std::string* error) {
  if (presil::cpu_is_good()) return std::make_unique<presil_transport>(o);
  *error = std::string("open: this library was built for ") + presil::kCpuNames[presil::kCheckedCpu] +
           ", which this CPU has not (rebuild with PRESIL_MARCH)";
  return nullptr;
}

bool presil_transport::attach(uint64_t seed, std::string* why) {
  if (!bench.set_coverage(settings.coverage, settings.coverage_launches, why)) return false;
  if (settings.monitor) bench.set_monitored(*settings.monitor);
  bench.memory().map(memory.base(), memory.host(), memory.bytes());
  configure(seed);
  return true;
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
