// SPDX-License-Identifier: Apache-2.0
// A function with a stack of its own that can be left in the middle: code that waits, driven by who owns the clock. One
// thread at a time uses a fiber, from any place of its own stack.
#pragma once
#include <ucontext.h>

#include <csetjmp>
#include <cstddef>
#include <functional>

namespace presil {

class Fiber {
 public:
  // body: throws nothing. Throws std::bad_alloc.
  explicit Fiber(std::function<void()> body);
  // Of one that has not begun, or is over.
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  void resume();  // from outside: until it yields, or is over
  void yield();   // from inside
  bool begun() const { return begun_; }
  bool over() const { return over_; }

 private:
  static void enter(unsigned high, unsigned low);

  static constexpr size_t kStack = size_t{1} << 20, kGuard = 4096;
  std::function<void()> body_;
  void* memory_;
  ucontext_t start_ = {};
  jmp_buf inside_, outside_;
  bool begun_ = false, over_ = false;
};

}  // namespace presil
