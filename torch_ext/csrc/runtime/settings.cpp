// SPDX-License-Identifier: Apache-2.0
#include "runtime/settings.h"
#include "runtime/bundles.h"
#include "runtime/device.h"
#include "runtime/jobs.h"

#include <ATen/Context.h>
#include <c10/util/Exception.h>

#include <chrono>
#include <cstdlib>

namespace presil {
namespace {

std::string environment(const char* name, const char* fallback) {
  const char* value = std::getenv(name);
  return value && *value ? value : fallback;
}

bool switched_on(const char* name) {
  const std::string value = environment(name, "0");
  return value != "0" && value != "false" && value != "off";
}

constexpr long kMostJobs = 1024;

uint32_t jobs_from_environment() {
  const std::string text = environment("PRESIL_JOBS", "1");
  char* end = nullptr;
  const long jobs = std::strtol(text.c_str(), &end, 10);
  TORCH_CHECK_VALUE(!*end && jobs >= 0 && jobs <= kMostJobs, "presil: PRESIL_JOBS=", text,
                    ": expected 0 (as many as there are processors) to ", kMostJobs);
  return jobs > 0 ? static_cast<uint32_t>(jobs) : presil_jobs_processors();
}

double sample_from_environment() {
  const std::string text = environment("PRESIL_STORE_SAMPLE", "0.02");
  char* end = nullptr;
  const double sample = std::strtod(text.c_str(), &end);
  TORCH_CHECK_VALUE(!*end && sample >= 0 && sample <= 1, "presil: PRESIL_STORE_SAMPLE=", text,
                    ": expected which share of the launches that are known runs all the same, 0 to 1");
  return sample;
}

// Another one in each process, so that it is another launch that is looked at; small, because people type it.
uint64_t seed_from_environment() {
  const std::string text = environment("PRESIL_STORE_SEED", "");
  if (text.empty()) return static_cast<uint64_t>(std::chrono::system_clock::now().time_since_epoch().count()) % 1000000;
  char* end = nullptr;
  const uint64_t seed = std::strtoull(text.c_str(), &end, 10);
  TORCH_CHECK_VALUE(!*end && text[0] != '-', "presil: PRESIL_STORE_SEED=", text, ": expected a number");
  return seed;
}

bool is_estimate(const std::string& what, const char* setting) {
  TORCH_CHECK_VALUE(what == "simulate" || what == "estimate", "presil: ", setting,
                    " must be \"simulate\" or \"estimate\", got \"", what, "\"");
  return what == "estimate";
}

}  // namespace

Settings& settings() {
  static auto* s = [] {
    auto* created = new Settings;
    created->chip = environment("PRESIL_CHIP", "");
    created->mode = environment("PRESIL_MODE", "rtl");
    created->build = environment("PRESIL_BUILD", "fast");
    created->transport = environment("PRESIL_TRANSPORT", "inproc");
    created->chip_given = !created->chip.empty();
    created->build_given = !environment("PRESIL_BUILD", "").empty();
    created->memory_model = environment("PRESIL_MEMORY_MODEL", "");
    created->affinity = environment("PRESIL_AFFINITY", "");
    created->jobs = jobs_from_environment();
    created->store_sample = sample_from_environment();
    created->store_seed = seed_from_environment();
    created->estimate = is_estimate(environment("PRESIL_UNSEEN", "simulate"), "PRESIL_UNSEEN");
    created->strict = switched_on("PRESIL_STRICT");
    created->launch_blocking = switched_on("PRESIL_LAUNCH_BLOCKING");
    return created;
  }();
  return *s;
}

bool transport_is_remote() { return settings().transport != "inproc"; }

bool fp32_as_bf16(Fp32Op op) {
  const Fp32Precision own = settings().fp32;
  if (own != Fp32Precision::follow) return own == Fp32Precision::bf16;
  return at::globalContext().float32Precision(at::Float32Backend::MKLDNN,
                                              op == Fp32Op::conv ? at::Float32Op::CONV : at::Float32Op::MATMUL) ==
         at::Float32Precision::BF16;
}

static void switch_device(int index, presil_device* handle) {
  check(presil_device_set_mode(handle, mode_of_device()), "switching the mode");
  connect_jobs(index, handle);
  reports_changed(index, handle);
  capture_failures_of(index, handle);
}

void apply_mode_and_jobs(const std::string& mode, uint32_t jobs) {
  (void)mode_number(mode);
  const std::string mode_before = settings().mode;
  const uint32_t jobs_before = settings().jobs;
  for (int i = 0; i < device_count(); i++) end_jobs(i);
  settings().mode = mode;
  settings().jobs = jobs;
  try {
    for (int i = 0; i < device_count(); i++)
      if (auto* handle = opened(i)) switch_device(i, handle);
  } catch (...) {  // without jobs, which may be what failed: this process runs the RTL
    settings().mode = mode_before;
    settings().jobs = jobs_before;
    for (int i = 0; i < device_count(); i++)
      if (auto* handle = opened(i)) {
        end_jobs(i);
        (void)!presil_device_set_mode(handle, mode_without_jobs(mode_before));
        reports_changed(i, handle);
        capture_failures_of(i, handle);
      }
    throw;
  }
  for (int i = 0; i < device_count(); i++) raise_failure_of_jobs(i);
}

void apply_mode(const std::string& mode) { apply_mode_and_jobs(mode, settings().jobs); }

// Processes are told when they start.
template <class Change> static void change_what_jobs_know(Change&& change) {
  bool any = false;
  for (int i = 0; i < device_count(); i++) any = has_jobs(i) || any;
  for (int i = 0; i < device_count(); i++) end_jobs(i);
  try {
    change();
  } catch (...) {
    if (any) apply_mode(settings().mode);
    throw;
  }
  if (any) apply_mode(settings().mode);
}

void apply_memory_model(const std::string& model, uint64_t seed) {
  change_what_jobs_know([&] {
    for (int i = 0; i < device_count(); i++)
      if (auto* handle = opened(i))
        check(presil_device_set_memory_model(handle, model.empty() ? nullptr : model.c_str(), seed), "memory model");
    settings().memory_model = model;
    settings().seed = seed;
  });
}

void apply_store(const std::string& path, double sample, uint64_t seed) {
  TORCH_CHECK_VALUE(sample >= 0 && sample <= 1, "presil: store_sample must be 0 to 1, got ", sample);
  change_what_jobs_know([&] {
    settings().store = path;
    settings().store_sample = sample;
    settings().store_seed = seed;
  });
}

void apply_unseen(const std::string& what) {
  const bool estimate = is_estimate(what, "unseen");
  change_what_jobs_know([&] { settings().estimate = estimate; });
}

void apply_affinity(const std::string& cpus) {
  for (int i = 0; i < device_count(); i++) check(presil_device_set_affinity(device(i), cpus.c_str()), "affinity");
  settings().affinity = cpus;
}

void apply_watchdog(uint64_t cycles) {
  change_what_jobs_know([&] {
    for (int i = 0; i < device_count(); i++)
      if (auto* handle = opened(i)) check(presil_device_set_watchdog(handle, cycles), "watchdog");
    settings().watchdog = cycles;
  });
}

void set_before_first_use(std::string& setting, const std::string& value, const char* what) {
  if (setting == value) return;
  for (int i = 0; i < device_count(); i++)
    TORCH_CHECK(!opened(i), "presil: ", what, " can't change after the device was first used (it is ", setting,
                "). Set it, or its environment variable, at the start of the program.");
  setting = value;
}

}  // namespace presil
