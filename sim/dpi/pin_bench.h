// SPDX-License-Identifier: Apache-2.0
// The pins of a chip whose clock a simulator owns, one edge at a time (rising, falling), as a bench for code that waits
// for cycles: that runs on a fiber, which is left while they pass. What happens in a cycle is as in the plain harness
// (sim/harness/rtl_bench.h): the same requests give the same cycles.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "axi_memory.h"
#include "axi_monitor.h"
#include "axi_pins.h"
#include "axil_master.h"
#include "fiber.h"
#include "presil_serve.h"
#include "waiter.h"

namespace presil {

// In C's order what presil_dpi.sv declares from the highest bits down; they lie where the simulator has them.
struct __attribute__((packed, may_alias)) FromChip {
  uint8_t irq, axil_rvalid, axil_rresp, axil_arready, axil_bvalid, axil_bresp, axil_wready, axil_awready;
  uint8_t rready, arvalid, arburst, arsize, arlen;
  uint8_t bready, wvalid, wlast, awvalid, awburst, awsize, awlen;
  uint32_t axil_rdata, arid, awid;
  uint64_t araddr, awaddr;
  uint8_t wstrb[16], wdata[128];
};

struct __attribute__((packed, may_alias)) ToChip {
  uint8_t rst, axil_rready, axil_arvalid, axil_bready, axil_wstrb, axil_wvalid, axil_awvalid;
  uint8_t rvalid, rlast, rresp, arready, bvalid, bresp, wready, awready;
  uint32_t rid, bid, axil_araddr, axil_awaddr, axil_wdata;
  uint8_t rdata[128];
};

static_assert(sizeof(FromChip) * 8 == 1536 && sizeof(ToChip) * 8 == 1304, "as in presil_dpi.sv");

class PinBench : public Waitable {
 public:
  // word: bytes of a bus beat; registers: bytes of them; info: what the driver is told; serve: runs on the fiber,
  // throws nothing, returns when stop() is true. nullptr: word is none of 4, 8, ..., 128.
  static std::unique_ptr<PinBench> make(unsigned word, uint32_t registers, const presil_transport_info& info,
                                        std::function<void()> serve);
  ~PinBench() override = default;

  // ---- of the simulator
  // With the settled pins before a rising edge.
  void rising(const FromChip& pins) noexcept;
  // With the settled pins after a falling edge, before which the inputs may change. False: serving has ended.
  bool falling(const FromChip& pins, ToChip* inputs) noexcept;
  // Ends serving; nothing is called behind it.
  void end() noexcept;

  // ---- of the fiber; what passes cycles throws Stopped
  // The bench whose fiber runs.
  static PinBench* current();
  void serves(presil_server* server) { server_ = server; }
  bool cancelled(uint64_t cycles) override { return presil_serve_poll(server_, cycles) == PRESIL_WAIT_CANCELLED; }
  const volatile int* stop() const { return &stop_; }
  const presil_transport_info& info() const { return info_; }
  uint32_t registers() const { return registers_; }
  virtual AxiMemoryState& memory() = 0;
  virtual unsigned word() const = 0;
  virtual bool idle() const = 0;
  virtual void launch(uint64_t launch) = 0;
  // For a client: the clock counts from here, and the monitors look. Afterwards the chip is held in reset.
  void open(bool monitored);
  void close();
  void reset();
  // The bus response (0: okay), or -1: no answer within kRegisterTimeout.
  int access(bool write, uint32_t offset, uint32_t* value);

  uint64_t now() const override { return now_; }
  uint64_t last_beat() const override { return const_cast<PinBench*>(this)->memory().last_beat(); }
  bool irq() const override { return irq_; }
  void run(uint64_t limit) override {
    if (!irq_ && limit) pass(kRun, limit);
  }
  void step() override { pass(kRun, 1); }
  bool can(const Fault& fault, std::string* error) const override {
    if (fault.kind == Fault::kUpset) *error = "inject: upset: the DPI module does not know the simulator's state";
    return fault.kind != Fault::kUpset;
  }

 protected:
  PinBench(uint32_t registers, const presil_transport_info& info, std::function<void()> serve);

  // What depends on the width.
  virtual void take_bus(const FromChip& pins) = 0;
  virtual void give_bus(ToChip* inputs) const = 0;
  virtual void sample() = 0;  // before the edge
  virtual void drive() = 0;   // behind it
  virtual void abandon_bus() = 0;

  uint64_t now_ = 0;
  bool monitored_ = true;
  AxiMonitor axi_monitor_;

 private:
  enum Activity { kNone, kReset, kAccess, kRun };

  void take(const FromChip& pins);
  void give(ToChip* inputs) const;
  void cycle() noexcept;
  bool over();
  void abandon();
  void end_access();
  void pass(Activity activity, uint64_t limit = 0);

  const uint32_t registers_;
  const presil_transport_info info_;
  presil_server* server_ = nullptr;
  Fiber fiber_;
  Activity activity_ = kNone;  // what the fiber waits for
  uint64_t left_ = 0;          // cycles of kRun
  ResetCycles reset_;
  AxilMaster axil_;
  AxilPins axil_pins_ = {};
  AxilMonitor axil_monitor_;
  bool irq_ = false, held_ = true;
  volatile int stop_ = 0;
  std::string broken_;  // by what the last cycle brought
};

// The table over the bench whose fiber runs.
const presil_transport_ops* pin_transport();

}  // namespace presil
