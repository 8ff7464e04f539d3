// SPDX-License-Identifier: Apache-2.0
// The fused layers that torch.nn takes in eval mode (MultiheadAttention, TransformerEncoderLayer): on the CPU one
// kernel each, which would keep all their products on the host. Here they are the operators that they stand for, with
// the products on the chip. Batch first: [B, T, D].
#include <ATen/ATen.h>
#include <torch/library.h>

#include <cmath>

namespace presil {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

// [B, T, D] as [B, heads, T, D / heads]
Tensor by_heads(const Tensor& x, int64_t heads) { return x.reshape({x.size(0), x.size(1), heads, -1}).transpose(1, 2); }

std::tuple<Tensor, Tensor, Tensor> project(const Tensor& query, const Tensor& key, const Tensor& value,
                                           const Tensor& weight, const Tensor& bias) {
  if (query.is_same(key) && key.is_same(value)) {
    const auto parts = at::linear(query, weight, bias).chunk(3, -1);
    return {parts[0], parts[1], parts[2]};
  }
  const auto w = weight.chunk(3, 0), b = bias.chunk(3, 0);
  return {at::linear(query, w[0], b[0]), at::linear(key, w[1], b[1]), at::linear(value, w[2], b[2])};
}

// mask: true where a position is left out; its shape as mask_type says (0: [T, T], 1: [B, T], 2: [B, heads, T, T]).
std::tuple<Tensor, Tensor> multi_head_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                                int64_t embed_dim, int64_t heads, const Tensor& qkv_weight,
                                                const Tensor& qkv_bias, const Tensor& proj_weight,
                                                const Tensor& proj_bias, const OptionalTensor& mask, bool need_weights,
                                                bool average_weights, std::optional<int64_t> mask_type) {
  TORCH_CHECK(query.dim() == 3 && key.dim() == 3 && value.dim() == 3,
              "expected 3-D query, key and value [batch, sequence, features], got ", query.sizes(), ", ", key.sizes(),
              ", ", value.sizes());
  TORCH_CHECK(heads > 0 && embed_dim % heads == 0 && query.size(2) == embed_dim, "expected embed_dim ", embed_dim,
              " to be the query's last dimension and a multiple of ", heads, " heads, got ", query.sizes());
  TORCH_CHECK(qkv_weight.dim() == 2 && qkv_weight.size(0) == 3 * embed_dim && qkv_bias.dim() == 1 &&
                  qkv_bias.size(0) == 3 * embed_dim,
              "expected a qkv weight of ", 3 * embed_dim, " rows and a bias of as many values, got ",
              qkv_weight.sizes(), " and ", qkv_bias.sizes());
  const auto [q, k, v] = project(query, key, value, qkv_weight, qkv_bias);
  const Tensor scaled = by_heads(q, heads) / std::sqrt(static_cast<double>(embed_dim / heads));
  const Tensor scores = at::matmul(scaled, by_heads(k, heads).transpose(-2, -1));
  Tensor weights = mask && mask->defined()
                       ? at::_masked_softmax(scores, mask->to(at::kBool), scores.dim() - 1, mask_type)
                       : at::softmax(scores, -1);
  const Tensor context = at::matmul(weights, by_heads(v, heads)).transpose(1, 2).reshape(query.sizes());
  if (!need_weights)
    weights = Tensor();
  else if (average_weights)
    weights = weights.sum(1) / heads;
  return {at::linear(context, proj_weight, proj_bias), weights};
}

Tensor transformer_encoder_layer(const Tensor& src, int64_t embed_dim, int64_t heads, const Tensor& qkv_weight,
                                 const Tensor& qkv_bias, const Tensor& proj_weight, const Tensor& proj_bias,
                                 bool use_gelu, bool norm_first, double eps, const Tensor& norm_weight_1,
                                 const Tensor& norm_bias_1, const Tensor& norm_weight_2, const Tensor& norm_bias_2,
                                 const Tensor& ffn_weight_1, const Tensor& ffn_bias_1, const Tensor& ffn_weight_2,
                                 const Tensor& ffn_bias_2, const OptionalTensor& mask,
                                 std::optional<int64_t> mask_type) {
  const auto norm = [&](const Tensor& x, const Tensor& weight, const Tensor& bias) {
    return at::layer_norm(x, {embed_dim}, weight, bias, eps, true);
  };
  const auto attend = [&](const Tensor& x) {
    return std::get<0>(multi_head_attention(x, x, x, embed_dim, heads, qkv_weight, qkv_bias, proj_weight, proj_bias,
                                            mask, false, true, mask_type));
  };
  const auto feed_forward = [&](const Tensor& x) {
    const Tensor hidden = at::linear(x, ffn_weight_1, ffn_bias_1);
    return at::linear(use_gelu ? at::gelu(hidden) : at::relu(hidden), ffn_weight_2, ffn_bias_2);
  };
  if (norm_first) {
    const Tensor x = src + attend(norm(src, norm_weight_1, norm_bias_1));
    return x + feed_forward(norm(x, norm_weight_2, norm_bias_2));
  }
  const Tensor x = norm(src + attend(src), norm_weight_1, norm_bias_1);
  return norm(x + feed_forward(x), norm_weight_2, norm_bias_2);
}

// TransformerEncoder asks this before it turns padded input into a nested tensor, which can't live on the device: it
// then keeps the padded form.
bool may_become_nested(const Tensor&, const Tensor&) { return false; }

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_native_multi_head_attention", multi_head_attention);
  m.impl("_transformer_encoder_layer_fwd", transformer_encoder_layer);
  m.impl("_nested_tensor_from_mask_left_aligned", may_become_nested);
}

}  // namespace
}  // namespace presil
