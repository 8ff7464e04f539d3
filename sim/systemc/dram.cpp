// SPDX-License-Identifier: Apache-2.0
#include "dram.h"

#include <algorithm>
#include <cstring>
#include <deque>

#include "axi_pins.h"
#include "stopped.h"

namespace presil {

Dram::Dram(sc_core::sc_module_name name, Clock& clock, unsigned word)
    : sc_module(name), socket("socket"), clock_(clock), word_(word) {
  socket.register_nb_transport_fw(this, &Dram::nb_transport_fw);
  socket.register_b_transport(this, &Dram::b_transport);
  socket.register_transport_dbg(this, &Dram::transport_dbg);
  socket.register_get_direct_mem_ptr(this, &Dram::get_direct_mem_ptr);
}

void Dram::map(uint64_t base, uint8_t* host, uint64_t bytes) {
  if (bytes_) socket->invalidate_direct_mem_ptr(base_, base_ + bytes_ - 1);
  base_ = base;
  host_ = host;
  bytes_ = bytes;
  state().map(base, host, bytes);
}

// As a burst that finds the memory idle.
void Dram::b_transport(tlm::tlm_generic_payload& payload, sc_core::sc_time& delay) {
  const bool good = copy(payload);
  const uint64_t moved = payload.get_data_length(), rate = settings_.bytes ? settings_.bytes : word_;
  delay +=
      static_cast<double>((payload.is_read() ? settings_.latency : settings_.response) + (moved + rate - 1) / rate) *
      clock_.period();
  if (good) payload.set_dmi_allowed(true);
}

unsigned Dram::transport_dbg(tlm::tlm_generic_payload& payload) {
  if (answers_beats(payload)) return 0;
  return copy(payload) ? payload.get_data_length() : 0;
}

bool Dram::get_direct_mem_ptr(tlm::tlm_generic_payload& payload, tlm::tlm_dmi& dmi) {
  dmi.init();
  if (!bytes_ || payload.get_address() - base_ >= bytes_) return false;
  dmi.set_start_address(base_);
  dmi.set_end_address(base_ + bytes_ - 1);
  dmi.set_dmi_ptr(host_);
  dmi.set_granted_access(tlm::tlm_dmi::DMI_ACCESS_READ_WRITE);
  dmi.set_read_latency(clock_.period());
  dmi.set_write_latency(clock_.period());
  return true;
}

bool Dram::copy(tlm::tlm_generic_payload& payload) {
  const uint64_t offset = payload.get_address() - base_, length = payload.get_data_length();
  const uint64_t width = std::min<uint64_t>(payload.get_streaming_width(), length);
  if (length && !width) {
    payload.set_response_status(tlm::TLM_BURST_ERROR_RESPONSE);
    return false;
  }
  if (offset >= bytes_ || width > bytes_ - offset) {
    payload.set_response_status(tlm::TLM_ADDRESS_ERROR_RESPONSE);
    return false;
  }
  payload.set_response_status(tlm::TLM_OK_RESPONSE);
  if (payload.get_command() == tlm::TLM_IGNORE_COMMAND) return true;
  uint8_t *memory = host_ + offset, *data = payload.get_data_ptr();
  const uint8_t* enables = payload.get_byte_enable_ptr();
  if (!enables && width == length) {
    payload.is_read() ? memcpy(data, memory, length) : memcpy(memory, data, length);
  } else {
    for (uint64_t i = 0; i < length; i++) {
      if (enables && enables[i % payload.get_byte_enable_length()] != TLM_BYTE_ENABLED) continue;
      payload.is_read() ? data[i] = memory[i % width] : memory[i % width] = data[i];
    }
  }
  return true;
}

namespace {

template <unsigned kWord> class DramOf : public Dram {
 public:
  DramOf(sc_core::sc_module_name name, Clock& clock) : Dram(name, clock, kWord) { clock.add(this, Clock::kBus); }

  void configure(const MemorySettings& settings, uint64_t seed) override {
    settings_ = settings;
    memory_.configure(settings, seed);
  }
  bool idle() const override { return memory_.idle(pins_) && !ar_ && !aw_ && !ar_next_ && !aw_next_; }
  void launch(uint64_t launch) override { memory_.launch(pins_, launch, now_); }
  AxiMemoryState& state() override { return memory_; }
  uint64_t now() const override { return now_; }

  void abandon() override {
    memory_.abandon(pins_);
    pins_.m_axi_arvalid = pins_.m_axi_awvalid = pins_.m_axi_wvalid = pins_.m_axi_rready = pins_.m_axi_bready = 0;
    ar_ = aw_ = ar_next_ = aw_next_ = nullptr;
    reads_.clear();
    writes_.clear();
    answers_.clear();
  }

  void bus() override try {
    take();
    now_++;
    offer();
    const bool r = pins_.m_axi_rvalid, b = pins_.m_axi_bvalid;
    memory_.drive(pins_, now_);
    answer(!r && pins_.m_axi_rvalid, !b && pins_.m_axi_bvalid);
  } catch (const Stopped& stop) {
    breach_ = stop.what();
    abandon();
  }

 private:
  // The handshakes at the edge.
  void take() {
    memory_.sample(pins_, now_);
    if (pins_.m_axi_arvalid & pins_.m_axi_arready) {
      reads_.push_back(ar_);
      ar_ = nullptr;
      pins_.m_axi_arvalid = 0;
    }
    if (pins_.m_axi_awvalid & pins_.m_axi_awready) {
      writes_.push_back(aw_);
      aw_ = nullptr;
      pins_.m_axi_awvalid = 0;
    }
    if (pins_.m_axi_wvalid & pins_.m_axi_wready) {
      pins_.m_axi_wvalid = 0;
      if (pins_.m_axi_wlast) {
        answers_.push_back(writes_.front());
        writes_.pop_front();
      }
    }
    if (pins_.m_axi_rready) pins_.m_axi_rvalid = pins_.m_axi_rready = 0;
    if (pins_.m_axi_bready) pins_.m_axi_bvalid = pins_.m_axi_bready = 0;
  }

  // What the masters offer in this cycle.
  void offer() {
    if (ar_next_ && !ar_) {
      std::swap(ar_, ar_next_);
      request(ar_, &pins_.m_axi_araddr, &pins_.m_axi_arid, &pins_.m_axi_arlen, &pins_.m_axi_arsize,
              &pins_.m_axi_arburst, &pins_.m_axi_arvalid);
    }
    if (aw_next_ && !aw_) {
      std::swap(aw_, aw_next_);
      request(aw_, &pins_.m_axi_awaddr, &pins_.m_axi_awid, &pins_.m_axi_awlen, &pins_.m_axi_awsize,
              &pins_.m_axi_awburst, &pins_.m_axi_awvalid);
    }
    if (pins_.m_axi_wvalid || writes_.empty()) return;
    const AxiExtension& axi = *writes_.front()->get_extension<AxiExtension>();
    if (!axi.offered) return;
    const unsigned at = axi.at(axi.beat);
    const uint8_t* data = writes_.front()->get_data_ptr() + at;
    if (axi.bytes() == kWord && kWord >= 8) {  // its strobes are whole bytes
      memcpy(pins_.m_axi_wdata, data, kWord);
      memcpy(pins_.m_axi_wstrb, reinterpret_cast<const uint8_t*>(axi.strobes) + at / 8, kWord / 8);
    } else {
      const unsigned lane = axi.lane(axi.beat);
      memcpy(pins_.m_axi_wdata + lane, data, axi.bytes());
      memset(pins_.m_axi_wstrb, 0, sizeof pins_.m_axi_wstrb);
      for (unsigned i = 0; i < axi.bytes(); i++) {
        if (axi.strobes[(at + i) / 64] >> (at + i) % 64 & 1) pins_.m_axi_wstrb[(lane + i) / 8] |= 1 << (lane + i) % 8;
      }
    }
    pins_.m_axi_wlast = axi.beat + 1 == axi.beats;
    pins_.m_axi_wvalid = 1;
  }

  static void request(tlm::tlm_generic_payload* payload, uint64_t* address, uint32_t* id, uint8_t* length,
                      uint8_t* size, uint8_t* burst, uint8_t* valid) {
    const AxiExtension& axi = *payload->get_extension<AxiExtension>();
    *id = axi.id;
    *length = static_cast<uint8_t>(axi.beats - 1);
    *address = axi.start;
    *size = axi.size;
    *burst = axi.kind;
    *valid = 1;
  }

  // What the memory does in this cycle.
  void answer(bool beat, bool response) {
    if (pins_.m_axi_arvalid & pins_.m_axi_arready) send(*ar_, tlm::END_REQ);
    if (pins_.m_axi_awvalid & pins_.m_axi_awready) send(*aw_, tlm::END_REQ);
    if (pins_.m_axi_wvalid & pins_.m_axi_wready) {
      writes_.front()->get_extension<AxiExtension>()->offered = false;
      send(*writes_.front(), END_BEAT);
    }
    if (beat) answer_beat();
    if (response) {
      tlm::tlm_generic_payload& payload = *oldest(answers_, pins_.m_axi_bid);
      AxiExtension& axi = *payload.get_extension<AxiExtension>();
      axi.response = pins_.m_axi_bresp;
      payload.set_response_status(to_status(axi.response));
      send(payload, tlm::BEGIN_RESP);
    }
  }

  // Bursts of one ID are answered in order, others as the memory likes.
  static tlm::tlm_generic_payload* oldest(const std::deque<tlm::tlm_generic_payload*>& waiting, uint32_t id) {
    return *std::find_if(waiting.begin(), waiting.end(), [id](tlm::tlm_generic_payload* payload) {
      return payload->get_extension<AxiExtension>()->id == id;
    });
  }

  void answer_beat() {
    tlm::tlm_generic_payload& payload = *oldest(reads_, pins_.m_axi_rid);
    AxiExtension& axi = *payload.get_extension<AxiExtension>();
    uint8_t* data = payload.get_data_ptr() + axi.at(axi.beat);
    if (axi.bytes() == kWord) {
      memcpy(data, pins_.m_axi_rdata, kWord);
    } else {
      memcpy(data, pins_.m_axi_rdata + axi.lane(axi.beat), axi.bytes());
    }
    axi.response = pins_.m_axi_rresp;
    if (axi.response != kAxiOkay || axi.beat == 0) payload.set_response_status(to_status(axi.response));
    send(payload, pins_.m_axi_rlast ? tlm::tlm_phase(tlm::BEGIN_RESP) : tlm::tlm_phase(BEGIN_BEAT));
  }

  void send(tlm::tlm_generic_payload& payload, const tlm::tlm_phase& phase) {
    tlm::tlm_phase p = phase;
    sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
    (void)socket->nb_transport_bw(payload, p, delay);
  }

  tlm::tlm_sync_enum forward(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                             sc_core::sc_time& delay) override {
    auto* axi = payload.get_extension<AxiExtension>();
    if (!axi || axi->word != kWord) return whole(payload, phase, delay);
    if (phase == tlm::BEGIN_REQ) {
      payload.acquire();
      (payload.is_read() ? ar_next_ : aw_next_) = &payload;
    } else if (phase == END_BEAT) {
      axi->beat++;
      pins_.m_axi_rready = 1;
    } else if (phase == tlm::END_RESP) {
      (payload.is_read() ? pins_.m_axi_rready : pins_.m_axi_bready) = 1;
      auto& waiting = payload.is_read() ? reads_ : answers_;
      waiting.erase(std::find(waiting.begin(), waiting.end(), &payload));
      payload.release();
      return tlm::TLM_COMPLETED;
    }
    return tlm::TLM_ACCEPTED;
  }

  // A burst of a master that doesn't know beats, or has others: at once.
  tlm::tlm_sync_enum whole(tlm::tlm_generic_payload& payload, const tlm::tlm_phase& phase, sc_core::sc_time& delay) {
    if (phase != tlm::BEGIN_REQ) return tlm::TLM_ACCEPTED;
    b_transport(payload, delay);
    return tlm::TLM_COMPLETED;
  }

  AxiMemory<AxiPins<kWord>> memory_;
  AxiPins<kWord> pins_ = {};
  uint64_t now_ = 0;
  tlm::tlm_generic_payload *ar_next_ = nullptr, *aw_next_ = nullptr;  // requested since the last bus cycle
  tlm::tlm_generic_payload *ar_ = nullptr, *aw_ = nullptr;            // requested, not taken
  std::deque<tlm::tlm_generic_payload*> reads_, writes_, answers_;    // taken, in order
};

}  // namespace

std::unique_ptr<Dram> Dram::make(sc_core::sc_module_name name, Clock& clock, unsigned word) {
  auto dram = of_word(word, [&](auto bytes) -> std::unique_ptr<Dram> {
    return std::make_unique<DramOf<decltype(bytes)::value>>(name, clock);
  });
  if (dram) return dram;
  throw std::invalid_argument("Dram: a beat has 4 to 128 bytes, a power of two, not " + std::to_string(word));
}

}  // namespace presil
