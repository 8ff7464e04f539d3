// SPDX-License-Identifier: Apache-2.0
#include "python/bind.h"

#include "compiler/partition.h"
#include "ops/clamps.h"

#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

namespace py = pybind11;

namespace presil {

namespace {

using OptionalTensor = std::optional<at::Tensor>;
using Pair = std::array<int64_t, 2>;

// Behind the array: residual of the output's shape, then clamp to [low, high].
Fusion fusion_of(const OptionalTensor& residual, std::optional<double> low, std::optional<double> high) {
  Fusion f;
  f.residual = residual.value_or(at::Tensor());
  f.clamp = low || high;
  f.low = low.value_or(-std::numeric_limits<double>::infinity());
  f.high = high.value_or(std::numeric_limits<double>::infinity());
  return f;
}

// norm: mean, variance, weight and bias (either may be None) of a batch-norm to fold, or empty. product: it stands for
// a product of matrices, whose settings of precision count.
void conv2d(Partition& p, const std::string& label, const at::Tensor& x, const at::Tensor& weight,
            const OptionalTensor& bias, const at::Tensor& out, const std::vector<OptionalTensor>& norm, double eps,
            Pair stride, Pair padding, Pair dilation, Pair input_dilation, int64_t groups, bool transposed,
            const OptionalTensor& residual, std::optional<double> low, std::optional<double> high, bool product) {
  WeightRequest asked;
  asked.weight = weight;
  asked.bias = bias.value_or(at::Tensor());
  for (size_t i = 0; i < norm.size() && i < asked.norm.size(); i++) asked.norm[i] = norm[i].value_or(at::Tensor());
  asked.norm_eps = eps;
  if (weight.scalar_type() != x.scalar_type()) asked.rounded = x.scalar_type();
  asked.compute = compute_for(x.scalar_type(), product ? Fp32Op::matmul : Fp32Op::conv);
  asked.groups = groups;
  asked.dilation = dilation;
  asked.input_dilation = input_dilation;
  asked.transposed = transposed;
  p.conv2d(label, x, asked, ConvGeometry{stride, padding, dilation, input_dilation, groups},
           fusion_of(residual, low, high), 0, out);
}

// output_zero_point: None for float32 out. low, high: bounds of the codes, or of the real values.
void conv2d_int8(Partition& p, const std::string& label, const at::Tensor& x, const at::Tensor& weight,
                 const at::Tensor& bias, const at::Tensor& scale, const at::Tensor& out, Pair stride, Pair padding,
                 Pair dilation, int64_t groups, int64_t input_zero_point, std::optional<int64_t> output_zero_point,
                 const OptionalTensor& residual, double residual_scale, int64_t residual_zero_point,
                 std::optional<double> low, std::optional<double> high) {
  WeightRequest asked;
  asked.weight = weight;
  asked.bias = bias;
  asked.scale = scale;
  asked.compute = PRESIL_COMPUTE_INT8;
  asked.groups = groups;
  asked.dilation = dilation;
  Fusion fusion = fusion_of(residual, low, high);
  fusion.int8_output = output_zero_point.has_value();
  fusion.out_zero_point = output_zero_point.value_or(0);
  fusion.int_low = static_cast<int64_t>(std::max(low.value_or(-128), -128.0));
  fusion.int_high = static_cast<int64_t>(std::min(high.value_or(127), 127.0));
  fusion.residual_scale = residual_scale;
  fusion.residual_zero_point = residual_zero_point;
  p.conv2d(label, x, asked, ConvGeometry{stride, padding, dilation, {1, 1}, groups}, fusion,
           static_cast<uint8_t>(input_zero_point), out);
}

}  // namespace

void bind_compiler(py::module_& m) {
  // Whether the chip has operators of the kind of this name (presil_op_name) at all.
  m.def("chip_has", [](int index, const std::string& kind) {
    for (uint32_t i = 0; presil_op_name(i); i++)
      if (kind == presil_op_name(i)) return (presil_op_kinds(device(index)) >> i & 1) != 0;
    throw py::value_error("no kind of operator is called \"" + kind + "\"");
  });
  py::dict clamps;  // name -> (low, high)
  for (const Clamp& clamp : kClamps) clamps[clamp.name] = py::make_tuple(clamp.bounds.low, clamp.bounds.high);
  m.attr("CLAMPS") = clamps;
  using py::arg;
  constexpr Pair one{1, 1}, zero{0, 0};
  const py::object none = py::none();
  py::class_<Partition, std::shared_ptr<Partition>>(m, "Partition")
      .def(py::init<int, bool>(), py::arg("index"), py::arg("only_ask") = false)
      .def("conv2d", &conv2d, arg("label"), arg("x"), arg("weight"), arg("bias"), arg("out"), py::kw_only(),
           arg("norm") = std::vector<OptionalTensor>(), arg("eps") = 0.0, arg("stride") = one, arg("padding") = zero,
           arg("dilation") = one, arg("input_dilation") = one, arg("groups") = 1, arg("transposed") = false,
           arg("residual") = none, arg("low") = none, arg("high") = none, arg("product") = false)
      .def("conv2d_int8", &conv2d_int8, arg("label"), arg("x"), arg("weight"), arg("bias"), arg("scale"), arg("out"),
           py::kw_only(), arg("stride") = one, arg("padding") = zero, arg("dilation") = one, arg("groups") = 1,
           arg("input_zero_point"), arg("output_zero_point"), arg("residual"), arg("residual_scale"),
           arg("residual_zero_point"), arg("low"), arg("high"))
      .def("matmul", [](Partition& p, const std::string& label, const at::Tensor& a, const at::Tensor& b,
                        const OptionalTensor& residual, std::optional<double> low, std::optional<double> high,
                        const at::Tensor& out) { p.matmul(label, a, b, fusion_of(residual, low, high), out); })
      .def("input_grad",
           [](Partition& r, const std::string& label, const at::Tensor& grad, const at::Tensor& weight, Pair stride,
              Pair padding, Pair dilation, bool transposed, int64_t groups, const OptionalTensor& residual,
              const at::Tensor& out) {
             r.input_grad(label, grad, weight,
                          ConvArguments{stride, padding, dilation, transposed, groups,
                                        compute_for(grad.scalar_type(), Fp32Op::conv)},
                          residual, out);
           })
      .def("weight_grad",
           [](Partition& r, const std::string& label, const at::Tensor& grad, const at::Tensor& x, Pair stride,
              Pair padding, Pair dilation, bool transposed, int64_t groups, const at::Tensor& out) {
             r.weight_grad(label, grad, x,
                           ConvArguments{stride, padding, dilation, transposed, groups,
                                         compute_for(grad.scalar_type(), Fp32Op::conv)},
                           out);
           })
      .def("bias_grad", &Partition::bias_grad)
      .def("finish", &Partition::finish, py::call_guard<py::gil_scoped_release>())
      .def("moved", &Partition::moved, py::call_guard<py::gil_scoped_release>())
      .def("submit", &Partition::submit, py::call_guard<py::gil_scoped_release>())
      .def("place_weights", &Partition::place_weights)
      .def_property_readonly("weights_bytes", &Partition::weights_bytes)
      .def("save", [](const Partition& r, uint64_t base) { return py::bytes(r.save(base)); })
      .def("valid", &Partition::valid, py::call_guard<py::gil_scoped_release>())
      .def_property_readonly("launches", &Partition::launches)
      .def_property_readonly("operators", &Partition::operators);
}

}  // namespace presil
