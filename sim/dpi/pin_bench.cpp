// SPDX-License-Identifier: Apache-2.0
#include "pin_bench.h"

#include <cstring>
#include <exception>
#include <utility>

namespace presil {

namespace {

thread_local PinBench* running = nullptr;

template <unsigned kBytes> class Bench final : public PinBench {
 public:
  template <class... Of> explicit Bench(Of&&... of) : PinBench(std::forward<Of>(of)...) {}
  ~Bench() override { end(); }

  AxiMemoryState& memory() override { return memory_; }
  unsigned word() const override { return kBytes; }
  bool idle() const override { return memory_.idle(pins_); }
  void launch(uint64_t launch) override { memory_.launch(pins_, launch, now_); }

 private:
  void take_bus(const FromChip& c) override {
#define PRESIL_TAKE(name, type) pins_.m_axi_##name = c.name;
    PRESIL_AXI_OUTPUTS(PRESIL_TAKE)
#undef PRESIL_TAKE
    if (!c.wvalid) return;
    memcpy(pins_.m_axi_wdata, c.wdata, sizeof pins_.m_axi_wdata);
    memcpy(pins_.m_axi_wstrb, c.wstrb, sizeof pins_.m_axi_wstrb);
  }

  void give_bus(ToChip* c) const override {
#define PRESIL_GIVE(name, type) c->name = pins_.m_axi_##name;
    PRESIL_AXI_INPUTS(PRESIL_GIVE)
#undef PRESIL_GIVE
    memcpy(c->rdata, pins_.m_axi_rdata, sizeof pins_.m_axi_rdata);
  }

  void sample() override {
    if (monitored_) axi_monitor_.sample(pins_);
    memory_.sample(pins_, now_);
  }
  void drive() override { memory_.drive(pins_, now_); }
  void abandon_bus() override { memory_.abandon(pins_); }

  AxiMemory<AxiPins<kBytes>> memory_;
  AxiPins<kBytes> pins_ = {};
};

}  // namespace

std::unique_ptr<PinBench> PinBench::make(unsigned word, uint32_t registers, const presil_transport_info& info,
                                         std::function<void()> serve) {
  return of_word(word, [&](auto bytes) -> std::unique_ptr<PinBench> {
    return std::make_unique<Bench<decltype(bytes)::value>>(registers, info, std::move(serve));
  });
}

PinBench::PinBench(uint32_t registers, const presil_transport_info& info, std::function<void()> serve)
    : registers_(registers), info_(info), fiber_(std::move(serve)) {}

PinBench* PinBench::current() { return running; }

// ---- of the simulator
void PinBench::rising(const FromChip& pins) noexcept {
  if (activity_ == kNone) return;  // the clock of a chip that nobody uses
  take(pins);
  try {
    if (monitored_) axil_monitor_.sample(axil_pins_);
    axil_.edge(axil_pins_);
    sample();
  } catch (const std::exception& stop) {
    broken_ = stop.what();
  }
  now_++;
}

bool PinBench::falling(const FromChip& pins, ToChip* inputs) noexcept {
  take(pins);
  if (activity_ != kNone) cycle();
  if (activity_ == kNone && !fiber_.over()) {
    running = this;
    fiber_.resume();
  }
  give(inputs);
  return !fiber_.over();
}

void PinBench::end() noexcept {
  stop_ = 1;
  running = this;
  while (fiber_.begun() && !fiber_.over()) fiber_.resume();
}

void PinBench::cycle() noexcept {
  try {
    drive();
    if (over() || !broken_.empty()) activity_ = kNone;
  } catch (const std::exception& stop) {
    broken_ = stop.what();
    activity_ = kNone;
  }
}

bool PinBench::over() {
  switch (activity_) {
    case kReset:
      reset_.next();
      if (reset_.abandons()) abandon();
      return reset_.over();
    case kAccess: return axil_.present(&axil_pins_);
    default: return --left_ == 0 || irq_;
  }
}

void PinBench::take(const FromChip& c) {
  take_bus(c);
#define PRESIL_TAKE(name, type) axil_pins_.s_axil_##name = c.axil_##name;
  PRESIL_AXIL_OUTPUTS(PRESIL_TAKE)
#undef PRESIL_TAKE
  irq_ = c.irq;
}

void PinBench::give(ToChip* c) const {
  give_bus(c);
#define PRESIL_GIVE(name, type) c->axil_##name = axil_pins_.s_axil_##name;
  PRESIL_AXIL_INPUTS(PRESIL_GIVE)
#undef PRESIL_GIVE
  c->rst = held_ || (activity_ == kReset && reset_.pin());
}

// ---- of the fiber
void PinBench::pass(Activity activity, uint64_t limit) {
  if (!stop_) {
    activity_ = activity;
    left_ = limit;
    fiber_.yield();
  }
  if (stop_) broken_ = "the simulator ends";
  if (broken_.empty()) return;
  activity_ = kNone;
  end_access();
  throw Stopped(std::exchange(broken_, {}));
}

void PinBench::abandon() {
  abandon_bus();
  axi_monitor_.forget();
  axil_monitor_.forget();
}

// Of one that has no answer the signals fall too: ours to break.
void PinBench::end_access() {
  axil_.end(&axil_pins_);
  axil_monitor_.forget();
}

void PinBench::open(bool monitored) {
  now_ = 0;
  monitored_ = monitored;
  held_ = false;
}

void PinBench::close() {
  end_access();
  abandon();
  held_ = true;
}

void PinBench::reset() {
  end_access();
  abandon();
  reset_ = {};
  pass(kReset);
}

int PinBench::access(bool write, uint32_t offset, uint32_t* value) {
  write ? axil_.write(&axil_pins_, offset, *value) : axil_.read(&axil_pins_, offset);
  pass(kAccess);
  if (axil_.response() < 0) axil_monitor_.forget();
  if (!write && axil_.response() >= 0) *value = axil_.value();
  return axil_.response();
}

}  // namespace presil
