// SPDX-License-Identifier: Apache-2.0
// Matrix products. What the chip takes (float32 and bfloat16; int8 for _int_mm) runs there whatever the strides; the rest, and every invalid call, is the CPU's.
#include "ops/chip_ops.h"
#include "host/fallback.h"

#include <ATen/native/Resize.h>
#include <torch/library.h>

namespace presil {
namespace {

using at::Scalar;
using at::Tensor;

bool same_chip_dtype(std::initializer_list<const Tensor*> tensors) {
  const Tensor& first = **tensors.begin();
  for (const Tensor* t : tensors)
    if (t->device() != first.device() || t->scalar_type() != first.scalar_type() || t->is_neg() || t->is_conj()) return false;
  return chip_dtype(first.scalar_type());
}

// The chip's LOAD wants one of the two innermost strides to be 1, and no other overlap.
Tensor loadable(const Tensor& t) {
  const auto ok = [&](int fast, int slow) {
    return (t.size(fast) == 1 || t.stride(fast) == 1) && (t.size(slow) == 1 || t.stride(slow) >= std::max<int64_t>(t.size(fast), 1));
  };
  if ((ok(2, 1) || ok(1, 2)) && (t.size(0) == 1 || t.stride(0) >= 0)) return t;
  note_host_operator("presil::layout", "operand with strides that the chip can't load is copied");
  return t.contiguous();
}

// [B,M,K] x [B,K,N] (+ residual [B,M,N], broadcast by strides). Shapes and dtypes are checked by the callers.
Tensor product(const char* label, const Tensor& a, const Tensor& b, const Tensor& residual, c10::ScalarType out_type, presil_compute compute) {
  const int64_t batch = a.size(0), m = a.size(1), n = b.size(2);
  Tensor out = at::empty({batch, m, n}, a.options().dtype(out_type));
  if (out.numel() == 0) return out;
  if (a.size(2) == 0) return residual.defined() ? out.copy_(residual) : out.zero_();
  Fusion fusion;
  if (residual.defined()) {
    const bool ok = (n == 1 || residual.stride(2) == 1) && residual.scalar_type() == out_type;
    fusion.residual = ok ? residual : residual.to(out_type).contiguous();
  }
  if (chip_matmul(label, loadable(a), loadable(b), out, compute, fusion)) return out;
  TORCH_CHECK(chip_matmul(label, a.contiguous(), b.contiguous(), out, compute, fusion), "presil: ", label, ": ", presil_error_text());
  return out;
}

Tensor presil_mm(const Tensor& a, const Tensor& b) {
  if (a.dim() != 2 || b.dim() != 2 || a.size(1) != b.size(0) || !same_chip_dtype({&a, &b}))
    return on_host("aten::mm", "dtype or shape", a.device().type() == kDevice ? a.device().index() : b.device().index(), [&](HostViews& v) { return at::mm(v.to_host(a), v.to_host(b)); });
  return product("mm", a.unsqueeze(0), b.unsqueeze(0), {}, a.scalar_type(), compute_for(a.scalar_type())).squeeze(0);
}

Tensor presil_bmm(const Tensor& a, const Tensor& b) {
  if (a.dim() != 3 || b.dim() != 3 || a.size(0) != b.size(0) || a.size(2) != b.size(1) || !same_chip_dtype({&a, &b}))
    return on_host("aten::bmm", "dtype or shape", a.device().type() == kDevice ? a.device().index() : b.device().index(), [&](HostViews& v) { return at::bmm(v.to_host(a), v.to_host(b)); });
  return product("bmm", a, b, {}, a.scalar_type(), compute_for(a.scalar_type()));
}

// beta * self + alpha * product: alone beta in {0, 1} and alpha = 1 fit the epilogue; other factors are applied by the host to the fp32-rounded product.
Tensor scaled(const Tensor& self, const Tensor& result, const Scalar& beta, const Scalar& alpha) {
  Tensor out = result;
  if (!alpha.equal(1)) out = out.mul(alpha);
  return beta.equal(0) ? out : out.add(self, beta);
}

bool addable(const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha) {
  return same_chip_dtype({&self, &a, &b}) && !beta.isComplex() && !alpha.isComplex();
}

Tensor presil_addmm(const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha) {
  const bool fits = a.dim() == 2 && b.dim() == 2 && a.size(1) == b.size(0) && self.dim() <= 2 && addable(self, a, b, beta, alpha) && at::is_expandable_to(self.sizes(), {a.size(0), b.size(1)});
  if (!fits)
    return on_host("aten::addmm", "dtype or shape", self.device().type() == kDevice ? self.device().index() : current_device(),
                   [&](HostViews& v) { return at::addmm(v.to_host(self), v.to_host(a), v.to_host(b), beta, alpha); });
  const auto compute = compute_for(a.scalar_type());
  const Tensor expanded = self.expand({a.size(0), b.size(1)});
  if (alpha.equal(1) && beta.equal(1)) return product("addmm", a.unsqueeze(0), b.unsqueeze(0), expanded.unsqueeze(0), a.scalar_type(), compute).squeeze(0);
  return scaled(expanded, product("addmm", a.unsqueeze(0), b.unsqueeze(0), {}, a.scalar_type(), compute).squeeze(0), beta, alpha);
}

Tensor presil_baddbmm(const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha) {
  const bool fits = a.dim() == 3 && b.dim() == 3 && a.size(0) == b.size(0) && a.size(2) == b.size(1) && self.dim() <= 3 && addable(self, a, b, beta, alpha) &&
                    at::is_expandable_to(self.sizes(), {a.size(0), a.size(1), b.size(2)});
  if (!fits)
    return on_host("aten::baddbmm", "dtype or shape", self.device().type() == kDevice ? self.device().index() : current_device(),
                   [&](HostViews& v) { return at::baddbmm(v.to_host(self), v.to_host(a), v.to_host(b), beta, alpha); });
  const auto compute = compute_for(a.scalar_type());
  const Tensor expanded = self.expand({a.size(0), a.size(1), b.size(2)});
  if (alpha.equal(1) && beta.equal(1)) return product("baddbmm", a, b, expanded, a.scalar_type(), compute);
  return scaled(expanded, product("baddbmm", a, b, {}, a.scalar_type(), compute), beta, alpha);
}

Tensor presil_mv(const Tensor& a, const Tensor& x) {
  if (a.dim() != 2 || x.dim() != 1 || a.size(1) != x.size(0) || !same_chip_dtype({&a, &x}))
    return on_host("aten::mv", "dtype or shape", a.device().index(), [&](HostViews& v) { return at::mv(v.to_host(a), v.to_host(x)); });
  return product("mv", a.unsqueeze(0), x.view({1, -1, 1}), {}, a.scalar_type(), compute_for(a.scalar_type())).view({a.size(0)});
}

Tensor presil_dot(const Tensor& x, const Tensor& y) {
  if (x.dim() != 1 || y.dim() != 1 || x.size(0) != y.size(0) || !same_chip_dtype({&x, &y}))
    return on_host("aten::dot", "dtype or shape", x.device().index(), [&](HostViews& v) { return at::dot(v.to_host(x), v.to_host(y)); });
  return product("dot", x.unsqueeze(0).unsqueeze(0), y.unsqueeze(1).unsqueeze(0), {}, x.scalar_type(), compute_for(x.scalar_type())).view(c10::IntArrayRef{});
}

Tensor presil_int_mm(const Tensor& a, const Tensor& b) {
  if (a.dim() != 2 || b.dim() != 2 || a.size(1) != b.size(0) || a.scalar_type() != c10::kChar || b.scalar_type() != c10::kChar || a.device() != b.device())
    return on_host("aten::_int_mm", "dtype or shape", a.device().index(), [&](HostViews& v) { return at::_int_mm(v.to_host(a), v.to_host(b)); });
  return product("_int_mm", a.unsqueeze(0), b.unsqueeze(0), {}, c10::kInt, PRESIL_COMPUTE_INT8).squeeze(0);
}

// out=: computed aside and copied, so that overlap of out with an operand is harmless.
Tensor& into(Tensor& out, const Tensor& result) {
  TORCH_CHECK(out.scalar_type() == result.scalar_type(), "Expected out tensor to have dtype ", result.scalar_type(), ", but got ", out.scalar_type(), " instead");
  at::native::resize_output(out, result.sizes());
  return out.copy_(result);
}
Tensor& mm_out(const Tensor& a, const Tensor& b, Tensor& out) { return into(out, presil_mm(a, b)); }
Tensor& bmm_out(const Tensor& a, const Tensor& b, Tensor& out) { return into(out, presil_bmm(a, b)); }
Tensor& addmm_out(const Tensor& s, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha, Tensor& out) { return into(out, presil_addmm(s, a, b, beta, alpha)); }
Tensor& baddbmm_out(const Tensor& s, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha, Tensor& out) { return into(out, presil_baddbmm(s, a, b, beta, alpha)); }
Tensor& int_mm_out(const Tensor& a, const Tensor& b, Tensor& out) { return into(out, presil_int_mm(a, b)); }

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("mm", presil_mm);
  m.impl("mm.out", mm_out);
  m.impl("bmm", presil_bmm);
  m.impl("bmm.out", bmm_out);
  m.impl("addmm", presil_addmm);
  m.impl("addmm.out", addmm_out);
  m.impl("baddbmm", presil_baddbmm);
  m.impl("baddbmm.out", baddbmm_out);
  m.impl("mv", presil_mv);
  m.impl("dot", presil_dot);
  m.impl("_int_mm", presil_int_mm);
  m.impl("_int_mm.out", int_mm_out);
}

}  // namespace
}  // namespace presil
