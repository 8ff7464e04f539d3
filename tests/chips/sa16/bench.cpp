// SPDX-License-Identifier: Apache-2.0
// A small bench around sa16_top, for ctypes: an APB master, and a memory behind AXI that holds channels back at random
// and checks the bus rules of docs: bursts of at most 16 beats, none over 4 KiB, what is offered stays until it is
// taken.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <random>
#include <string>
#include <vector>
#include "Vsa16.h"
#include "verilated.h"

namespace {
struct Burst {
  uint64_t address;
  unsigned beats;
  uint64_t due;
};

struct Bench {
  VerilatedContext context;
  Vsa16 top{&context};
  std::vector<uint8_t> memory;
  std::mt19937 random;
  double stall;
  unsigned latency;
  uint64_t cycle = 0, bad_address = ~0ull;
  std::deque<Burst> reads, writes;
  std::deque<uint64_t> answers;
  bool read_offered = false, aw_held = false, ar_held = false, w_held = false;
  uint64_t held_aw = 0, held_ar = 0;
  uint32_t held_w[4] = {};
  std::string error;

  Bench(uint64_t bytes, unsigned seed, double stall, unsigned latency)
      : memory(bytes), random(seed), stall(stall), latency(latency) {
    context.randReset(2);
    context.randSeed(static_cast<int>(seed + 1));
    top.rst_n = 0;
    for (int i = 0; i < 4; i++) tick();
    top.rst_n = 1;
  }
  bool pass() { return std::uniform_real_distribution<>(0, 1)(random) >= stall; }
  void fail(const char* text) {
    if (error.empty()) error = std::string(text) + " in cycle " + std::to_string(cycle);
  }
  void check_burst(uint64_t address, unsigned beats, unsigned size) {
    if (beats > 16) fail("a burst of more than 16 beats");
    if (size != 4 || address % 16) fail("an address that is not aligned to the bus");
    if (address / 4096 != (address + 16 * beats - 1) / 4096) fail("a burst over 4 KiB");
    if (address + 16 * beats > memory.size()) fail("an address outside of the memory");
  }
  void address_channels() {
    if (ar_held && (!top.dram_arvalid || top.dram_araddr != held_ar)) fail("ARADDR changed while it waited");
    if (aw_held && (!top.dram_awvalid || top.dram_awaddr != held_aw)) fail("AWADDR changed while it waited");
    if (w_held && (!top.dram_wvalid || memcmp(held_w, &top.dram_wdata, 16))) fail("WDATA changed while it waited");
    ar_held = top.dram_arvalid && !top.dram_arready;
    aw_held = top.dram_awvalid && !top.dram_awready;
    w_held = top.dram_wvalid && !top.dram_wready;
    held_ar = top.dram_araddr, held_aw = top.dram_awaddr;
    memcpy(held_w, &top.dram_wdata, 16);
    if (top.dram_arvalid && top.dram_arready) {
      check_burst(top.dram_araddr, top.dram_arlen + 1u, top.dram_arsize);
      reads.push_back({top.dram_araddr, top.dram_arlen + 1u, cycle + latency});
    }
    if (top.dram_awvalid && top.dram_awready) {
      check_burst(top.dram_awaddr, top.dram_awlen + 1u, top.dram_awsize);
      writes.push_back({top.dram_awaddr, top.dram_awlen + 1u, 0});
    }
  }
  void data_channels() {
    if (top.dram_wvalid && top.dram_wready) {
      if (writes.empty()) {
        fail("data before their address");
        return;
      }
      Burst& b = writes.front();
      for (unsigned i = 0; i < 16 && b.address + i < memory.size(); i++)
        if (top.dram_wstrb >> i & 1) memory[b.address + i] = reinterpret_cast<uint8_t*>(&top.dram_wdata)[i];
      b.address += 16;
      if (top.dram_wlast != (--b.beats == 0)) fail("WLAST is wrong");
      if (b.beats == 0) {
        answers.push_back(cycle + latency + (b.address - 16 == bad_address ? 1ull << 63 : 0));
        writes.pop_front();
      }
    }
    if (top.dram_rvalid && top.dram_rready) {
      read_offered = false;
      reads.front().address += 16;
      if (--reads.front().beats == 0) reads.pop_front();
    }
    if (top.dram_bvalid && top.dram_bready) answers.pop_front();
  }
  void offer() {
    top.dram_arready = pass(), top.dram_awready = pass(), top.dram_wready = pass();
    if (!reads.empty() && reads.front().due <= cycle && (read_offered || pass())) read_offered = true;
    top.dram_rvalid = read_offered;
    if (read_offered) {
      const Burst& b = reads.front();
      if (b.address + 16 <= memory.size()) memcpy(&top.dram_rdata, &memory[b.address], 16);
      top.dram_rlast = b.beats == 1;
      top.dram_rresp = b.address == bad_address ? 2 : 0;
    }
    top.dram_bvalid = !answers.empty() && (answers.front() & ~(1ull << 63)) <= cycle;
    top.dram_bresp = !answers.empty() && answers.front() >> 63 ? 2 : 0;
  }
  // Handshakes are those of the values before the edge; what the bench offers changes behind it.
  void tick() {
    top.clk = 0;
    top.eval();
    if (top.rst_n) address_channels(), data_channels();
    top.clk = 1;
    top.eval();
    cycle++;
    offer();
    top.eval();
  }
  int access(uint32_t offset, bool write, uint32_t* value) {
    top.paddr = static_cast<uint16_t>(offset), top.pwrite = write, top.pwdata = *value, top.psel = 1, top.penable = 0;
    tick();
    top.penable = 1;
    top.clk = 0;
    top.eval();
    while (!top.pready) tick();
    const int slverr = top.pslverr;
    if (!write) *value = top.prdata;
    tick();
    top.psel = top.penable = 0;
    return slverr;
  }
};
}  // namespace

extern "C" {
Bench* bench_open(uint64_t bytes, unsigned seed, double stall, unsigned latency) {
  return new Bench(bytes, seed, stall, latency);
}
void bench_close(Bench* b) { delete b; }
uint8_t* bench_memory(Bench* b) { return b->memory.data(); }
int bench_access(Bench* b, uint32_t offset, int write, uint32_t* value) { return b->access(offset, write != 0, value); }
void bench_bad(Bench* b, uint64_t address) { b->bad_address = address; }
uint64_t bench_cycle(Bench* b) { return b->cycle; }
// 1: the interrupt is high; 0: not within `most` cycles.
int bench_wait(Bench* b, uint64_t most) {
  for (uint64_t i = 0; i < most && !b->top.irq; i++) b->tick();
  return b->top.irq;
}
void bench_run(Bench* b, uint64_t cycles) {
  for (uint64_t i = 0; i < cycles; i++) b->tick();
}
const char* bench_error(Bench* b) { return b->error.c_str(); }
}
