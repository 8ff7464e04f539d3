// SPDX-License-Identifier: Apache-2.0
#include "runtime/float16.h"
#include "runtime/device.h"

#include <presil_op.h>

#include <array>
#include <atomic>

namespace presil {
namespace {

presil_tensor one_element(uint32_t ndim) {
  presil_tensor t{};
  t.dtype = PRESIL_FP16;
  t.ndim = ndim;
  for (uint32_t i = 0; i < ndim; i++) t.shape[i] = t.stride[i] = 1;
  return t;
}

bool takes_matmul(presil_device* d) {
  presil_matmul_desc desc{};
  desc.size = sizeof desc;
  desc.compute = PRESIL_COMPUTE_FP16;
  desc.a = desc.b = desc.out = one_element(3);
  return presil_matmul(d, PRESIL_ONLY_ASK, &desc) == PRESIL_OK;
}

bool takes_kernel(presil_device* d) {
  presil_conv2d_desc desc{};
  desc.size = sizeof desc;
  desc.compute = PRESIL_COMPUTE_FP16;
  desc.input = desc.output = desc.kernel = one_element(4);
  desc.stride[0] = desc.stride[1] = 1;
  return presil_conv2d(d, PRESIL_ONLY_ASK, &desc) == PRESIL_OK;
}

bool takes_weight_gradient(presil_device* d) {
  presil_conv2d_weight_grad_desc desc{};
  desc.size = sizeof desc;
  desc.compute = PRESIL_COMPUTE_FP16;
  desc.input = desc.grad = desc.out = one_element(4);
  for (int i = 0; i < 2; i++) desc.stride[i] = desc.dilation[i] = 1;
  return presil_conv2d_weight_grad(d, PRESIL_ONLY_ASK, &desc) == PRESIL_OK;
}

bool packs_float16(presil_device* d) {
  if (!presil_packs_weights(d)) return true;
  presil_weights_desc desc{};
  desc.size = sizeof desc;
  desc.compute = PRESIL_COMPUTE_FP16;
  desc.weight_dtype = PRESIL_FP16;
  desc.groups = 1;
  for (int i = 0; i < 4; i++) desc.shape[i] = desc.stride[i] = 1;
  presil_weights* asked = nullptr;
  if (presil_weights_create(d, &desc, &asked) != PRESIL_OK) return false;
  presil_weights_destroy(asked);
  return true;
}

bool ask(presil_device* d) {
  presil_device_info info{};
  info.size = sizeof info;
  check(presil_device_get_info(d, &info), "asking the device what it is");
  if (info.mode != PRESIL_MODE_MODEL) check(presil_device_start(d), "starting the device");
  return takes_matmul(d) && takes_kernel(d) && takes_weight_gradient(d) && packs_float16(d);
}

}  // namespace

bool has_float16(int index) {
  enum : uint8_t { kUnknown, kNo, kYes };
  static std::array<std::atomic<uint8_t>, kMaxDevices> known{};
  auto& answer = known.at(static_cast<size_t>(index));
  if (answer == kUnknown) answer = ask(device(index)) ? kYes : kNo;
  return answer == kYes;
}

}  // namespace presil
