// SPDX-License-Identifier: Apache-2.0
#include "bench.h"

#include <cstdio>

#include "random.h"
#if VM_COVERAGE
#include "verilated_cov.h"
#endif

namespace presil {

#if PRESIL_SIM_SCRAMBLE
#include "scramble.inc"
#endif

Bench::~Bench() {
    drop_trace();
    write_coverage();
}

void Bench::restart() {
    drop_trace();
    write_coverage();
#if PRESIL_SIM_TRACE
    fst_.reset();
#endif
    chip_.reset();
    context_ = std::make_unique<VerilatedContext>();
    enter();
    models_++;
#if PRESIL_SIM_CHECK
    context_->randReset(2);
    context_->randSeed(static_cast<int>(mix64(seed_ + models_) & 0x7fffffff) | 1);
#endif
#if PRESIL_SIM_TRACE
    context_->traceEverOn(true);
#endif
    chip_ = std::make_unique<Vchip>(context_.get(), "");
    pins_ = chip_->rootp;
    pins_->clk = 0;
    pins_->rst = 1;
    chip_->eval();  // initial blocks; the fast path of eval() has none
    hold_reset();
}

void Bench::write_coverage() {
#if VM_COVERAGE
    if (chip_ && !coverage_.empty()) context_->coveragep()->write((coverage_ + "." + std::to_string(models_)).c_str());
#endif
}

void Bench::reset() {
#if PRESIL_SIM_CHECK
    restart();
#else
    hold_reset();
#endif
}

// What the chip asks for before the reset has reached all of it is not answered.
void Bench::hold_reset() {
    idle_inputs();
    pins_->rst = 1;
    for (unsigned i = 0; i < kResetCycles; i++) {
        abandon_bus();
        cycle();
    }
    pins_->rst = 0;
    abandon_bus();
    for (unsigned i = 0; i < kResetCycles; i++) cycle();
}

void Bench::abandon_bus() {
    memory_.abandon(*pins_);
#if PRESIL_SIM_CHECK
    stability_.forget();
#endif
    eval();
}

void Bench::idle_inputs() {
    pins_->s_axil_awvalid = pins_->s_axil_wvalid = pins_->s_axil_bready = pins_->s_axil_arvalid = pins_->s_axil_rready = 0;
    memory_.abandon(*pins_);
}

void Bench::launch(uint64_t launch) {
    memory_.launch(*pins_, launch, now_);
    scramble(launch);
    eval();
}

// Scratchpad and accumulators are undefined at the start of a launch: where the build knows them, it overwrites them.
void Bench::scramble([[maybe_unused]] uint64_t launch) {
#if PRESIL_SIM_SCRAMBLE
    scramble_memories(*pins_, mix64(seed_ ^ mix64(launch)));
#endif
}

int Bench::write32(uint32_t offset, uint32_t value) {
    Pins &p = *pins_;
    p.s_axil_awaddr = offset & 0xfff;
    p.s_axil_wdata = value;
    p.s_axil_wstrb = 0xf;
    p.s_axil_awvalid = p.s_axil_wvalid = p.s_axil_bready = 1;
    int response = -1;
    for (unsigned i = 0; i < kRegisterTimeout && response < 0; i++) {
        eval();
        const bool address = p.s_axil_awvalid & p.s_axil_awready, data = p.s_axil_wvalid & p.s_axil_wready;
        if (p.s_axil_bvalid) response = p.s_axil_bresp;
        cycle();
        if (address) p.s_axil_awvalid = 0;
        if (data) p.s_axil_wvalid = 0;
    }
    p.s_axil_awvalid = p.s_axil_wvalid = p.s_axil_bready = 0;
    eval();
    return response;
}

int Bench::read32(uint32_t offset, uint32_t *value) {
    Pins &p = *pins_;
    p.s_axil_araddr = offset & 0xfff;
    p.s_axil_arvalid = p.s_axil_rready = 1;
    int response = -1;
    for (unsigned i = 0; i < kRegisterTimeout && response < 0; i++) {
        eval();
        const bool address = p.s_axil_arvalid & p.s_axil_arready;
        if (p.s_axil_rvalid) {
            response = p.s_axil_rresp;
            *value = p.s_axil_rdata;
        }
        cycle();
        if (address) p.s_axil_arvalid = 0;
    }
    p.s_axil_arvalid = p.s_axil_rready = 0;
    eval();
    return response;
}

#if PRESIL_SIM_TRACE

namespace {

// An FST is blocks of a type, a length (8 bytes, the first is the highest) that counts itself, and contents; the first block is the header, written last. The writer does not look
// whether its stream failed.
bool is_whole(const std::string &path) {
    std::FILE *file = std::fopen(path.c_str(), "rb");
    if (!file) return false;
    std::fseek(file, 0, SEEK_END);
    const long size = std::ftell(file);
    long at = 0;
    unsigned char head[9];
    bool good = size > 0;
    while (good && at < size) {
        std::fseek(file, at, SEEK_SET);
        good = std::fread(head, 1, sizeof head, file) == sizeof head && head[0] != 255;
        uint64_t length = 0;
        for (int i = 1; i < 9; i++) length = length << 8 | head[i];
        good = good && length >= 8 && length <= static_cast<uint64_t>(size - at - 1);
        at += 1 + static_cast<long>(length);
    }
    std::fclose(file);
    return good;
}

}  // namespace

bool Bench::trace(const std::string &path, uint64_t first, uint64_t last) {
    end_trace();
    if (path.empty()) return true;
    FILE *probe = fopen(path.c_str(), "wb");  // an early answer: the writer itself opens the file when the window begins
    if (!probe) return false;
    fclose(probe);
    if (!fst_) {
        fst_ = std::make_unique<VerilatedFstC>();
        chip_->trace(fst_.get(), 99);
    }
    trace_path_ = path;
    trace_first_ = now_ + first;
    trace_cycles_ = last - first + 1 ? last - first + 1 : UINT64_MAX;
    return true;
}

void Bench::dump_now(uint64_t phase) {
    try {
        if (!fst_->isOpen()) fst_->open(trace_path_.c_str());
        fst_->dump((now_ - 1) * 2 * kHalfPeriod + phase);
    } catch (const Stopped &stop) {
        fail_trace(stop.what());
    }
    if (phase && now_ - 1 - trace_first_ == trace_cycles_ - 1) end_trace();
}

void Bench::end_trace() {
    trace_cycles_ = 0;
    if (!fst_ || !fst_->isOpen()) return;
    try {
        fst_->close();
    } catch (const Stopped &stop) {
        fail_trace(stop.what());
    }
    if (!is_whole(trace_path_)) fail_trace("its end is missing");
}

// The writer can't be used any more, not even destroyed: that writes too.
void Bench::fail_trace(const char *why) {
    trace_cycles_ = 0;
    (void)fst_.release();
    throw Stopped("the waveform " + trace_path_ + " can't be written: is the disk full? " + why);
}

void Bench::drop_trace() noexcept {
    try {
        end_trace();
    } catch (const Stopped &) {
        // it was on the way out anyway
    }
}

#else

bool Bench::trace(const std::string &, uint64_t, uint64_t) { return false; }
void Bench::end_trace() {}
void Bench::drop_trace() noexcept {}

#endif

}  // namespace presil
