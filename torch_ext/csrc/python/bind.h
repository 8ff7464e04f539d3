// SPDX-License-Identifier: Apache-2.0
// torch_presil._C, one bind_*.cpp a topic; only files in this folder include pybind and libtorch_python.
#pragma once
#include <pybind11/pybind11.h>

namespace presil {

void bind_device(pybind11::module_& m);       // devices
void bind_settings(pybind11::module_& m);     // torch.backends.presil
void bind_memory(pybind11::module_& m);       // pools, snapshot, pinned memory's statistics
void bind_errors(pybind11::module_& m);       // table of exceptions, where launches come from
void bind_distributed(pybind11::module_& m);  // torch.distributed's backend
void bind_compiler(pybind11::module_& m);     // recorded partitions of compiled graphs
void bind_host(pybind11::module_& m);         // CPU views
void bind_observe(pybind11::module_& m);      // explain: what ran where, and the user's line
void bind_graph(pybind11::module_& m);        // capture and replay
void bind_capture(pybind11::module_& m);      // launches as bundles
void bind_reports(pybind11::module_& m);      // launches' reports, host operators
void bind_vision(pybind11::module_& m);       // torchvision's operators

}  // namespace presil
