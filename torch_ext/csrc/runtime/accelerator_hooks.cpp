// SPDX-License-Identifier: Apache-2.0
// Hooks: what ATen asks an accelerator for, and the device's name.
#include "runtime/capturing.h"
#include "runtime/allocator.h"
#include "runtime/device.h"
#include "runtime/generator.h"
#include "runtime/pinned.h"

#include <ATen/detail/PrivateUse1HooksInterface.h>

namespace presil {
namespace {

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex index) const override { return opened(index) != nullptr; }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex index) const override { return default_generator(index); }
  at::Generator getNewGenerator(c10::DeviceIndex index) const override { return new_generator(index); }
  c10::Device getDeviceFromPtr(void* p) const override {
    const int i = device_of_pointer(p);
    TORCH_CHECK(i >= 0, "presil: pointer ", p, " is not in the memory of a presil device");
    return make_device(i);
  }
  c10::Allocator* getPinnedMemoryAllocator() const override { return &host_allocator(); }
  bool isPinnedPtr(const void* p) const override { return is_pinned(p); }
  c10::DeviceIndex deviceCount() const override { return static_cast<c10::DeviceIndex>(device_count()); }
  c10::DeviceIndex getCurrentDevice() const override { return static_cast<c10::DeviceIndex>(current_device()); }
  void setCurrentDevice(c10::DeviceIndex d) const override { set_device(d); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex d) const override {
    const auto old = getCurrentDevice();
    set_device(d);
    return old;
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex d) const override {
    const auto old = getCurrentDevice();
    if (d >= 0) set_device(d);
    return old;
  }
  void resizePrivateUse1Bytes(const c10::Storage& s, size_t bytes) const override {
    const int i = s.device().index();
    if (s.nbytes())
      refuse_capture(i, "resize of a storage", "it moves memory that holds data: give it the right size before");
    wait_pending(i);
    void* p = device_malloc(i, bytes);
    if (p && s.data()) memcpy(p, s.data(), std::min(s.nbytes(), bytes));
    s.unsafeGetStorageImpl()->set_data_ptr_noswap({p, p, &device_free, make_device(i)});
    s.unsafeGetStorageImpl()->set_nbytes(bytes);
  }
};
const int registered =
    (at::RegisterPrivateUse1HooksInterface(new Hooks), c10::register_privateuse1_backend("presil"), 0);

}  // namespace
}  // namespace presil
