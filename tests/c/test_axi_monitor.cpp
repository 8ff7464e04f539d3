// SPDX-License-Identifier: Apache-2.0
// The bus monitor on planted breaches: every signal of every channel of both buses, alone, while the channel waits; and
// nothing where the rules are kept.
#include <csetjmp>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

extern "C" {
#include <cmocka.h>
}

#include "axi_monitor.h"
#include "axi_pins.h"

namespace {

using namespace presil;
using Pins = AxiPins<16>;

// What the monitor says of two cycles; empty: nothing.
template <class Monitor, class P> std::string two_cycles(const P &first, const P &second) {
    Monitor monitor;
    try {
        monitor.sample(first);
        monitor.sample(second);
    } catch (const Stopped &stop) {
        return stop.what();
    }
    return "";
}

template <class P> struct Case {
    uint8_t P::*valid;
    uint8_t P::*ready;
    std::function<void(P &)> change;
    std::string text;
};

// The channel waits (valid without ready); then something changes.
template <class Monitor, class P> void check(const std::vector<Case<P>> &cases) {
    for (const Case<P> &c : cases) {
        P first = {}, second;
        first.*c.valid = 1;
        second = first;
        assert_string_equal((two_cycles<Monitor, P>(first, second).c_str()), "");
        c.change(second);
        const std::string said = two_cycles<Monitor, P>(first, second);
        if (said != c.text) fail_msg("expected \"%s\", found \"%s\"", c.text.c_str(), said.c_str());
        first.*c.ready = 1; // taken: what comes next is new
        assert_string_equal((two_cycles<Monitor, P>(first, second).c_str()), "");
        first.*c.ready = 0;
        first.*c.valid = 0; // not offered yet
        assert_string_equal((two_cycles<Monitor, P>(first, second).c_str()), "");
    }
}

std::string changed(const char *who, const char *what, const char *channel) {
    return std::string(who) + " broke the bus protocol: " + what + " before " + channel + "READY rose";
}

#define AXI(channel, name, field, value, who, what)                                                                    \
    {&Pins::m_axi_##channel##valid, &Pins::m_axi_##channel##ready, [](Pins &p) { p.m_axi_##field = value; },           \
     changed(who, what, name)}

void the_memory_bus_is_watched(void **) {
    const std::vector<Case<Pins>> cases = {
        AXI(ar, "AR", araddr, 64, "the chip", "ARADDR changed from 0x0 to 0x40"),
        AXI(ar, "AR", arlen, 3, "the chip", "ARLEN changed from 0x0 to 0x3"),
        AXI(ar, "AR", arsize, 2, "the chip", "ARSIZE changed from 0x0 to 0x2"),
        AXI(ar, "AR", arburst, 1, "the chip", "ARBURST changed from 0x0 to 0x1"),
        AXI(ar, "AR", arid, 9, "the chip", "ARID changed from 0x0 to 0x9"),
        AXI(ar, "AR", arvalid, 0, "the chip", "ARVALID fell"),
        AXI(aw, "AW", awaddr, 64, "the chip", "AWADDR changed from 0x0 to 0x40"),
        AXI(aw, "AW", awlen, 3, "the chip", "AWLEN changed from 0x0 to 0x3"),
        AXI(aw, "AW", awsize, 2, "the chip", "AWSIZE changed from 0x0 to 0x2"),
        AXI(aw, "AW", awburst, 1, "the chip", "AWBURST changed from 0x0 to 0x1"),
        AXI(aw, "AW", awid, 9, "the chip", "AWID changed from 0x0 to 0x9"),
        AXI(aw, "AW", awvalid, 0, "the chip", "AWVALID fell"),
        AXI(w, "W", wlast, 1, "the chip", "WLAST changed from 0x0 to 0x1"),
        AXI(w, "W", wstrb[1], 4, "the chip", "WSTRB of lanes 0 to 63 changed from 0x0 to 0x400"),
        AXI(w, "W", wvalid, 0, "the chip", "WVALID fell"),
        AXI(r, "R", rdata[15], 7, "the memory", "RDATA in lane 15 changed from 0x0 to 0x7"),
        AXI(r, "R", rresp, 2, "the memory", "RRESP changed from 0x0 to 0x2"),
        AXI(r, "R", rlast, 1, "the memory", "RLAST changed from 0x0 to 0x1"),
        AXI(r, "R", rid, 5, "the memory", "RID changed from 0x0 to 0x5"),
        AXI(r, "R", rvalid, 0, "the memory", "RVALID fell"),
        AXI(b, "B", bresp, 3, "the memory", "BRESP changed from 0x0 to 0x3"),
        AXI(b, "B", bid, 5, "the memory", "BID changed from 0x0 to 0x5"),
        AXI(b, "B", bvalid, 0, "the memory", "BVALID fell"),
    };
    check<AxiMonitor>(cases);
}

void write_data_count_where_they_are_strobed(void **) {
    Pins first = {};
    first.m_axi_wvalid = 1;
    first.m_axi_wstrb[0] = 2;
    Pins second = first;
    second.m_axi_wdata[0] = 1;
    assert_string_equal((two_cycles<AxiMonitor, Pins>(first, second).c_str()), "");
    second.m_axi_wdata[1] = 8;
    assert_string_equal((two_cycles<AxiMonitor, Pins>(first, second).c_str()),
                        "the chip broke the bus protocol: WDATA in lane 1 changed from 0x0 to 0x8 before WREADY rose");
}

#define LITE(channel, name, field, value, who, what)                                                                   \
    {&AxilPins::s_axil_##channel##valid, &AxilPins::s_axil_##channel##ready,                                           \
     [](AxilPins &p) { p.s_axil_##field = value; }, changed(who, what, "s_axil " name)}

void the_register_bus_is_watched(void **) {
    const std::vector<Case<AxilPins>> cases = {
        LITE(ar, "AR", araddr, 4, "the host", "s_axil ARADDR changed from 0x0 to 0x4"),
        LITE(ar, "AR", arvalid, 0, "the host", "s_axil ARVALID fell"),
        LITE(aw, "AW", awaddr, 4, "the host", "s_axil AWADDR changed from 0x0 to 0x4"),
        LITE(aw, "AW", awvalid, 0, "the host", "s_axil AWVALID fell"),
        LITE(w, "W", wdata, 4, "the host", "s_axil WDATA changed from 0x0 to 0x4"),
        LITE(w, "W", wstrb, 4, "the host", "s_axil WSTRB changed from 0x0 to 0x4"),
        LITE(w, "W", wvalid, 0, "the host", "s_axil WVALID fell"),
        LITE(r, "R", rdata, 4, "the chip", "s_axil RDATA changed from 0x0 to 0x4"),
        LITE(r, "R", rresp, 2, "the chip", "s_axil RRESP changed from 0x0 to 0x2"),
        LITE(r, "R", rvalid, 0, "the chip", "s_axil RVALID fell"),
        LITE(b, "B", bresp, 2, "the chip", "s_axil BRESP changed from 0x0 to 0x2"),
        LITE(b, "B", bvalid, 0, "the chip", "s_axil BVALID fell"),
    };
    check<AxilMonitor>(cases);
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(the_memory_bus_is_watched),
        cmocka_unit_test(write_data_count_where_they_are_strobed),
        cmocka_unit_test(the_register_bus_is_watched),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
