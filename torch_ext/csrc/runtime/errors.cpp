// SPDX-License-Identifier: Apache-2.0
#include "runtime/errors.h"

#include <c10/util/Exception.h>

#include <atomic>

namespace presil {
namespace {

enum class Kind { value, memory, unsupported, runtime, accelerator };

struct Row {
  presil_status status;
  Kind kind;
  const char* meaning;
};
// docs/runtime.md has the same rows (tests/torch/test_errors.py).
constexpr Row kRows[] = {
    {PRESIL_EINVAL, Kind::value, "an argument is wrong; nothing was done"},
    {PRESIL_ENOMEM, Kind::memory, "device memory is full; nothing was done"},
    {PRESIL_EHOSTMEM, Kind::memory, "host memory is full"},
    {PRESIL_EUNSUPPORTED, Kind::unsupported, "the chip can't do it; nothing was done"},
    {PRESIL_ENODEV, Kind::runtime,
     "no simulator library, a chip that the driver does not understand, a closed device, or a forked process"},
    {PRESIL_EBUS, Kind::accelerator,
     "bus error in a launch, or wrong parity in a memory of the chip; its outputs are undefined, the device was "
     "reset and is usable"},
    {PRESIL_EDESC, Kind::accelerator, "the chip refused a command; as EBUS"},
    {PRESIL_EHUNG, Kind::accelerator, "a launch made no progress; as EBUS"},
    {PRESIL_ECANCELLED, Kind::accelerator, "a launch was cancelled (Ctrl-C); as EBUS"},
    {PRESIL_ESTOPPED, Kind::accelerator, "$fatal, $finish or an assertion in the RTL; as EBUS"},
    {PRESIL_EMISMATCH, Kind::accelerator,
     "mode verify: RTL and twin (of a chip without one: the reference) differ; the outputs are the RTL's"},
    {PRESIL_EDEAD, Kind::accelerator, "the device is unusable until torch.presil.reset_device()"},
    {PRESIL_EIO, Kind::runtime, "a bundle's file can't be read or written; no device is concerned"},
    {PRESIL_ETIMING, Kind::accelerator,
     "mode hybrid: the RTL takes other cycles than the timing store had of the launch; the store was emptied"},
};

const char* exception_name(Kind kind) {
  switch (kind) {
    case Kind::value: return "ValueError";
    case Kind::memory: return "torch.OutOfMemoryError";
    case Kind::unsupported: return "NotImplementedError";
    case Kind::accelerator: return "torch.AcceleratorError";
    case Kind::runtime: break;
  }
  return "RuntimeError";
}

std::atomic<OriginText> describe_origin{nullptr};

}  // namespace

const std::vector<ErrorRow>& error_table() {
  static const auto* table = [] {
    auto* rows = new std::vector<ErrorRow>;
    for (const Row& row : kRows) rows->push_back({row.status, exception_name(row.kind), row.meaning});
    return rows;
  }();
  return *table;
}

void raise_text(int status, const std::string& text) {
  Kind kind = Kind::runtime;
  for (const Row& row : kRows)
    if (row.status == status) kind = row.kind;
  switch (kind) {
    case Kind::value: C10_THROW_ERROR(ValueError, text);
    case Kind::memory: C10_THROW_ERROR(OutOfMemoryError, text);
    case Kind::unsupported: C10_THROW_ERROR(NotImplementedError, text);
    case Kind::accelerator:
      throw c10::AcceleratorError({__func__, __FILE__, static_cast<uint32_t>(__LINE__)}, -status, text);
    case Kind::runtime: break;
  }
  C10_THROW_ERROR(Error, text);
}

void raise_status(int status, const char* what) {
  const std::string driver = presil_error_text();
  const std::string origin = origin_text(presil_error_origin());
  raise_text(status,
             c10::str("presil: ", what, ": ", driver, " [", presil_status_name(static_cast<presil_status>(status)), "]",
                      origin.empty() ? "" : "\nlaunched by ", origin));
}

void set_origin_text(OriginText describe) { describe_origin = describe; }
std::string origin_text(uint64_t origin) {
  const OriginText describe = describe_origin.load();
  return origin && describe ? describe(origin) : "";
}

}  // namespace presil
