// SPDX-License-Identifier: Apache-2.0
// Others set handlers of SIGINT as they like: IPython's kernel for every cell, asyncio.run() for its duration. Each of
// them replaces ours, so ours is put in front again whenever somebody is about to wait.
#include "runtime/ctrl_c.h"
#include "runtime/device.h"
#include "runtime/jobs.h"

#include <signal.h>

#include <array>
#include <atomic>
#include <mutex>

namespace presil {
namespace {

struct Handlers {
  struct sigaction first{};  // what stood there before ours, the first time: asks nobody else
  std::array<struct sigaction, 2> last{};
  std::atomic<int> current{-1};  // of `last`; the other one may be written
  std::atomic<bool> inside{false};
  std::mutex mutex;
};
Handlers& handlers() {
  static auto* h = new Handlers;
  return *h;
}

void call(const struct sigaction& handler, int number, siginfo_t* info, void* context) {
  if (handler.sa_flags & SA_SIGINFO)
    handler.sa_sigaction(number, info, context);
  else if (handler.sa_handler != SIG_DFL && handler.sa_handler != SIG_IGN)
    handler.sa_handler(number);
}

void on_interrupt(int number, siginfo_t* info, void* context) {
  Handlers& h = handlers();
  for (int i = 0; i < kMaxDevices; i++)
    if (auto* handle = opened(i)) {
      presil_device_cancel(handle);
      cancel_jobs(i);
    }
  // A handler that found ours before it, and that we found before ours, calls us again.
  if (h.inside.exchange(true)) return call(h.first, number, info, context);
  call(h.last[h.current], number, info, context);
  h.inside = false;
}

bool is_ours(const struct sigaction& a) { return (a.sa_flags & SA_SIGINFO) && a.sa_sigaction == &on_interrupt; }
bool is_handler(const struct sigaction& a) {
  return (a.sa_flags & SA_SIGINFO) || (a.sa_handler != SIG_DFL && a.sa_handler != SIG_IGN);
}

void put_in_front() {
  struct sigaction now{};
  if (sigaction(SIGINT, nullptr, &now) || is_ours(now) || !is_handler(now)) return;
  Handlers& h = handlers();
  std::lock_guard<std::mutex> lock(h.mutex);
  if (sigaction(SIGINT, nullptr, &now) || is_ours(now) || !is_handler(now)) return;
  if (h.current < 0) h.first = now;
  const int next = h.current == 0 ? 1 : 0;
  h.last[next] = now;
  h.current = next;
  struct sigaction ours{};
  ours.sa_sigaction = on_interrupt;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;  // a handler may pass the signal on by raising it again
  sigemptyset(&ours.sa_mask);
  (void)sigaction(SIGINT, &ours, nullptr);
}

std::atomic<uint64_t> waits{0};

void about_to_wait() {
  put_in_front();
  waits++;
}

}  // namespace

void catch_interrupts() {
  put_in_front();
  presil_set_before_wait(&about_to_wait);
}
void expect_interrupts() noexcept { about_to_wait(); }
uint64_t waits_begun() noexcept { return waits.load(); }

}  // namespace presil
