// SPDX-License-Identifier: Apache-2.0
// Device guard (devices, streams, events) and hooks: what c10 asks a device for.
#include "runtime/allocator.h"
#include "runtime/device.h"
#include "runtime/generator.h"

#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

namespace presil {
namespace {

c10::Device make_device(int index) { return c10::Device(kDevice, static_cast<c10::DeviceIndex>(index)); }
int index_or_current(c10::Device d) { return d.index() < 0 ? current_device() : d.index(); }

struct Guard final : c10::impl::DeviceGuardImplInterface {
  static constexpr c10::DeviceType static_type = kDevice;

  c10::DeviceType type() const override { return kDevice; }
  c10::Device exchangeDevice(c10::Device d) const override {
    const auto old = make_device(current_device());
    if (d.index() >= 0) set_device(d.index());
    return old;
  }
  c10::Device getDevice() const override { return make_device(current_device()); }
  void setDevice(c10::Device d) const override {
    if (d.index() >= 0) set_device(d.index());
  }
  void uncheckedSetDevice(c10::Device d) const noexcept override {
    if (d.index() >= 0) set_device_unchecked(d.index());
  }
  c10::DeviceIndex deviceCount() const noexcept override { return static_cast<c10::DeviceIndex>(device_count()); }
  c10::DeviceCapability getDeviceCapability(c10::Device) const override { return {}; }

  c10::Stream getStream(c10::Device d) const override {
    const int i = index_or_current(d);
    return c10::Stream(c10::Stream::UNSAFE, make_device(i), current_stream_id(i));
  }
  c10::Stream getDefaultStream(c10::Device d) const override { return c10::Stream(c10::Stream::DEFAULT, make_device(index_or_current(d))); }
  c10::Stream getNewStream(c10::Device d, int priority) const override {
    const int i = index_or_current(d);
    return c10::Stream(c10::Stream::UNSAFE, make_device(i), new_stream_id(i, priority));
  }
  c10::Stream getStreamFromGlobalPool(c10::Device d, bool high) const override { return getNewStream(d, high ? -1 : 0); }
  c10::Stream exchangeStream(c10::Stream s) const override {
    const int i = s.device_index();
    const c10::Stream old(c10::Stream::UNSAFE, make_device(i), current_stream_id(i));
    set_current_stream_id(i, s.id());
    return old;
  }
  bool queryStream(const c10::Stream& s) const override {
    auto* d = opened(s.device_index());
    return !d || presil_stream_query(d, stream_of(s.device_index(), s.id()));
  }
  void synchronizeStream(const c10::Stream& s) const override {
    if (auto* d = opened(s.device_index())) check(presil_stream_synchronize(d, stream_of(s.device_index(), s.id())), "stream synchronize");
  }
  void synchronizeDevice(c10::DeviceIndex index) const override {
    const int i = index < 0 ? current_device() : index;
    if (auto* d = opened(i)) check(presil_device_synchronize(d), "synchronize");
  }

  void record(void** event, const c10::Stream& s, c10::DeviceIndex, c10::EventFlag) const override {
    const int i = s.device_index();
    if (!*event) {
      presil_event* created = nullptr;
      check(presil_event_create(device(i), &created), "creating an event");
      *event = created;
    }
    check(presil_event_record(static_cast<presil_event*>(*event), stream_of(i, s.id())), "recording an event");
  }
  void block(void* event, const c10::Stream& s) const override {
    if (event) check(presil_event_wait(static_cast<presil_event*>(event), stream_of(s.device_index(), s.id())), "waiting for an event");
  }
  bool queryEvent(void* event) const override { return !event || presil_event_query(static_cast<presil_event*>(event)); }
  void synchronizeEvent(void* event) const override {
    if (event) check(presil_event_synchronize(static_cast<presil_event*>(event)), "event synchronize");
  }
  void destroyEvent(void* event, c10::DeviceIndex) const noexcept override { presil_event_destroy(static_cast<presil_event*>(event)); }
  double elapsedTime(void* first, void* second, c10::DeviceIndex index) const override {
    uint64_t from = 0, to = 0;
    check(presil_event_cycles(static_cast<presil_event*>(first), &from), "elapsed_time");
    check(presil_event_cycles(static_cast<presil_event*>(second), &to), "elapsed_time");
    presil_device_info info{};
    info.size = sizeof info;
    check(presil_device_get_info(device(index), &info), "elapsed_time");
    return static_cast<double>(static_cast<int64_t>(to - from)) / (1e3 * info.clock_mhz);  // milliseconds of simulated time
  }
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard)

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
    wait_pending(i);
    void* p = device_malloc(i, bytes);
    if (p && s.data()) memcpy(p, s.data(), std::min(s.nbytes(), bytes));
    s.unsafeGetStorageImpl()->set_data_ptr_noswap({p, p, &device_free, make_device(i)});
    s.unsafeGetStorageImpl()->set_nbytes(bytes);
  }
};
const int registered = (at::RegisterPrivateUse1HooksInterface(new Hooks), c10::register_privateuse1_backend("presil"), 0);

}  // namespace
}  // namespace presil
