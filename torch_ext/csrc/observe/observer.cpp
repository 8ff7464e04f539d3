// SPDX-License-Identifier: Apache-2.0
#include "observe/observer.h"

#include "observe/launches.h"
#include "observe/source.h"
#include "runtime/device.h"

#include <ATen/ATen.h>
#include <ATen/record_function.h>

#include <chrono>
#include <cstring>
#include <map>
#include <mutex>

namespace presil {
namespace observe_detail {
std::atomic<bool> on{false};
}

namespace {

// Where work comes from: an operator and a line. Its number travels with each launch as the tag.
struct Site {
  std::string op;
  uint32_t source = 0;
  bool backward = false;
  bool operator<(const Site& o) const { return std::tie(op, source, backward) < std::tie(o.op, o.source, o.backward); }
};

// Backward operators have no Python frame of their user: they get the line of the forward operator with the same
// sequence number. A ring, so that long trainings don't grow it.
struct ForwardLines {
  struct Entry {
    int64_t sequence = -1;
    uint64_t thread = 0;
    uint32_t source = 0;
  };
  std::vector<Entry> ring = std::vector<Entry>(1 << 16);

  Entry& at(uint64_t thread, int64_t sequence) {
    return ring[(static_cast<uint64_t>(sequence) + thread * 0x9e37u) % ring.size()];
  }
  void put(uint64_t thread, int64_t sequence, uint32_t source) { at(thread, sequence) = {sequence, thread, source}; }
  uint32_t get(uint64_t thread, int64_t sequence) {
    const Entry& e = at(thread, sequence);
    return e.sequence == sequence && e.thread == thread ? e.source : 0;
  }
};

struct Observer final : LaunchListener {
  std::mutex mutex;
  uint64_t session = 0;
  std::vector<Site> sites;
  std::map<Site, uint32_t> site_numbers;  // from 1
  std::vector<ObservedRow> rows;
  std::map<std::tuple<uint32_t, std::string, std::string>, size_t> row_numbers;  // site, where, reason
  ForwardLines forward;

  void clear() {
    std::lock_guard<std::mutex> lock(mutex);
    session++;
    sites.clear();
    site_numbers.clear();
    rows.clear();
    row_numbers.clear();
    forward = {};
  }
  uint32_t site(Site s) {
    const auto [it, added] = site_numbers.emplace(s, static_cast<uint32_t>(sites.size() + 1));
    if (added) sites.push_back(std::move(s));
    return it->second;
  }
  ObservedRow& row(uint32_t number, const char* where, const std::string& reason) {
    const auto [it, added] = row_numbers.emplace(std::make_tuple(number, std::string(where), reason), rows.size());
    if (added) {
      const Site& s = sites.at(number - 1);
      ObservedRow r;
      r.op = s.op;
      r.where = where;
      r.reason = reason;
      r.source = s.source;
      r.backward = s.backward;
      rows.push_back(std::move(r));
    }
    return rows[it->second];
  }

