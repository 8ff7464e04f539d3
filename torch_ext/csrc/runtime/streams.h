// SPDX-License-Identifier: Apache-2.0
// Streams of torch: ids of a device's pool. All streams of a device share its one queue, which runs in the order of
// enqueuing: every wait that torch's rules ask for is kept without looking at it, and priorities change nothing. Errors
// stick to the stream of their launch.
#pragma once
#include <presil.h>

#include <c10/core/Stream.h>

namespace presil {

constexpr int kStreamsPerPriority = 32;

c10::StreamId current_stream_id(int index) noexcept;      // of the calling thread
void set_current_stream_id(int index, c10::StreamId id);  // raises on an unknown id
// The pool's next one, created at its first use; priority below 0: the high ones.
c10::StreamId new_stream_id(int index, int priority);
int stream_priority(c10::StreamId id) noexcept;         // 0 or -1
presil_stream* stream_of(int index, c10::StreamId id);  // null: the default stream. Raises on an unknown id
inline presil_stream* current_stream(int index) { return stream_of(index, current_stream_id(index)); }

// While alive, this thread's launches on the device go to `stream`, which nobody else uses: a stream that records takes
// in the launches of every thread that enqueues on it.
class LaunchesTo {
 public:
  LaunchesTo(int index, presil_stream* stream) noexcept;
  ~LaunchesTo();
  LaunchesTo(const LaunchesTo&) = delete;
  LaunchesTo& operator=(const LaunchesTo&) = delete;

 private:
  const int index_;
  presil_stream* const previous_;
};
presil_stream* launch_stream(int index);  // where this thread's launches go: that of LaunchesTo, or the current one

}  // namespace presil
