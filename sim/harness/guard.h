// SPDX-License-Identifier: Apache-2.0
// Functions of a transport's table as C may call them: what they throw becomes a code and a text, whatever it is. A
// table has Guard<function, note>::call and nothing else. note: keeps a text for last_error(), and throws nothing.
#pragma once
#include <cstdio>
#include <exception>
#include <new>

#include "presil_transport.h"
#include "stopped.h"

namespace presil {

// The exception in flight as a presil_transport_error. tell: takes its text.
template <class Tell> int caught(Tell tell) noexcept {
  try {
    throw;
  } catch (const Stopped& e) {
    tell(e.what());
    return PRESIL_TRANSPORT_ESTOPPED;
  } catch (const std::bad_alloc&) {
    tell("out of host memory");
    return PRESIL_TRANSPORT_ENOMEM;
  } catch (const std::exception& e) {
    tell(e.what());
    return PRESIL_TRANSPORT_EIO;
  } catch (...) {
    tell("an exception of unknown type");
    return PRESIL_TRANSPORT_EIO;
  }
}

// A text in a string; where that has no memory for it, none.
inline void keep_text(std::string* to, const char* text) noexcept try { *to = text; } catch (...) {
  to->clear();
}

template <auto function, auto note> struct Guard;

template <class... Args, int (*function)(presil_transport*, Args...), auto note> struct Guard<function, note> {
  static int call(presil_transport* t, Args... args) noexcept try { return function(t, args...); } catch (...) {
    return caught([t](const char* text) { note(t, text); });
  }
};

// close(): what could not be ended is left.
template <void (*function)(presil_transport*), auto note> struct Guard<function, note> {
  static void call(presil_transport* t) noexcept try { function(t); } catch (...) {
  }
};

// open(): there is no transport yet.
template <int (*function)(const presil_transport_options*, presil_transport**, char*, size_t), auto note>
struct Guard<function, note> {
  static int call(const presil_transport_options* options, presil_transport** out, char* error,
                  size_t error_bytes) noexcept try {
    return function(options, out, error, error_bytes);
  } catch (...) {
    return caught([=](const char* text) {
      if (error && error_bytes) snprintf(error, error_bytes, "open: %s", text);
    });
  }
};

}  // namespace presil