  void launched(int, const presil_report& report) override {
    std::lock_guard<std::mutex> lock(mutex);
    uint32_t number = tag_site(report.tag);
    // A launch that no operator of this observation enqueued: a graph's, or one from before.
    if (number == 0 || number > sites.size()) number = site({report.label, 0, false});
    ObservedRow& r = row(number, "chip", "");
    r.launches++;
    r.failed += report.status != 0;
    if (report.mode == PRESIL_MODE_MODEL) r.unclocked++;
    r.cycles += report.cycles;
    r.macs += report.macs;
    r.dram_bytes += report.read_bytes + report.write_bytes;
    r.sim_ns += report.sim_ns + report.twin_ns;
  }
};

// One for the process, never destroyed: operators may still be open when an observation ends.
Observer& observer() {
  static auto* r = new Observer;
  return *r;
}

// An operator that is running, or a backward node, which only carries its line.
struct Frame final : at::ObserverContext {
  Frame* parent = nullptr;
  uint64_t of_session = 0;
  uint32_t site = 0;  // 0: not an operator on the device
  uint32_t source = 0;
  uint32_t tag_before = 0;
  bool backward = false, works = false, launches = false, on_host = false;
  std::string op, reason;
  uint64_t start_ns = 0, inner_ns = 0, wait_ns = 0, host_bytes = 0;
};
thread_local Frame* top = nullptr;

bool on_device(const c10::IValue& v) {
  if (v.isTensor()) return v.toTensor().defined() && v.toTensor().device().type() == kDevice;
  if (v.isDevice()) return v.toDevice().type() == kDevice;
  if (v.isTensorList()) {
    for (const at::Tensor& t : v.toTensorVector())
      if (t.defined() && t.device().type() == kDevice) return true;
  } else if (v.isOptionalTensorList()) {
    for (const auto& t : v.toOptionalTensorVector())
      if (t && t->defined() && t->device().type() == kDevice) return true;
  }
  return false;
}

bool on_device(c10::ArrayRef<const c10::IValue> inputs) {
  for (const auto& v : inputs)
    if (on_device(v)) return true;
  return false;
}

std::string name_of(const at::RecordFunction& fn) {
  const std::string overload = fn.overload_name();
  return overload.empty() ? fn.name() : std::string(fn.name()) + "." + overload;
}

void find_line(Frame& frame, const at::RecordFunction& fn) {
  if (fn.scope() == at::RecordScope::BACKWARD_FUNCTION) {
    frame.backward = true;
    std::lock_guard<std::mutex> lock(observer().mutex);
    frame.source = observer().forward.get(fn.forwardThreadId(), fn.seqNr());
    return;
  }
  if (frame.parent && frame.parent->backward) {
    frame.backward = true;
    frame.source = frame.parent->source;
    return;
  }
  frame.source = current_source();
  if (frame.source && fn.seqNr() >= 0) {
    std::lock_guard<std::mutex> lock(observer().mutex);
    observer().forward.put(fn.threadId(), fn.seqNr(), frame.source);
  }
}

std::unique_ptr<at::ObserverContext> start(const at::RecordFunction& fn) {
  if (!observing()) return nullptr;
  const bool node = fn.scope() == at::RecordScope::BACKWARD_FUNCTION;
  const bool device =
      !node && (fn.operator_name() ? on_device(fn.inputs()) : std::string_view(fn.name()).substr(0, 8) == "presil::");
  if (!node && !device) return nullptr;
  auto frame = std::make_unique<Frame>();
  frame->parent = top;
  find_line(*frame, fn);
  if (device) {
    std::lock_guard<std::mutex> lock(observer().mutex);
    frame->op = name_of(fn);
    frame->site = observer().site({frame->op, frame->source, frame->backward});
    frame->of_session = observer().session;
  }
  frame->tag_before = set_tag(TagHalf::Site, frame->site);
  frame->start_ns = observe_now_ns();
  top = frame.get();
  return frame;
}

void end(const at::RecordFunction&, at::ObserverContext* context) {
  auto* frame = static_cast<Frame*>(context);
  if (!frame) return;
  top = frame->parent;
  (void)set_tag(TagHalf::Site, frame->tag_before);
  if (!observing()) return;
  const uint64_t total = observe_now_ns() - frame->start_ns;
  const bool works = frame->works || frame->launches || frame->on_host || frame->host_bytes;
  if (frame->parent) {
    frame->parent->works |= works;
    frame->parent->inner_ns += total;
  }
  if (frame->site == 0) return;
  const char* where = frame->launches                       ? "chip"
                      : frame->on_host || frame->host_bytes ? "host"
                      : frame->works                        ? "composite"
                                                            : "metadata";
  std::lock_guard<std::mutex> lock(observer().mutex);
  if (frame->of_session != observer().session) return;
  ObservedRow& r = observer().row(frame->site, where, frame->reason);
  r.calls++;
  r.host_bytes += frame->host_bytes;
  r.wait_ns += frame->wait_ns;
  r.host_ns += total - std::min(total, frame->inner_ns + frame->wait_ns);
}

at::CallbackHandle callback = at::INVALID_CALLBACK_HANDLE;

}  // namespace

namespace observe_detail {

void enqueued() {
  if (top) top->launches = true;
}

void on_host(const char* op, const char* reason) {
  if (top && top->site) {
    // Kernels name themselves without the overload.
    const size_t n = strlen(op);
    if (top->op.compare(0, n, op) == 0 && (top->op.size() == n || top->op[n] == '.')) {
      top->on_host = true;
      top->reason = reason;
      return;
    }
  }
  step(op, reason, 0, 0);
}

void moved(uint64_t bytes, const char* reason) {
  if (!top) return;
  top->host_bytes += bytes;
  if (top->reason.empty()) top->reason = reason;
}

void step(const char* name, const char* reason, uint64_t bytes, uint64_t ns) {
  if (top) {
    top->works = true;
    top->inner_ns += ns;
  }
  std::lock_guard<std::mutex> lock(observer().mutex);
  ObservedRow& r = observer().row(observer().site({name, top ? top->source : 0, top && top->backward}), "host", reason);
  r.calls++;
  r.host_bytes += bytes;
  r.host_ns += ns;
}

void note(const std::string& name, const std::string& reason) {
  const uint32_t source = top ? top->source : current_source();
  std::lock_guard<std::mutex> lock(observer().mutex);
  observer().row(observer().site({name, source, top && top->backward}), "composite", reason).calls++;
}

}  // namespace observe_detail

static void waited(uint64_t ns) {
  if (top) top->wait_ns += ns;
}

uint64_t observe_now_ns() {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
          .count());
}

void start_observing() {
  TORCH_CHECK(
      !observing(),
      "presil: torch.presil.explain() is active already; one at a time in a process. Leave the outer one first");
  observer().clear();
  add_listener(&observer());
  observe_detail::on = true;
  wait_listener = &waited;
  callback = at::addGlobalCallback(at::RecordFunctionCallback(&start, &end)
                                       .needsInputs(true)
                                       .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}));
}

std::vector<ObservedRow> stop_observing() {
  TORCH_CHECK(observing(), "presil: stop_observing without start_observing");
  at::removeCallback(callback);
  remove_listener(&observer());
  observe_detail::on = false;
  wait_listener = nullptr;
  std::lock_guard<std::mutex> lock(observer().mutex);
  return observer().rows;
}

}  // namespace presil
