// SPDX-License-Identifier: Apache-2.0
// tests/rtl/presil_burst_top.sv against a memory that knows whole bursts only (b_transport, byte enables, streaming
// width): narrow, unaligned, FIXED and WRAP bursts, written and read back. Prints "BURSTS bursts" or the first that is
// wrong.
#include <presil_tlm.h>
#include <tlm_utils/simple_initiator_socket.h>
#include <tlm_utils/simple_target_socket.h>

#include <cstdio>
#include <cstring>
#include <vector>

using namespace sc_core;

namespace {

constexpr unsigned kWord = 16;

struct Memory : sc_module {
  tlm_utils::simple_target_socket<Memory> socket;
  std::vector<uint8_t> bytes = std::vector<uint8_t>(1 << 16);

  explicit Memory(sc_module_name name) : sc_module(name), socket("socket") {
    socket.register_b_transport(this, &Memory::b_transport);
  }
  void b_transport(tlm::tlm_generic_payload& p, sc_time&) {
    uint8_t* memory = &bytes[p.get_address()];
    for (unsigned i = 0; i < p.get_data_length(); i++) {
      if (p.get_byte_enable_ptr() && p.get_byte_enable_ptr()[i % p.get_byte_enable_length()] != TLM_BYTE_ENABLED)
        continue;
      uint8_t& at = memory[i % p.get_streaming_width()];
      p.is_read() ? p.get_data_ptr()[i] = at : at = p.get_data_ptr()[i];
    }
    p.set_response_status(tlm::TLM_OK_RESPONSE);
  }
};

struct Shape {
  unsigned address, beats, size, kind;  // kind: 0 FIXED, 1 INCR, 2 WRAP

  // The bytes [first, end) of beat n.
  void bytes(unsigned n, unsigned* first, unsigned* end) const {
    const unsigned one = 1u << size, aligned = address / one * one, span = one * beats;
    unsigned at = kind == 0 ? aligned : aligned + n * one;
    if (kind == 2 && at >= address / span * span + span) at -= span;
    *end = at + one;
    *first = n == 0 || kind == 0 ? address : at;
  }
};

std::vector<Shape> shapes() {
  std::vector<Shape> all;
  for (unsigned size = 0; size <= 4; size++) {
    for (unsigned offset : {0u, 1u, 2u, 5u, 8u, 15u}) {
      for (unsigned beats : {1u, 2u, 5u, 16u, 33u}) all.push_back({0x1000 + offset, beats, size, 1});
      for (unsigned beats : {1u, 3u, 16u}) all.push_back({0x2ff0 + offset, beats, size, 0});
    }
    for (unsigned beats : {2u, 4u, 8u, 16u}) {
      for (unsigned start = 0; start < beats; start++) all.push_back({0x3000 + (start << size), beats, size, 2});
    }
  }
  return all;
}

struct Cpu : sc_module {
  tlm_utils::simple_initiator_socket<Cpu> chip;
  sc_in<bool> irq{"irq"};
  presil::TlmChip& device;
  Memory& memory;
  bool good = true;

  Cpu(sc_module_name name, presil::TlmChip& d, Memory& m) : sc_module(name), chip("chip"), device(d), memory(m) {
    SC_HAS_PROCESS(Cpu);
    SC_THREAD(run);
  }

  uint32_t access(bool write, uint64_t address, uint32_t value = 0) {
    tlm::tlm_generic_payload p;
    sc_time delay = SC_ZERO_TIME;
    p.set_command(write ? tlm::TLM_WRITE_COMMAND : tlm::TLM_READ_COMMAND);
    p.set_address(address);
    p.set_data_ptr(reinterpret_cast<uint8_t*>(&value));
    p.set_data_length(4);
    p.set_streaming_width(4);
    p.set_response_status(tlm::TLM_INCOMPLETE_RESPONSE);
    chip->b_transport(p, delay);
    sc_assert(p.is_response_ok());
    return value;
  }

  void start(const Shape& s, bool write) {
    access(true, 0x14, 2);
    access(true, 0x08, s.address);
    access(true, 0x10, (s.beats - 1) | s.size << 8 | s.kind << 12 | uint32_t{write} << 31);
    access(true, 0x14, 1);
    while (!irq.read()) wait(irq.posedge_event());
  }

  bool check(const Shape& s) {
    std::vector<uint8_t> expected = memory.bytes;
    unsigned first, end;
    for (unsigned n = 0; n < s.beats; n++) {
      s.bytes(n, &first, &end);
      for (unsigned at = first; at < end; at++)
        expected[at] = static_cast<uint8_t>(73 * (37 * n + at % kWord) + 11 * (n >> 3));
    }
    start(s, true);
    if (memory.bytes != expected) return false;
    start(s, false);
    for (unsigned n = 0; n < s.beats; n++) {
      access(true, 0x2c, n);
      s.bytes(n, &first, &end);
      for (unsigned at = first; at < end; at++) {
        const uint32_t word = access(false, 0x40 + at % kWord / 4 * 4);
        if (static_cast<uint8_t>(word >> 8 * (at % 4)) != expected[at]) return false;
      }
    }
    return true;
  }

  void run() {
    device.chip().reset();
    unsigned count = 0;
    for (const Shape& s : shapes()) {
      good = check(s);
      if (!good) std::printf("wrong: %u beats of %u bytes, burst %u at %x\n", s.beats, 1u << s.size, s.kind, s.address);
      if (!good) break;
      count++;
    }
    std::printf("%u bursts\n", count);
    sc_stop();
  }
};

}  // namespace

extern "C" int sc_main(int, char**) {
  presil::TlmChipOptions options;
  options.config = "burst";
  presil::TlmChip device("device", options);
  Memory memory("memory");
  Cpu cpu("cpu", device, memory);
  sc_signal<bool> irq;
  device.memory.bind(memory.socket);
  cpu.chip.bind(device.registers);
  device.irq(irq), cpu.irq(irq);
  sc_start();
  return cpu.good ? 0 : 1;
}
