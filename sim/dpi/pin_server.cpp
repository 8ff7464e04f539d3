// SPDX-License-Identifier: Apache-2.0
#include "pin_server.h"

#include <algorithm>
#include <cstring>
#include <exception>

#include "axi_memory.h"
#include "axi_monitor.h"
#include "axi_pins.h"
#include "device_memory.h"
#include "registers.h"
#include "settings.h"
#include "stopped.h"
#include "waiter.h"
#include "write_times.h"

namespace presil {

namespace {

constexpr unsigned kPollCycles = 256;

template <unsigned kBytes> class Server final : public PinServer {
 public:
  Server(uint32_t registers, presil_server* server) : registers_(registers), server_(server) { inputs_.rst = 1; }
  ~Server() override { presil_serve_close(server_); }

  void rising(const FromChip& pins) noexcept override {
    if (activity_ == kNone) return;  // the clock of a chip that nobody uses
    seen_ = pins;
    try {
      take(pins);
      if (activity_ != kReset) monitor();
      memory_.sample(pins_, now_);
    } catch (const std::exception& stop) {
      stopped_ = stop.what();
    }
    now_++;
  }

  bool falling(const FromChip& pins, ToChip* inputs) noexcept override {
    bool goes_on = true;
    try {
      take(pins);
      irq_ = pins.irq;
      if (activity_ != kNone) step();
      while (goes_on && activity_ == kNone) goes_on = next();
    } catch (const std::exception& e) {
      failed(e.what());
    }
    give(inputs);
    return goes_on;
  }

 private:
  using Pins = AxiPins<kBytes>;
  enum Activity { kNone, kReset, kWrite, kRead, kWait };

  // ---- pins
  void take(const FromChip& c) {
    Pins& p = pins_;
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

  void give(ToChip* c) {
    const Pins& p = pins_;
    inputs_.arready = p.m_axi_arready;
    inputs_.awready = p.m_axi_awready;
    inputs_.wready = p.m_axi_wready;
    inputs_.rid = p.m_axi_rid;
    inputs_.rresp = p.m_axi_rresp;
    inputs_.rlast = p.m_axi_rlast;
    inputs_.rvalid = p.m_axi_rvalid;
    inputs_.bid = p.m_axi_bid;
    inputs_.bresp = p.m_axi_bresp;
    inputs_.bvalid = p.m_axi_bvalid;
    if (p.m_axi_rvalid) memcpy(inputs_.rdata, p.m_axi_rdata, sizeof p.m_axi_rdata);
    *c = inputs_;
  }

  void monitor() {
    const FromChip& c = seen_;
    const ToChip& i = inputs_;
    AxilPins axil;
    axil.s_axil_awaddr = i.axil_awaddr;
    axil.s_axil_araddr = i.axil_araddr;
    axil.s_axil_wdata = i.axil_wdata;
    axil.s_axil_wstrb = 0xf;
    axil.s_axil_awvalid = i.axil_awvalid;
    axil.s_axil_wvalid = i.axil_wvalid;
    axil.s_axil_bready = i.axil_bready;
    axil.s_axil_arvalid = i.axil_arvalid;
    axil.s_axil_rready = i.axil_rready;
    axil.s_axil_awready = c.axil_awready;
    axil.s_axil_wready = c.axil_wready;
    axil.s_axil_bvalid = c.axil_bvalid;
    axil.s_axil_bresp = c.axil_bresp;
    axil.s_axil_arready = c.axil_arready;
    axil.s_axil_rvalid = c.axil_rvalid;
    axil.s_axil_rresp = c.axil_rresp;
    axil.s_axil_rdata = c.axil_rdata;
    axi_monitor_.sample(pins_);
    axil_monitor_.sample(axil);
  }

  // ---- a cycle of what is going on
  void step() {
    memory_.drive(pins_, now_);
    if (!stopped_.empty()) {
      failed(stopped_.c_str());
    } else if (activity_ == kReset) {
      step_reset();
    } else if (activity_ == kWrite) {
      step_write();
    } else if (activity_ == kRead) {
      step_read();
    } else {
      step_wait();
    }
  }

  // The answer of a chip that broke the protocol of its bus, and of every request after it, up to a reset.
  void failed(const char* text) {
    end_access();
    activity_ = kNone;
    broken_ = text;
    stopped_.clear();
    if (asked_) done(PRESIL_TRANSPORT_ESTOPPED, broken_);
  }

  // Before every reply.
  presil_server* replying() {
    asked_ = false;
    presil_serve_set_cycles(server_, now_);
    return server_;
  }

  void done(int status, const std::string& text = "") {
    (void)presil_serve_reply_done(replying(), status, text.empty() ? nullptr : text.c_str());
  }

  // What the chip asks for before the reset has reached all of it is not answered.
  void start_reset() {
    activity_ = kReset;
    left_ = 2 * kResetCycles;
    broken_.clear();
    end_access();
    axi_monitor_.forget();
    axil_monitor_.forget();
    inputs_.rst = 1;
    memory_.abandon(pins_);
  }

  void step_reset() {
    if (--left_ >= kResetCycles) memory_.abandon(pins_);
    if (left_ == kResetCycles) inputs_.rst = 0;
    if (left_) return;
    activity_ = kNone;
    memory_.launch(pins_, 0, now_);
    done(0);
  }

  // Of one that has no answer the signals fall too: ours to break.
  void end_access() {
    axil_monitor_.forget();
    inputs_.axil_awvalid = inputs_.axil_wvalid = inputs_.axil_bready = inputs_.axil_arvalid = inputs_.axil_rready = 0;
  }

  void start_write(uint32_t offset, uint32_t value) {
    activity_ = kWrite;
    left_ = kRegisterTimeout;
    inputs_.axil_awaddr = offset;
    inputs_.axil_wdata = value;
    inputs_.axil_awvalid = inputs_.axil_wvalid = inputs_.axil_bready = 1;
  }

  void step_write() {
    if (inputs_.axil_awvalid && seen_.axil_awready) inputs_.axil_awvalid = 0;
    if (inputs_.axil_wvalid && seen_.axil_wready) inputs_.axil_wvalid = 0;
    if (!seen_.axil_bvalid && --left_) return;
    end_access();
    activity_ = kNone;
    register_done("write", request_.offset, seen_.axil_bvalid ? seen_.axil_bresp : -1);
  }

  void start_read(uint32_t offset) {
    activity_ = kRead;
    left_ = kRegisterTimeout;
    inputs_.axil_araddr = offset;
    inputs_.axil_arvalid = inputs_.axil_rready = 1;
  }

  void step_read() {
    if (inputs_.axil_arvalid && seen_.axil_arready) inputs_.axil_arvalid = 0;
    if (!seen_.axil_rvalid && --left_) return;
    end_access();
    activity_ = kNone;
    const uint32_t offset = request_.offsets[values_.size()];
    if (!seen_.axil_rvalid || seen_.axil_rresp)
      return register_done("read", offset, seen_.axil_rvalid ? seen_.axil_rresp : -1);
    values_.push_back(seen_.axil_rdata);
    if (values_.size() < request_.count) return start_read(request_.offsets[values_.size()]);
    (void)presil_serve_reply_values(replying(), values_.data(), request_.count);
  }

  void register_done(const char* what, uint32_t offset, int response) {
    if (response == 0) return done(0);
    done(PRESIL_TRANSPORT_EBUS, register_failed(what, offset, response));
  }

  void step_wait() {
    const presil_wait& w = request_.wait;
    const uint64_t waited = now_ - wait_start_;
    uint32_t reason;
    if (!simulated_end(w, irq_, now_, wait_start_, memory_.last_beat(), &reason)) {
      reason = waited % kPollCycles ? 0 : presil_serve_poll(server_, waited);
      if (!reason) return;
    }
    activity_ = kNone;
    (void)presil_serve_reply_wait(replying(), reason, waited);
  }

  // ---- requests
  bool next() {
    const int got = presil_serve_next(server_, &request_, -1);
    if (got != 1) return false;
    asked_ = request_.kind != PRESIL_REQUEST_CLOSE;
    const bool clocked = request_.kind == PRESIL_REQUEST_READ32 || request_.kind == PRESIL_REQUEST_WRITE32 ||
                         request_.kind == PRESIL_REQUEST_LAUNCH || request_.kind == PRESIL_REQUEST_WAIT;
    if (clocked && !broken_.empty()) {
      done(PRESIL_TRANSPORT_ESTOPPED, "a reset is needed: " + broken_);
    } else {
      answer();
    }
    return true;
  }

  void answer() {
    switch (request_.kind) {
      case PRESIL_REQUEST_OPEN: return open();
      case PRESIL_REQUEST_CLOSE: return close();
      case PRESIL_REQUEST_READ32:
      case PRESIL_REQUEST_WRITE32: return access();
      case PRESIL_REQUEST_MEM_READ:
      case PRESIL_REQUEST_MEM_WRITE:
      case PRESIL_REQUEST_SYNC_DEVICE:
      case PRESIL_REQUEST_SYNC_HOST: return move();
      case PRESIL_REQUEST_LAUNCH: return launch();
      case PRESIL_REQUEST_WAIT:
        wait_start_ = now_;
        memory_.write_log().waits(now_);
        activity_ = kWait;
        return step_wait();
      case PRESIL_REQUEST_CYCLES: return done(0);
      case PRESIL_REQUEST_RESET: return start_reset();
      case PRESIL_REQUEST_WRITE_LOG:
        request_.value ? memory_.write_log().start(store_->bytes()) : memory_.write_log().stop();
        return done(0);
      case PRESIL_REQUEST_WRITE_LOG_FETCH: return fetch_log();
      case PRESIL_REQUEST_WRITE_TIMES: return tell_write_times();
      case PRESIL_REQUEST_BUS_FAULT: (void)presil_serve_reply_fault(replying(), &memory_.fault()); return;
      case PRESIL_REQUEST_MEMORY_MODEL: return configure();
      case PRESIL_REQUEST_INJECT: return inject();
      default:
        return done(PRESIL_TRANSPORT_ENOSYS, "not in the DPI module; waveforms: use the simulator's own commands");
    }
  }

  void open() {
    std::string error;
    MemorySettings settings;
    auto store = std::make_unique<DeviceMemory>();
    if (!parse_memory_settings(request_.open.memory_model, kBytes, &settings, &error) ||
        !store->open(request_.open.memory_fd, request_.open.memory_base.value, request_.open.memory_bytes, &error))
      return done(PRESIL_TRANSPORT_EINVAL, error);
    store_ = std::move(store);
    now_ = 0;
    seed_ = request_.open.seed;
    memory_.write_log().stop();
    memory_.set_faults(nullptr, 0);
    memory_.map(store_->base(), store_->host(), store_->bytes());
    memory_.configure(settings, seed_);
    start_reset();
  }

  void close() {
    memory_.write_log().stop();
    memory_.abandon(pins_);
    memory_.map(0, nullptr, 0);
    store_.reset();
    inputs_.rst = 1;  // nobody's chip does nothing
  }

  void access() {
    values_.clear();
    const bool read = request_.kind == PRESIL_REQUEST_READ32;
    for (uint32_t i = 0; i < (read ? request_.count : 1); i++) {
      const uint32_t offset = read ? request_.offsets[i] : request_.offset;
      if (!register_exists(offset, registers_))
        return done(PRESIL_TRANSPORT_EINVAL, no_such_register(read ? "read32" : "write32", offset, registers_));
    }
    if (!read) return start_write(request_.offset, request_.value);
    if (request_.count) return start_read(request_.offsets[0]);
    (void)presil_serve_reply_values(replying(), nullptr, 0);
  }

  const char* call() const {
    return request_.kind == PRESIL_REQUEST_MEM_READ    ? "mem_read"
           : request_.kind == PRESIL_REQUEST_MEM_WRITE ? "mem_write"
                                                       : "sync";
  }

  void move() {
    uint8_t* at = store_->at(request_.address, request_.bytes);
    if (!at)
      return done(PRESIL_TRANSPORT_EBUS,
                  outside_memory(call(), request_.address, request_.bytes, store_->base(), store_->bytes()));
    if (request_.kind == PRESIL_REQUEST_MEM_READ) {
      (void)presil_serve_reply_bytes(replying(), at, request_.bytes);
      return;
    }
    if (request_.kind == PRESIL_REQUEST_MEM_WRITE) memcpy(at, request_.data, request_.bytes);
    done(0);
  }

  void launch() {
    if (!memory_.idle(pins_)) return done(PRESIL_TRANSPORT_EINVAL, "launch: bus transactions are outstanding");
    memory_.launch(pins_, request_.launch, now_);
    done(0);
  }

  void fetch_log() {
    if (!memory_.write_log().on()) return done(PRESIL_TRANSPORT_EINVAL, "write_log_fetch: the log is off");
    memory_.write_log().take(store_->base(), &ranges_);
    (void)presil_serve_reply_ranges(replying(), ranges_.data(), ranges_.size());
  }

  void tell_write_times() {
    presil_write_time times = {};
    times.size = sizeof times;
    if (!tell_times(memory_.write_log(), store_->base(), request_.address, &times))
      return done(PRESIL_TRANSPORT_EINVAL, kNoWriteTime);
    (void)presil_serve_reply_times(replying(), &times);
  }

  void configure() {
    std::string error;
    MemorySettings settings;
    if (!memory_.idle(pins_))
      return done(PRESIL_TRANSPORT_EINVAL, "set_memory_model: bus transactions are outstanding");
    if (!parse_memory_settings(request_.text, kBytes, &settings, &error)) return done(PRESIL_TRANSPORT_EINVAL, error);
    memory_.configure(settings, request_.seed);
    done(0);
  }

  void inject() {
    Fault faults[kMaxFaults];
    size_t count = 0;
    std::string error;
    if (!parse_faults(request_.text, faults, &count, &error)) return done(PRESIL_TRANSPORT_EINVAL, error);
    for (size_t i = 0; i < count; i++) {
      if (faults[i].kind != Fault::kSlverr && faults[i].kind != Fault::kDecerr)
        return done(PRESIL_TRANSPORT_ENOSYS, "inject: the DPI module has slverr@ADDR and decerr@ADDR only");
    }
    memory_.set_faults(faults, count);
    done(0);
  }

  const uint32_t registers_;
  presil_server* server_;
  presil_request request_ = {};
  std::unique_ptr<DeviceMemory> store_;
  AxiMemory<Pins> memory_;
  AxiMonitor axi_monitor_;
  AxilMonitor axil_monitor_;
  Pins pins_ = {};
  ToChip inputs_ = {};
  FromChip seen_ = {};  // before the last rising edge
  uint8_t irq_ = 0;
  bool asked_ = false;  // the last request has no answer yet
  Activity activity_ = kNone;
  uint64_t now_ = 0, wait_start_ = 0, left_ = 0, seed_ = 0;
  std::string stopped_, broken_;
  std::vector<uint32_t> values_;
  std::vector<presil_write_range> ranges_;
};

}  // namespace

std::unique_ptr<PinServer> make_pin_server(unsigned word, uint32_t registers, presil_server* server) {
  switch (word) {
    case 4: return std::make_unique<Server<4>>(registers, server);
    case 8: return std::make_unique<Server<8>>(registers, server);
    case 16: return std::make_unique<Server<16>>(registers, server);
    case 32: return std::make_unique<Server<32>>(registers, server);
    case 64: return std::make_unique<Server<64>>(registers, server);
    case 128: return std::make_unique<Server<128>>(registers, server);
    default: return nullptr;
  }
}

}  // namespace presil
