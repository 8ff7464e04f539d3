// SPDX-License-Identifier: Apache-2.0
// sim/common/dram_timing.h against command sequences worked out by hand. Clocks of chip and memory are the same unless
// said otherwise. Of an address: 64 bytes an atom, 2 groups (+64), 16 columns (+128), 4 banks (+2048), rows (+8192).
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

extern "C" {
#include <cmocka.h>
}
#include <string>

#include "dram_timing.h"

namespace {

using presil::DramSettings;
using presil::DramTiming;

constexpr bool kRead = false, kWrite = true;

DramSettings hand() {
    DramSettings s;
    s.clock = s.mhz = 1000;
    s.channels = 1, s.stripe = 256, s.groups = 2, s.banks = 4, s.row = 1024, s.atom = 64, s.burst = 4;
    s.cl = 10, s.cwl = 8, s.rcd = 12, s.rp = 11, s.ras = 30, s.rtp = 6, s.wr = 15;
    s.ccd_s = 4, s.ccd_l = 6, s.rrd_s = 5, s.rrd_l = 7, s.faw = 40, s.wtr_s = 3, s.wtr_l = 9;
    return s;
}

void row_hits(void **) {
    DramTiming d(hand());
    assert_int_equal(d.access(0, kRead, 0), 26);      // ACT 0, RD 12, CL 10, burst 4
    assert_int_equal(d.access(128, kRead, 100), 114); // RD at once
    assert_int_equal(d.access(256, kRead, 100), 120); // tCCD_L: RD 106
    assert_int_equal(d.access(64, kRead, 100), 126);  // the other group is closed: ACT 100, RD 112
    assert_int_equal(d.access(384, kRead, 100), 130); // tCCD_S 116; tCCD_L of its own group 112
}

void closed_banks(void **) {
    DramTiming same(hand()), other(hand());
    same.access(0, kRead, 0);
    assert_int_equal(same.access(2048, kRead, 0), 33); // tRRD_L: ACT 7, RD 19
    other.access(0, kRead, 0);
    assert_int_equal(other.access(64, kRead, 0), 31); // tRRD_S: ACT 5, RD 17
}

void conflicts(void **) {
    DramTiming soon(hand()), late(hand()), written(hand());
    soon.access(0, kRead, 0);
    assert_int_equal(soon.access(8192, kRead, 20), 67); // tRAS: PRE 30, tRP: ACT 41, RD 53
    assert_int_equal(soon.access(0, kRead, 60), 108);   // tRAS again: PRE 71, ACT 82, RD 94
    late.access(0, kRead, 0);
    late.access(128, kRead, 60);
    assert_int_equal(late.access(8192, kRead, 60), 103);  // tRTP: PRE 66, ACT 77, RD 89
    assert_int_equal(written.access(0, kWrite, 0), 24);   // WR 12, CWL 8, burst 4
    assert_int_equal(written.access(8192, kRead, 0), 76); // tWR: PRE 12 + 8 + 4 + 15 = 39, ACT 50, RD 62
}

void four_activates(void **) {
    DramTiming d(hand());
    const uint64_t at[] = {0, 64, 2048, 2112, 4096}, end[] = {26, 31, 36, 41, 66}; // ACT 0, 5, 10, 15, then tFAW: 40
    for (int i = 0; i < 5; i++) assert_int_equal(d.access(at[i], kRead, 0), end[i]);
    assert_int_equal(d.access(4160, kRead, 0), 71); // ACT 45: tFAW and tRRD_S
}

void turnaround(void **) {
    DramTiming d(hand());
    d.access(0, kRead, 0);
    d.access(64, kRead, 0);
    assert_int_equal(d.access(128, kWrite, 0), 37); // RD 17, CL + burst + 2 - CWL = 8: WR 25
    assert_int_equal(d.access(192, kRead, 0), 54);  // tWTR_S behind the data: RD 25 + 12 + 3 = 40
    assert_int_equal(d.access(256, kRead, 0), 60);  // tWTR_L: RD 25 + 12 + 9 = 46
}

void refresh(void **) {
    DramSettings s = hand();
    s.refi = 200, s.rfc = 100;
    DramTiming d(s);
    d.access(0, kRead, 0);
    assert_int_equal(d.access(128, kRead, 195), 209);
    assert_int_equal(d.access(256, kRead, 199), 338); // tCCD_L: RD 201; due 200, PRE 201, REF 212, ACT 312, RD 324
    assert_int_equal(d.access(384, kRead, 950), 976); // 400, 600, 800 went by: closed
    assert_int_equal(d.access(0, kRead, 1999), 2126); // ACT 1999, RD 2011 would be late: REF 2000, ACT 2100
    d.launch(5000);
    assert_int_equal(d.access(0, kRead, 5000), 5026); // as at first
    assert_int_equal(d.access(128, kRead, 5199), 5213);
}

void channels(void **) {
    DramSettings s = hand();
    s.channels = 2;
    DramTiming d(s);
    assert_int_equal(d.access(0, kRead, 0), 26);
    assert_int_equal(d.access(256, kRead, 0), 26); // the other channel
    assert_int_equal(d.access(512, kRead, 0), 32); // the first one's next stripe: the same row, tCCD_L
}

void clocks(void **) {
    DramSettings s = hand();
    s.clock = 500;
    DramTiming half(s);
    assert_int_equal(half.access(0, kRead, 10), 23); // asked at 20, there at 46
    s.clock = 1000, s.mhz = 1200;
    DramTiming odd(s);
    assert_int_equal(odd.access(0, kRead, 0), 22); // 26 / 1.2, up
    odd.launch(0);
    assert_int_equal(odd.access(0, kRead, 1), 24); // asked at 1.2, up; there at 28
}

// Streams come near to what the pins give: a map or a table that spoils it shows.
void presets(void **) {
    static const struct {
        const char *name;
        unsigned first, peak; // first: clocks of a row that is closed; peak: bytes a clock
    } all[] = {{"ddr4-2400", 17 + 17 + 4, 16},
               {"ddr4-3200", 22 + 22 + 4, 16},
               {"lpddr4-3200", 29 + 28 + 8, 2 * 4},
               {"lpddr5-6400", 15 + 17 + 2, 2 * 16},
               {"hbm2-2000", 14 + 14 + 2, 16 * 16}};
    for (const auto &preset : all) {
        DramSettings s;
        assert_true(presil::dram_preset(preset.name, &s));
        assert_string_equal(presil::wrong_dram(s).c_str(), "");
        s.clock = s.mhz;
        DramTiming d(s);
        assert_int_equal(d.access(0, kRead, 0), preset.first);
        d.launch(0);
        const uint64_t bytes = 4 << 20;
        uint64_t end = 0;
        for (uint64_t at = 0; at < bytes; at += s.atom) {
            const uint64_t there = d.access(at, kRead, 0);
            end = there > end ? there : end;
        }
        const double share = static_cast<double>(bytes) / static_cast<double>(end) / preset.peak;
        if (share < 0.85 || share > 1) fail_msg("%s: a stream has %.3f of the peak", preset.name, share);
    }
    DramSettings s;
    assert_false(presil::dram_preset("ddr9", &s));
}

} // namespace

int main() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(row_hits),       cmocka_unit_test(closed_banks), cmocka_unit_test(conflicts),
        cmocka_unit_test(four_activates), cmocka_unit_test(turnaround),   cmocka_unit_test(refresh),
        cmocka_unit_test(channels),       cmocka_unit_test(clocks),       cmocka_unit_test(presets),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
