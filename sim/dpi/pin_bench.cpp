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
    AxiPins<kBytes>& p = pins_;
    p.m_axi_araddr = c.araddr;
    p.m_axi_arid = c.arid;
    p.m_axi_arlen = c.arlen;
    p.m_axi_arsize = c.arsize;
    p.m_axi_arburst = c.arburst;
    p.m_axi_arvalid = c.arvalid;
    p.m_axi_awaddr = c.awaddr;
    p.m_axi_awid = c.awid;
    p.m_axi_awlen = c.awlen;
    p.m_axi_awsize = c.awsize;
    p.m_axi_awburst = c.awburst;
    p.m_axi_awvalid = c.awvalid;
    p.m_axi_wlast = c.wlast;
    p.m_axi_wvalid = c.wvalid;
    p.m_axi_rready = c.rready;
    p.m_axi_bready = c.bready;
    if (!c.wvalid) return;
    memcpy(p.m_axi_wdata, c.wdata, sizeof p.m_axi_wdata);
    memcpy(p.m_axi_wstrb, c.wstrb, sizeof p.m_axi_wstrb);
  }

  void give_bus(ToChip* c) const override {
    const AxiPins<kBytes>& p = pins_;
    c->arready = p.m_axi_arready;
    c->awready = p.m_axi_awready;
    c->wready = p.m_axi_wready;
    c->rid = p.m_axi_rid;
    c->rresp = p.m_axi_rresp;
    c->rlast = p.m_axi_rlast;
    c->rvalid = p.m_axi_rvalid;
    c->bid = p.m_axi_bid;
    c->bresp = p.m_axi_bresp;
    c->bvalid = p.m_axi_bvalid;
    memcpy(c->rdata, p.m_axi_rdata, sizeof p.m_axi_rdata);
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
  switch (word) {
    case 4: return std::make_unique<Bench<4>>(registers, info, std::move(serve));
    case 8: return std::make_unique<Bench<8>>(registers, info, std::move(serve));
    case 16: return std::make_unique<Bench<16>>(registers, info, std::move(serve));
    case 32: return std::make_unique<Bench<32>>(registers, info, std::move(serve));
    case 64: return std::make_unique<Bench<64>>(registers, info, std::move(serve));
    case 128: return std::make_unique<Bench<128>>(registers, info, std::move(serve));
    default: return nullptr;
  }
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
  AxilPins& p = axil_pins_;
  p.s_axil_awready = c.axil_awready;
  p.s_axil_wready = c.axil_wready;
  p.s_axil_bvalid = c.axil_bvalid;
  p.s_axil_bresp = c.axil_bresp;
  p.s_axil_arready = c.axil_arready;
  p.s_axil_rvalid = c.axil_rvalid;
  p.s_axil_rresp = c.axil_rresp;
  p.s_axil_rdata = c.axil_rdata;
  irq_ = c.irq;
}

void PinBench::give(ToChip* c) const {
  const AxilPins& p = axil_pins_;
  give_bus(c);
  c->rst = held_ || (activity_ == kReset && reset_.pin());
  c->axil_awaddr = p.s_axil_awaddr;
  c->axil_wdata = p.s_axil_wdata;
  c->axil_awvalid = p.s_axil_awvalid;
  c->axil_wvalid = p.s_axil_wvalid;
  c->axil_bready = p.s_axil_bready;
  c->axil_araddr = p.s_axil_araddr;
  c->axil_arvalid = p.s_axil_arvalid;
  c->axil_rready = p.s_axil_rready;
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
