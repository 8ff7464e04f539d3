// SPDX-License-Identifier: Apache-2.0
// The DPI-C functions of presil_dpi.sv: libpresil_dpi.so, to be named to the simulator (docs/dpi.md).
#include <svdpi.h>

#include <cstdio>
#include <cstring>
#include <memory>

#include "pin_server.h"

namespace {

void say(void*, const char* text) { fprintf(stderr, "presil_dpi: %s\n", text); }

presil_server* serve(const char* socket, const char* chip, const char* configuration, unsigned clock_mhz) {
  presil_serve_options o = {};
  o.size = sizeof o;
  o.path = socket;
  o.log = say;
  o.info.size = sizeof o.info;
  o.info.abi = PRESIL_TRANSPORT_ABI;
  o.info.capabilities = PRESIL_CAP_CLOCKED | PRESIL_CAP_WRITE_LOG | PRESIL_CAP_WRITE_TIMES | PRESIL_CAP_COHERENT;
  o.info.clock_mhz = clock_mhz;
  snprintf(o.info.chip, sizeof o.info.chip, "%s", chip);
  snprintf(o.info.config, sizeof o.info.config, "%s", configuration);
  snprintf(o.info.build, sizeof o.info.build, "dpi");
  snprintf(o.info.text, sizeof o.info.text, "presil_dpi in a SystemVerilog simulator");
  presil_server* server = nullptr;
  char error[256] = "";
  if (presil_serve_open(&o, &server, error, sizeof error) == 0) return server;
  say(nullptr, error);
  return nullptr;
}

}  // namespace

// Nothing may be thrown into the simulator: what can fail here says so and gives up.
extern "C" {

__attribute__((visibility("default"))) void* presil_dpi_open(const char* socket, const char* chip,
                                                             const char* configuration, unsigned word_bytes,
                                                             unsigned clock_mhz, unsigned registers) try {
  presil_server* server = serve(socket, chip, configuration, clock_mhz);
  if (!server) return nullptr;
  auto pins = presil::make_pin_server(word_bytes, registers, server);
  if (!pins) {
    fprintf(stderr, "presil_dpi: WORD is %u: 4, 8, 16, 32, 64 or 128 bytes expected\n", word_bytes);
    presil_serve_close(server);
  }
  return pins.release();
} catch (const std::exception& e) {
  say(nullptr, e.what());
  return nullptr;
} catch (...) {
  return nullptr;
}

__attribute__((visibility("default"))) void presil_dpi_close(void* server) {
  delete static_cast<presil::PinServer*>(server);
}

__attribute__((visibility("default"))) void presil_dpi_rising(void* server, const svBitVecVal* pins) {
  presil::FromChip from;
  memcpy(&from, pins, sizeof from);
  static_cast<presil::PinServer*>(server)->rising(from);
}

// Returns 1 at the end of serving.
__attribute__((visibility("default"))) int presil_dpi_falling(void* server, const svBitVecVal* pins,
                                                              svBitVecVal* inputs) {
  presil::FromChip from;
  presil::ToChip to;
  memcpy(&from, pins, sizeof from);
  const bool goes_on = static_cast<presil::PinServer*>(server)->falling(from, &to);
  memcpy(inputs, &to, sizeof to);
  return !goes_on;
}

}  // extern "C"
