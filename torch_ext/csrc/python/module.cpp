// SPDX-License-Identifier: Apache-2.0
#include "python/bind.h"

PYBIND11_MODULE(_C, m) {
  presil::bind_device(m);
  presil::bind_settings(m);
  presil::bind_memory(m);
  presil::bind_errors(m);
  presil::bind_distributed(m);
  presil::bind_compiler(m);
  presil::bind_host(m);
  presil::bind_observe(m);
  presil::bind_graph(m);
  presil::bind_capture(m);
  presil::bind_reports(m);
  presil::bind_vision(m);
}
