// SPDX-License-Identifier: Apache-2.0
#include "python/bind.h"

#include "vision/vision.h"

namespace presil {

void bind_vision(pybind11::module_& m) { m.def("define_vision_operators", &define_vision_operators); }

}  // namespace presil
