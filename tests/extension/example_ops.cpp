// SPDX-License-Identifier: Apache-2.0
// Two operators as somebody outside this project writes them:
//   example::matmul_relu(a, b)  relu(a @ b), one launch on the chip through presil.h; CPU, meta and autograd kernels
//   example::running_max(x)     the largest so far along the last dimension, by the host over the device's memory
#include <presil/torch.h>
#include <torch/torch.h>

namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

void check_operands(const Tensor& a, const Tensor& b) {
  TORCH_CHECK_VALUE(a.dim() == 2 && b.dim() == 2 && a.sym_size(1) == b.sym_size(0),
                    "example::matmul_relu: expected (m, k) and (k, n), got ", a.sym_sizes(), " and ", b.sym_sizes());
  TORCH_CHECK_TYPE(a.scalar_type() == b.scalar_type(), "example::matmul_relu: expected one dtype, got ",
                   a.scalar_type(), " and ", b.scalar_type());
}

Tensor matmul_relu_cpu(const Tensor& a, const Tensor& b) {
  check_operands(a, b);
  return at::relu(at::mm(a, b));
}

Tensor matmul_relu_meta(const Tensor& a, const Tensor& b) {
  check_operands(a, b);
  return at::empty_symint({a.sym_size(0), b.sym_size(1)}, a.options());
}

Tensor matmul_relu_presil(const Tensor& a, const Tensor& b) {
  check_operands(a, b);
  const bool fp32 = a.scalar_type() == at::kFloat;
  if (a.numel() == 0 || b.numel() == 0 || (!fp32 && a.scalar_type() != at::kBFloat16)) return at::relu(at::mm(a, b));
  const Tensor x = a.contiguous(), y = b.contiguous(), out = at::empty({a.size(0), b.size(1)}, a.options());
  presil_matmul_desc desc{};
  desc.size = sizeof desc;
  desc.compute = fp32 ? PRESIL_COMPUTE_FP32 : PRESIL_COMPUTE_BF16;
  desc.label = "example::matmul_relu";
  desc.a = presil::api::describe(x.unsqueeze(0));
  desc.b = presil::api::describe(y.unsqueeze(0));
  desc.out = presil::api::describe(out.unsqueeze(0));
  desc.epilogue.clamp = 1;
  desc.epilogue.clamp_hi = std::numeric_limits<float>::infinity();
  const bool done = presil::api::launch("example::matmul_relu", out, [&](presil_device* device, presil_stream* stream) {
    return presil_matmul(device, stream, &desc);
  });
  return done ? out : at::relu(at::mm(a, b));
}

struct MatmulRelu : torch::autograd::Function<MatmulRelu> {
  static Tensor forward(AutogradContext* context, const Tensor& a, const Tensor& b) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    static const auto op = c10::Dispatcher::singleton()
                               .findSchemaOrThrow("example::matmul_relu", "")
                               .typed<Tensor(const Tensor&, const Tensor&)>();
    const Tensor out = op.call(a, b);
    context->save_for_backward({a, b, out});
    return out;
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    const auto saved = context->get_saved_variables();
    const Tensor g = grads[0] * (saved[2] > 0);
    return {at::mm(g, saved[1].t()), at::mm(saved[0].t(), g)};
  }
};

Tensor matmul_relu_autograd(const Tensor& a, const Tensor& b) { return MatmulRelu::apply(a, b); }

template <typename T> void running_max_rows(const Tensor& in, const Tensor& out) {
  const int64_t n = in.size(-1), rows = n ? in.numel() / n : 0;
  const T* from = in.const_data_ptr<T>();
  T* to = out.mutable_data_ptr<T>();
  for (int64_t r = 0; r < rows; r++)
    for (int64_t i = 0; i < n; i++) to[r * n + i] = i ? std::max(to[r * n + i - 1], from[r * n + i]) : from[r * n];
}

Tensor running_max_cpu(const Tensor& x) {
  TORCH_CHECK_VALUE(x.dim() > 0, "example::running_max: expected at least one dimension");
  const Tensor in = x.contiguous(), out = at::empty_like(in);
  AT_DISPATCH_ALL_TYPES(x.scalar_type(), "running_max", [&] { running_max_rows<scalar_t>(in, out); });
  return out;
}

Tensor running_max_presil(const Tensor& x) {
  TORCH_CHECK_VALUE(x.dim() > 0, "example::running_max: expected at least one dimension");
  const Tensor in = x.contiguous(), out = at::empty_like(in);
  const presil::api::Host host("example::running_max", "an example of host access", x);
  AT_DISPATCH_ALL_TYPES(x.scalar_type(), "running_max",
                        [&] { running_max_rows<scalar_t>(host.read(in), host.write(out)); });
  return out;
}

TORCH_LIBRARY(example, m) {
  m.def("matmul_relu(Tensor a, Tensor b) -> Tensor", {at::Tag::pt2_compliant_tag});
  m.def("running_max(Tensor x) -> Tensor", {at::Tag::pt2_compliant_tag});
}
TORCH_LIBRARY_IMPL(example, CPU, m) {
  m.impl("matmul_relu", matmul_relu_cpu);
  m.impl("running_max", running_max_cpu);
}
TORCH_LIBRARY_IMPL(example, PrivateUse1, m) {
  m.impl("matmul_relu", matmul_relu_presil);
  m.impl("running_max", running_max_presil);
}
TORCH_LIBRARY_IMPL(example, Meta, m) {
  m.impl("matmul_relu", matmul_relu_meta);
  m.impl("running_max", [](const Tensor& x) { return at::empty_like(x, x.options(), at::MemoryFormat::Contiguous); });
}
TORCH_LIBRARY_IMPL(example, Autograd, m) { m.impl("matmul_relu", matmul_relu_autograd); }

}  // namespace
