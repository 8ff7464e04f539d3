// SPDX-License-Identifier: Apache-2.0
#include "fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <new>
#include <utility>

namespace presil {

Fiber::Fiber(std::function<void()> body) : body_(std::move(body)) {
  memory_ = mmap(nullptr, kGuard + kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (memory_ == MAP_FAILED) throw std::bad_alloc();
  mprotect(memory_, kGuard, PROT_NONE);  // an overflow ends the process instead of writing elsewhere
  getcontext(&start_);
  start_.uc_stack.ss_sp = static_cast<char*>(memory_) + kGuard;
  start_.uc_stack.ss_size = kStack;
  // Arguments of such a function are ints.
  const uint64_t self = reinterpret_cast<uintptr_t>(this);
  makecontext(&start_, reinterpret_cast<void (*)()>(enter), 2, static_cast<unsigned>(self >> 32),
              static_cast<unsigned>(self));
}

Fiber::~Fiber() { munmap(memory_, kGuard + kStack); }

void Fiber::enter(unsigned high, unsigned low) {
  Fiber* fiber = reinterpret_cast<Fiber*>(static_cast<uintptr_t>(uint64_t{high} << 32 | low));
  fiber->body_();
  fiber->over_ = true;
  _longjmp(fiber->outside_, 1);
}

// Not by swapcontext(), which saves the signal mask: two system calls an access of a register, 6 % of it.
void Fiber::resume() {
  if (_setjmp(outside_)) return;
  if (begun_) _longjmp(inside_, 1);
  begun_ = true;
  setcontext(&start_);
}

void Fiber::yield() {
  if (!_setjmp(inside_)) _longjmp(outside_, 1);
}

}  // namespace presil
