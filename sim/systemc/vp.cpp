// SPDX-License-Identifier: Apache-2.0
// presil-vp: the SystemC platform as a process of its own, driven through a socket (docs/systemc.md,
// docs/transport-protocol.md).
#include <csignal>
#include <cstdio>
#include <cstring>
#include <stdexcept>

#include "config.h"
#include "platform.h"
#include "presil_serve.h"
#include "presil_tlm.h"

namespace {

using presil::VpSettings;

const char usage[] = "usage: presil-vp CONFIG [--socket PATH] [--once] [--quiet]\n"
                     "  CONFIG    key = value in sections: chip, bus, map, traffic, trace, server (docs/systemc.md)\n"
                     "  --socket  listens there instead of at the file's server.socket; clients use it as socket:PATH\n"
                     "  --once    ends when the first client has gone\n"
                     "  --quiet   says nothing about clients that come and go\n";

volatile int stop = 0;

void on_signal(int number) { stop = number; }

void on_log(void*, const char* text) { fprintf(stderr, "presil-vp: %s\n", text); }

// SystemC's own exit and the usual one both leave the platform as it is: its modules live as long as the process.
int serve(presil::Platform& platform, const VpSettings& s, presil_serve_options options) {
  options.path = s.socket.c_str();
  presil_server* server = nullptr;
  char error[512] = "";
  if (presil_serve_open(&options, &server, error, sizeof error)) throw std::runtime_error(error);
  if (options.log)
    fprintf(stderr, "presil-vp: %s %s, chip %u MHz, bus %u MHz, traffic %u %%: PRESIL_TRANSPORT=socket:%s\n",
            platform.chip().configuration(), s.platform.build.c_str(), s.platform.clock_mhz,
            s.platform.bus_mhz ? s.platform.bus_mhz : s.platform.clock_mhz, s.platform.traffic.load, s.socket.c_str());
  const int status = presil_serve_transport(server, presil::platform_transport());
  if (status) fprintf(stderr, "presil-vp: %s\n", presil_serve_error_text(server));
  presil_serve_close(server);
  return status != 0;
}

int run(const char* config, const char* socket, const presil_serve_options& options) {
  VpSettings settings;
  std::string error;
  if (!presil::read_config(config, &settings, &error)) throw std::runtime_error(error);
  if (socket) settings.socket = socket;
  if (settings.socket.empty())
    throw std::runtime_error("where to listen? --socket PATH, or server.socket in the configuration");
  settings.platform.make = presil::load_chip(settings.library, settings.config, settings.platform.build);
  auto* platform = new presil::Platform("platform", settings.platform);
  presil::offer_platform(platform);
  sc_core::sc_trace_file* vcd = nullptr;
  if (!settings.platform_vcd.empty()) {
    const std::string &file = settings.platform_vcd, end = ".vcd";  // SystemC adds it
    const bool named = file.size() > end.size() && file.compare(file.size() - end.size(), end.size(), end) == 0;
    vcd = sc_core::sc_create_vcd_trace_file((named ? file.substr(0, file.size() - end.size()) : file).c_str());
    platform->trace(vcd);
  }
  const int status = serve(*platform, settings, options);
  if (vcd) sc_core::sc_close_vcd_trace_file(vcd);
  return status;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int sc_main(int argc, char** argv) try {
  presil_serve_options options = {};
  options.size = sizeof options;
  options.stop = &stop;
  options.log = on_log;
  const char *config = nullptr, *socket = nullptr;
  for (int i = 1; i < argc; i++) {
    if (!strcmp(argv[i], "--socket") && i + 1 < argc) {
      socket = argv[++i];
    } else if (!strcmp(argv[i], "--once")) {
      options.once = 1;
    } else if (!strcmp(argv[i], "--quiet")) {
      options.log = nullptr;
    } else if (!strcmp(argv[i], "-h") || !strcmp(argv[i], "--help")) {
      return fputs(usage, stdout) < 0;
    } else if (*argv[i] != '-' && !config) {
      config = argv[i];
    } else {
      fprintf(stderr, "presil-vp: what is %s?\n%s", argv[i], usage);
      return 2;
    }
  }
  if (!config) {
    fputs(usage, stderr);
    return 2;
  }
  signal(SIGINT, on_signal);
  signal(SIGTERM, on_signal);
  return run(config, socket, options);
} catch (const std::exception& e) {
  fprintf(stderr, "presil-vp: %s\n", e.what());
  return 1;
}
