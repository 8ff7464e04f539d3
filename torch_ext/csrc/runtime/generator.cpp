// SPDX-License-Identifier: Apache-2.0
#include "runtime/generator.h"

#include <ATen/CPUGeneratorImpl.h>

#include <vector>

namespace presil {
namespace {

struct DeviceGenerator final : c10::GeneratorImpl {
  at::Generator host;

  explicit DeviceGenerator(c10::DeviceIndex index, at::Generator generator = at::detail::createCPUGenerator())
      : GeneratorImpl(c10::Device(kDevice, index), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
        host(std::move(generator)) {}
  static c10::DeviceType device_type() { return kDevice; }
  void set_current_seed(uint64_t seed) override { host.set_current_seed(seed); }
  void set_offset(uint64_t offset) override { host.unsafeGetGeneratorImpl()->set_offset(offset); }
  uint64_t get_offset() const override { return host.unsafeGetGeneratorImpl()->get_offset(); }
  uint64_t current_seed() const override { return host.current_seed(); }
  uint64_t seed() override { return host.seed(); }
  void set_state(const c10::TensorImpl& state) override { host.unsafeGetGeneratorImpl()->set_state(state); }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override { return host.unsafeGetGeneratorImpl()->get_state(); }
  DeviceGenerator* clone_impl() const override { return new DeviceGenerator(device().index(), host.clone()); }
};

}  // namespace

const at::Generator& default_generator(int index) {
  static auto* generators = [] {
    auto* list = new std::vector<at::Generator>;
    for (int i = 0; i < device_count(); i++)
      list->push_back(at::make_generator<DeviceGenerator>(static_cast<c10::DeviceIndex>(i)));
    return list;
  }();
  const int i = index < 0 ? current_device() : index;
  TORCH_CHECK(i < device_count(), "presil: device index ", i, " is out of range (", device_count(), " device(s))");
  return (*generators)[i];
}
at::Generator new_generator(int index) {
  return at::make_generator<DeviceGenerator>(static_cast<c10::DeviceIndex>(index < 0 ? current_device() : index));
}
at::Generator host_generator(const at::Generator& generator) {
  return static_cast<DeviceGenerator*>(generator.unsafeGetGeneratorImpl())->host;
}

namespace {
std::mutex& engine_mutex() {
  static auto* m = new std::mutex;
  return *m;
}
}  // namespace

UseAsDefaultEngine::UseAsDefaultEngine(const at::Generator& host)
    : lock_(engine_mutex()),
      cpu_(at::get_generator_or_default<at::CPUGeneratorImpl>(std::nullopt, at::detail::getDefaultCPUGenerator())),
      own_(static_cast<at::CPUGeneratorImpl*>(host.unsafeGetGeneratorImpl())), saved_(cpu_->engine()) {
  cpu_->set_engine(own_->engine());
}
UseAsDefaultEngine::~UseAsDefaultEngine() {
  own_->set_engine(cpu_->engine());
  cpu_->set_engine(saved_);
}

}  // namespace presil
