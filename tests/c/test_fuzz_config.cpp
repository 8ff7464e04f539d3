// SPDX-License-Identifier: Apache-2.0
// presil-vp's configuration file, and the texts of memory models, options and faults, bent: taken with every value in
// its range, or refused with a text; within a budget of time and memory (fuzz.h).
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <new>

#include "config.h"
#include "fuzz.h"
#include "transport_settings.h"

// So that they are counted.
void *operator new(size_t bytes) {
    void *p = malloc(bytes);
    if (!p) throw std::bad_alloc();
    return p;
}
void operator delete(void *p) noexcept { free(p); }
void operator delete(void *p, size_t) noexcept { free(p); }

namespace {

constexpr uint64_t kKibibyte = 1 << 10;
const char *const kPieces[] = {"[chip]\n",
                               "[bus]\n",
                               "[map]\n",
                               "[traffic]\n",
                               "[server]\n",
                               "[",
                               "]",
                               "\n",
                               "=",
                               " = ",
                               "config",
                               "clock_mhz",
                               "seed",
                               "registers",
                               "load",
                               "burst",
                               "reads",
                               "bytes",
                               "socket",
                               "base",
                               "1000",
                               "0x1000",
                               "99",
                               "4096",
                               "-1",
                               "18446744073709551616",
                               "#",
                               "\r\n",
                               "\t",
                               "latency",
                               "response",
                               "pressure=",
                               "heavy",
                               "delayed",
                               "commit=b",
                               "reorder",
                               "interleave",
                               "monitor=1",
                               "bursts",
                               "stall",
                               ",",
                               "0.5",
                               "nan",
                               "1e999",
                               "default",
                               "ideal",
                               "slverr@",
                               "decerr@",
                               "fatal@",
                               "stop@",
                               "slow=",
                               "map=0",
                               "coverage=/x",
                               "0",
                               "1"};

void expect(bool holds, const char *what, const std::string &text) {
    if (holds) return;
    fprintf(stderr, "%s\n%s\n", what, text.c_str());
    fuzz_budget(what, -1, 0);
    fuzz_within_budget(); // says how to replay, and ends
}

std::string pieces(uint32_t most) {
    std::string text;
    for (uint32_t n = fuzz_below(most); n; n--) text += kPieces[fuzz_below(sizeof kPieces / sizeof *kPieces)];
    if (!text.empty() && fuzz_below(3) == 0) fuzz_bend(reinterpret_cast<uint8_t *>(text.data()), text.size());
    return text;
}

bool read(const std::string &path, const std::string &text, presil::VpSettings *out) {
    std::ofstream(path, std::ios::binary) << text;
    std::string error;
    fuzz_budget("reading a configuration", 0.5, 256 * kKibibyte);
    const bool good = presil::read_config(path, out, &error);
    fuzz_within_budget();
    expect(good == error.empty(), "a refusal has a text, and nothing else has", text);
    return good;
}

void check(const presil::VpSettings &s, const std::string &text) {
    const presil::PlatformSettings &p = s.platform;
    expect(p.clock_mhz >= 1 && p.clock_mhz <= 10000 && p.bus_mhz <= 10000 && p.quantum_ns >= 1, "clocks", text);
    expect(p.traffic.load <= 100 && p.traffic.reads <= 100 && p.traffic.burst >= 1 && p.traffic.burst <= 32, "traffic",
           text);
    expect(p.traffic.bytes >= 4096 && p.traffic.bytes % 4096 == 0, "traffic.bytes", text);
    expect(!p.build.empty(), "names", text);
}

void files(const char *model) {
    const uint64_t cases = fuzz_begin("test_fuzz_config: presil-vp's file", 5000);
    std::ifstream file(model);
    const std::string good((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    char path[] = "/tmp/presil-fuzz-XXXXXX";
    const int fd = mkstemp(path);
    uint64_t taken = 0;
    for (uint64_t i = 0; i < cases; i++) {
        presil::VpSettings s;
        std::string text = fuzz_below(2) ? good : pieces(20);
        if (i && !text.empty()) fuzz_bend(reinterpret_cast<uint8_t *>(text.data()), text.size());
        if (i % 4 == 1) text.insert(fuzz_below(static_cast<uint32_t>(text.size() + 1)), pieces(4));
        if (!i) text = good;
        const bool ok = read(path, text, &s);
        expect(i || ok, "the file unbent", text);
        if (ok) check(s, text);
        taken += ok;
    }
    expect(cases < 1000 || (taken > cases / 50 && taken < cases), "some are taken, some refused", "");
    // A file without an end, and a line that is all of it.
    presil::VpSettings s;
    std::string error;
    fuzz_budget("reading /dev/zero", 0.5, 512 * kKibibyte);
    expect(!presil::read_config("/dev/zero", &s, &error) && error.find("no configuration") != std::string::npos,
           "/dev/zero", error);
    fuzz_within_budget();
    close(fd);
    unlink(path);
    fuzz_end();
}

void texts() {
    const uint64_t cases = 4 * fuzz_begin("test_fuzz_config: memory models, options, faults", 5000);
    uint64_t taken[3] = {};
    for (uint64_t i = 0; i < cases; i++) {
        const std::string text = pieces(12);
        std::string error[3];
        presil::MemorySettings memory;
        presil::TransportSettings options;
        presil::Fault faults[presil::kMaxFaults];
        size_t count = 0;
        fuzz_budget("a text", 0.5, 64 * kKibibyte);
        const bool good[3] = {presil::parse_memory_settings(text.c_str(), 64, &memory, &error[0]),
                              presil::parse_transport_settings(text.c_str(), &options, &error[1]),
                              presil::parse_faults(text.c_str(), faults, &count, &error[2])};
        fuzz_within_budget();
        for (int k = 0; k < 3; k++) {
            expect(good[k] == error[k].empty(), "a refusal has a text, and nothing else has", text);
            taken[k] += good[k];
        }
        expect(memory.latency >= 1 && memory.latency <= 1000000 && memory.bursts >= 1 && memory.bursts <= 256 &&
                   memory.stall < 4096,
               "a memory model in its ranges", text);
        expect(count <= presil::kMaxFaults, "at most 8 faults", text);
    }
    expect(cases < 4000 || (taken[0] > 10 && taken[1] > 10 && taken[2] > 10), "some are taken", "");
    presil::Fault faults[presil::kMaxFaults];
    size_t count = 0;
    std::string error;
    expect(!presil::parse_faults("fatal@18446744073709551616", faults, &count, &error), "2^64 is not 2^64 - 1", error);
    fuzz_end();
}

} // namespace

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    files(argv[1]);
    texts();
    return 0;
}
