// SPDX-License-Identifier: Apache-2.0
// Device guard: devices, streams and events, as c10 asks for them.
#include "runtime/capturing.h"
#include "runtime/device.h"
#include "runtime/jobs.h"

#include <c10/core/impl/DeviceGuardImplInterface.h>

namespace presil {
namespace {

int index_or_current(c10::Device d) { return d.index() < 0 ? current_device() : d.index(); }

constexpr const char* kNoWait = "a replay waits where it has to; wait for the whole graph after it";

void read_clock(void* event, uint64_t* cycles) {
  const int status = presil_event_cycles(static_cast<presil_event*>(event), cycles);
  if (status == PRESIL_EUNSUPPORTED)
    raise_text(status, "presil: elapsed_time is simulated time, and the event was recorded in mode 'model', which has "
                       "no clock. Modes with one: 'rtl', 'verify' "
                       "(torch.backends.presil.mode, PRESIL_MODE)");
  check(status, "elapsed_time");
}

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
  // What tensors may hold: all but quantized types.
  c10::DeviceCapability getDeviceCapability(c10::Device) const override {
    c10::DeviceCapability capability;
    auto& types = capability.capability_data.supported_scalar_types;
    types.has_QInt8 = types.has_QUInt8 = types.has_QInt32 = types.has_QUInt4x2 = types.has_QUInt2x4 = 0;
    return capability;
  }

  c10::Stream getStream(c10::Device d) const override {
    const int i = index_or_current(d);
    return c10::Stream(c10::Stream::UNSAFE, make_device(i), current_stream_id(i));
  }
  c10::Stream getDefaultStream(c10::Device d) const override {
    return c10::Stream(c10::Stream::DEFAULT, make_device(index_or_current(d)));
  }
  c10::Stream getNewStream(c10::Device d, int priority) const override {
    const int i = index_or_current(d);
    return c10::Stream(c10::Stream::UNSAFE, make_device(i), new_stream_id(i, priority));
  }
  c10::Stream getStreamFromGlobalPool(c10::Device d, bool high) const override {
    return getNewStream(d, high ? -1 : 0);
  }
  c10::Stream exchangeStream(c10::Stream s) const override {
    const int i = s.device_index();
    const c10::Stream old(c10::Stream::UNSAFE, make_device(i), current_stream_id(i));
    set_current_stream_id(i, s.id());
    return old;
  }
  void* getStreamNativeHandle(const c10::Stream s) const override { return stream_of(s.device_index(), s.id()); }
  bool queryStream(const c10::Stream& s) const override {
    auto* d = opened(s.device_index());
    return !d || presil_stream_query(d, stream_of(s.device_index(), s.id()));
  }
  bool isStreamCapturing(const c10::Stream& s) const override { return stream_is_capturing(s.device_index(), s.id()); }
  void synchronizeStream(const c10::Stream& s) const override {
    refuse_capture(s.device_index(), "synchronize of a stream", kNoWait);
    if (auto* d = opened(s.device_index()))
      check(presil_stream_synchronize(d, stream_of(s.device_index(), s.id())), "stream synchronize");
  }
  void synchronizeDevice(c10::DeviceIndex index) const override {
    const int i = index < 0 ? current_device() : index;
    refuse_capture(i, "synchronize", kNoWait);
    if (auto* d = opened(i)) check(presil_device_synchronize(d), "synchronize");
    wait_for_jobs(i);
  }

  void record(void** event, const c10::Stream& s, c10::DeviceIndex of, c10::EventFlag) const override {
    const int i = s.device_index();
    TORCH_CHECK(of < 0 || of == i, "presil: an event of presil:", static_cast<int>(of),
                " can't be recorded on a stream of presil:", i, ": use an event for each device");
    if (!*event) {
      presil_event* created = nullptr;
      check(presil_event_create(device(i), &created), "creating an event");
      *event = created;
    }
    check(presil_event_record(static_cast<presil_event*>(*event), stream_of(i, s.id())), "recording an event");
  }
  void block(void* event, const c10::Stream& s) const override {
    const int i = s.device_index();
    if (event)
      check(presil_event_wait(static_cast<presil_event*>(event), device(i), stream_of(i, s.id())),
            "waiting for an event");
  }
  bool queryEvent(void* event) const override {
    return !event || presil_event_query(static_cast<presil_event*>(event));
  }
  void synchronizeEvent(void* event) const override {
    if (event) check(presil_event_synchronize(static_cast<presil_event*>(event)), "event synchronize");
  }
  void destroyEvent(void* event, c10::DeviceIndex) const noexcept override {
    presil_event_destroy(static_cast<presil_event*>(event));
  }
  double elapsedTime(void* first, void* second, c10::DeviceIndex index) const override {
    uint64_t from = 0, to = 0;
    read_clock(first, &from);
    read_clock(second, &to);
    presil_device_info info{};
    info.size = sizeof info;
    check(presil_device_get_info(device(index), &info), "elapsed_time");
    TORCH_CHECK(info.clock_mhz, "presil: elapsed_time: the chip \"", info.chip, "\" does not tell its clock_mhz");
    return static_cast<double>(static_cast<int64_t>(to - from)) /
           (1e3 * info.clock_mhz);  // milliseconds of simulated time
  }
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard)

}  // namespace
}  // namespace presil
