// SPDX-License-Identifier: Apache-2.0
// A platform of somebody's own around presil_tlm.h: a plain memory (blocking calls only), a timer beside the chip, and
// a CPU model that runs an empty command list.
#include <presil_tlm.h>
#include <tlm_utils/simple_initiator_socket.h>
#include <tlm_utils/simple_target_socket.h>

#include <cstdio>
#include <cstring>
#include <vector>

using namespace sc_core;

// Knows nothing of AXI: the convenience socket makes blocking calls of what the chip sends.
struct Memory : sc_module {
  tlm_utils::simple_target_socket<Memory> socket;
  std::vector<uint8_t> bytes = std::vector<uint8_t>(1 << 20);
  unsigned reads = 0, writes = 0;

  explicit Memory(sc_module_name name) : sc_module(name), socket("socket") {
    socket.register_b_transport(this, &Memory::b_transport);
  }

  void b_transport(tlm::tlm_generic_payload& p, sc_time& delay) {
    if (p.get_address() + p.get_data_length() > bytes.size())
      return p.set_response_status(tlm::TLM_ADDRESS_ERROR_RESPONSE);
    uint8_t* at = &bytes[p.get_address()];
    for (unsigned i = 0; i < p.get_data_length(); i++) {
      if (p.get_byte_enable_ptr() && p.get_byte_enable_ptr()[i % p.get_byte_enable_length()] != TLM_BYTE_ENABLED)
        continue;
      p.is_read() ? p.get_data_ptr()[i] = at[i] : at[i] = p.get_data_ptr()[i];
    }
    ++(p.is_read() ? reads : writes);
    delay += sc_time(60, SC_NS);
    p.set_response_status(tlm::TLM_OK_RESPONSE);
  }
};

// The peripheral of one's own: an interrupt after a programmed time.
struct Timer : sc_module {
  tlm_utils::simple_target_socket<Timer> registers;
  sc_out<bool> irq{"irq"};
  sc_event done;

  explicit Timer(sc_module_name name) : sc_module(name), registers("registers") {
    registers.register_b_transport(this, &Timer::b_transport);
    SC_HAS_PROCESS(Timer);
    SC_METHOD(raise);
    sensitive << done;
    dont_initialize();
  }
  void raise() { irq.write(true); }
  void b_transport(tlm::tlm_generic_payload& p, sc_time&) {
    uint32_t ns;
    memcpy(&ns, p.get_data_ptr(), 4);
    done.notify(sc_time(ns, SC_NS));
    p.set_response_status(tlm::TLM_OK_RESPONSE);
  }
};

struct Cpu : sc_module {
  tlm_utils::simple_initiator_socket<Cpu> npu, timer;
  sc_in<bool> npu_irq{"npu_irq"}, timer_irq{"timer_irq"};
  presil::TlmChip& chip;
  Memory& memory;
  int result = 1;

  Cpu(sc_module_name name, presil::TlmChip& c, Memory& m)
      : sc_module(name), npu("npu"), timer("timer"), chip(c), memory(m) {
    SC_HAS_PROCESS(Cpu);
    SC_THREAD(run);
  }

  template <class Socket> uint32_t access(Socket& socket, bool write, uint64_t address, uint32_t value = 0) {
    tlm::tlm_generic_payload p;
    sc_time delay = SC_ZERO_TIME;
    p.set_command(write ? tlm::TLM_WRITE_COMMAND : tlm::TLM_READ_COMMAND);
    p.set_address(address);
    p.set_data_ptr(reinterpret_cast<uint8_t*>(&value));
    p.set_data_length(4);
    p.set_streaming_width(4);
    p.set_response_status(tlm::TLM_INCOMPLETE_RESPONSE);
    socket->b_transport(p, delay);
    sc_assert(p.is_response_ok());
    return value;
  }

  // A list that copies 64 bytes from 0x4000 into the scratchpad and back to 0x8000: the words come from the test, which
  // has the packer.
  void run() {
    chip.chip().reset();
    for (unsigned i = 0; i < 64; i++) memory.bytes[0x4000 + i] = static_cast<uint8_t>(i * 7 + 1);
    access(timer, true, 0, 5000);
    for (auto [reg, value] : {std::pair{0x20u, 0u}, {0x28u, 4u}, {0x50u, 3u}, {0x34u, 1u}})
      access(npu, true, reg, value);
    access(npu, true, 0x30, 2);
    while (!npu_irq.read()) wait(npu_irq.posedge_event());
    const uint32_t status = access(npu, false, 0x4c);
    const bool same = memcmp(&memory.bytes[0x4000], &memory.bytes[0x8000], 64) == 0;
    std::printf("npu: status %u at %s, copied %s, %u reads and %u writes\n", status,
                sc_time_stamp().to_string().c_str(), same ? "yes" : "no", memory.reads, memory.writes);
    while (!timer_irq.read()) wait(timer_irq.posedge_event());
    std::printf("timer: %s\n", sc_time_stamp().to_string().c_str());
    result = status == 1 && same ? 0 : 1;
    sc_stop();
  }
};

extern "C" int sc_main(int argc, char** argv) {
  if (argc != 3)
    return std::fprintf(stderr, "usage: board CONFIG LIST        (LIST: descriptors, 128 bytes each)\n"), 2;
  presil::TlmChipOptions options;
  options.config = argv[1];
  presil::TlmChip npu("npu", options);
  Memory memory("memory");
  Timer timer("timer");
  Cpu cpu("cpu", npu, memory);
  sc_signal<bool> npu_irq, timer_irq;
  npu.memory.bind(memory.socket);
  cpu.npu.bind(npu.registers);
  cpu.timer.bind(timer.registers);
  npu.irq(npu_irq), cpu.npu_irq(npu_irq), timer.irq(timer_irq), cpu.timer_irq(timer_irq);
  FILE* list = std::fopen(argv[2], "rb");
  if (!list || !std::fread(memory.bytes.data(), 1, 2048, list)) return std::perror(argv[2]), 2;
  std::fclose(list);
  sc_start();
  return cpu.result;
}
