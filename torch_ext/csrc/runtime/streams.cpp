// SPDX-License-Identifier: Apache-2.0
#include "runtime/streams.h"
#include "runtime/device.h"

#include <array>
#include <mutex>
#include <utility>

namespace presil {
namespace {

constexpr int kPool = 2 * kStreamsPerPriority;  // ids 1 to 32: priority 0; 33 to 64: -1

struct Pool {
  std::array<std::atomic<presil_stream*>, kPool> streams{};
  std::array<std::atomic<unsigned>, 2> next{};
};
std::array<Pool, kMaxDevices>& pools() {
  static auto* p = new std::array<Pool, kMaxDevices>;  // never destroyed, as the devices
  return *p;
}

thread_local std::array<c10::StreamId, kMaxDevices> tls_stream{};
thread_local std::array<presil_stream*, kMaxDevices> tls_launches_to{};

void require_known(int index, c10::StreamId id) {
  TORCH_CHECK(id == 0 || (id > 0 && id <= kPool && pools()[index].streams[id - 1].load(std::memory_order_acquire)),
              "presil:", index, ": no stream with id ", id);
}

}  // namespace

c10::StreamId current_stream_id(int index) noexcept { return tls_stream[index]; }
void set_current_stream_id(int index, c10::StreamId id) {
  require_known(index, id);
  tls_stream[index] = id;
}

c10::StreamId new_stream_id(int index, int priority) {
  const int kind = priority < 0;
  Pool& pool = pools()[index];
  const unsigned at = kind * kStreamsPerPriority + pool.next[kind].fetch_add(1) % kStreamsPerPriority;
  static auto* creating = new std::mutex;
  std::lock_guard<std::mutex> lock(*creating);
  if (!pool.streams[at].load()) {
    presil_stream* stream = nullptr;
    check(presil_stream_create(device(index), priority, &stream), "creating a stream");
    pool.streams[at].store(stream, std::memory_order_release);
  }
  return static_cast<c10::StreamId>(at) + 1;
}

int stream_priority(c10::StreamId id) noexcept { return id > kStreamsPerPriority ? -1 : 0; }

presil_stream* stream_of(int index, c10::StreamId id) {
  if (C10_LIKELY(id == 0)) return nullptr;
  require_known(index, id);
  return pools()[index].streams[id - 1].load(std::memory_order_acquire);
}

LaunchesTo::LaunchesTo(int index, presil_stream* stream) noexcept
    : index_(index), previous_(std::exchange(tls_launches_to[index], stream)) {}
LaunchesTo::~LaunchesTo() { tls_launches_to[index_] = previous_; }

presil_stream* launch_stream(int index) {
  auto* stream = tls_launches_to[index];
  return C10_UNLIKELY(stream != nullptr) ? stream : current_stream(index);
}

}  // namespace presil
