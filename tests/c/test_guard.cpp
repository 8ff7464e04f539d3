// SPDX-License-Identifier: Apache-2.0
// A transport's functions that throw, called from C's side: a code and a text, never an exception.
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>

#include "guard.h"

struct presil_transport {
    std::string error;
};

namespace {

enum What { kNothing, kStopped, kMemory, kError, kOther };
What planted;
int wrong;

int strike() {
    if (planted == kStopped) throw presil::Stopped("$fatal in a test");
    if (planted == kMemory) throw std::bad_alloc();
    if (planted == kError) throw std::runtime_error("planted");
    if (planted == kOther) throw 7;
    return 0;
}

int open_it(const presil_transport_options *, presil_transport **, char *, size_t) { return strike(); }
void close_it(presil_transport *) { strike(); }
int read_it(presil_transport *, uint32_t, uint32_t *value) {
    strike();
    *value = 5;
    return 0;
}
void note(presil_transport *t, const char *text) noexcept { presil::keep_text(&t->error, text); }

void expect(bool holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "planted %d: %s\n", planted, what);
    wrong++;
}

} // namespace

int main() {
    // As C has them: pointers that know nothing of exceptions.
    presil_transport_ops ops = {};
    ops.open = presil::Guard<open_it, note>::call;
    ops.close = presil::Guard<close_it, note>::call;
    ops.read32 = presil::Guard<read_it, note>::call;
    static_assert(noexcept(presil::Guard<open_it, note>::call(nullptr, nullptr, nullptr, 0)));
    static_assert(noexcept(presil::Guard<close_it, note>::call(nullptr)));
    static_assert(noexcept(presil::Guard<read_it, note>::call(nullptr, 0, nullptr)));
    const struct {
        What what;
        int code;
        const char *text;
    } cases[] = {{kNothing, 0, ""},
                 {kStopped, PRESIL_TRANSPORT_ESTOPPED, "$fatal in a test"},
                 {kMemory, PRESIL_TRANSPORT_ENOMEM, "out of host memory"},
                 {kError, PRESIL_TRANSPORT_EIO, "planted"},
                 {kOther, PRESIL_TRANSPORT_EIO, "unknown type"}};
    for (const auto &c : cases) {
        presil_transport t;
        char error[64] = "";
        uint32_t value = 9;
        planted = c.what;
        expect(ops.open(nullptr, nullptr, error, sizeof error) == c.code, "open");
        expect(strstr(error, c.text) != nullptr, error);
        expect(ops.open(nullptr, nullptr, nullptr, 0) == c.code, "open without room for a text");
        expect(ops.read32(&t, 0, &value) == c.code, "read32");
        expect(t.error.find(c.text) != std::string::npos, t.error.c_str());
        expect(value == (c.code ? 9u : 5u), "the output was touched");
        ops.close(&t);
    }
    return wrong != 0;
}
