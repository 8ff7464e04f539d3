// SPDX-License-Identifier: Apache-2.0
// The DPI-C functions of presil_dpi.sv: libpresil_dpi.so, to be named to the simulator (docs/dpi.md).
#include <svdpi.h>

#include <cstdio>
#include <memory>

#include "pin_bench.h"
#include "presil_serve.h"

namespace {

void say(void*, const char* text) { fprintf(stderr, "presil_dpi: %s\n", text); }

presil_transport_info describe(const char* chip, const char* configuration, unsigned clock_mhz) {
  presil_transport_info info = {};
  info.size = sizeof info;
  info.abi = PRESIL_TRANSPORT_ABI;
  info.clock_mhz = clock_mhz;
  snprintf(info.chip, sizeof info.chip, "%s", chip);
  snprintf(info.config, sizeof info.config, "%s", configuration);
  snprintf(info.build, sizeof info.build, "dpi");
  snprintf(info.text, sizeof info.text, "presil_dpi in a SystemVerilog simulator");
  return info;
}

// Destroyed in this order: the bench's fiber ends before its server goes.
struct Serving {
  ~Serving() {
    bench.reset();
    presil_serve_close(server);
  }
  presil_server* server = nullptr;
  std::unique_ptr<presil::PinBench> bench;
};

// False: said why.
bool serve(Serving* s, const char* socket) {
  presil_serve_options o = {};
  o.size = sizeof o;
  o.path = socket;
  o.log = say;
  o.info = s->bench->info();
  o.stop = s->bench->stop();
  o.polls = 1;
  char error[256] = "";
  const bool opened = presil_serve_open(&o, &s->server, error, sizeof error) == 0;
  opened ? s->bench->serves(s->server) : say(nullptr, error);
  return opened;
}

}  // namespace

// Nothing may be thrown into the simulator: what can fail here says so and gives up.
extern "C" {

__attribute__((visibility("default"))) void* presil_dpi_open(const char* socket, const char* chip,
                                                             const char* configuration, unsigned word_bytes,
                                                             unsigned clock_mhz, unsigned registers) try {
  auto s = std::make_unique<Serving>();
  s->bench = presil::PinBench::make(word_bytes, registers, describe(chip, configuration, clock_mhz), [s = s.get()] {
    if (presil_serve_transport(s->server, presil::pin_transport())) say(nullptr, presil_serve_error_text(s->server));
  });
  if (!s->bench) {
    fprintf(stderr, "presil_dpi: WORD is %u: 4, 8, 16, 32, 64 or 128 bytes expected\n", word_bytes);
    return nullptr;
  }
  return serve(s.get(), socket) ? s.release() : nullptr;
} catch (const std::exception& e) {
  say(nullptr, e.what());
  return nullptr;
} catch (...) {
  return nullptr;
}

__attribute__((visibility("default"))) void presil_dpi_close(void* server) { delete static_cast<Serving*>(server); }

__attribute__((visibility("default"))) void presil_dpi_rising(void* server, const svBitVecVal* pins) {
  static_cast<Serving*>(server)->bench->rising(*reinterpret_cast<const presil::FromChip*>(pins));
}

// Returns 1 at the end of serving.
__attribute__((visibility("default"))) int presil_dpi_falling(void* server, const svBitVecVal* pins,
                                                              svBitVecVal* inputs) {
  return !static_cast<Serving*>(server)->bench->falling(*reinterpret_cast<const presil::FromChip*>(pins),
                                                        reinterpret_cast<presil::ToChip*>(inputs));
}

}  // extern "C"
