// SPDX-License-Identifier: Apache-2.0
// What the user can change at run time (torch.backends.presil), with its environment variables.
#pragma once
#include <cstdint>
#include <string>

namespace presil {

// How products of float32 operands are formed. follow: as PyTorch's own settings say (fp32_as_bf16).
enum class Fp32Precision { follow, ieee, bf16 };

// A change closes nothing: mode and memory model switch when the device is idle; chip and build can't change after the
// first use.
struct Settings {
  std::string chip;       // PRESIL_CHIP; empty: of the one chip that has a default, which opening it tells
  std::string build;      // PRESIL_BUILD
  std::string transport;  // PRESIL_TRANSPORT: "inproc", or "socket:PATH[,options]" for each device, separated by ';'
  bool chip_given = false, build_given = false;  // else a server's own are taken
  std::string mode;                              // PRESIL_MODE
  std::string store;                             // of mode "hybrid"; empty: the driver's (PRESIL_STORE)
  double store_sample = 0.02;                    // PRESIL_STORE_SAMPLE
  uint64_t store_seed = 0;                       // PRESIL_STORE_SEED, else of the clock
  bool estimate = false;                         // PRESIL_UNSEEN=estimate: what the store doesn't know is not simulated
  std::string memory_model;                      // PRESIL_MEMORY_MODEL; empty: the default one
  std::string affinity;                          // PRESIL_AFFINITY
  uint32_t jobs = 1;                             // PRESIL_JOBS: processes that run the RTL; 1: this one
  uint64_t seed = 0;                             // of the memory model
  uint64_t watchdog = 0;                         // cycles; 0: PRESIL_WATCHDOG (which the driver reads), or its own
  Fp32Precision fp32 = Fp32Precision::follow;
  bool strict = false;           // PRESIL_STRICT: a fallback is an error
  bool launch_blocking = false;  // PRESIL_LAUNCH_BLOCKING: every launch is waited for where it is enqueued
};
Settings& settings();

// Whether float32 operands are rounded to bfloat16 for a matmul, or a convolution. Without a setting of our own, what
// PyTorch allows the CPU: torch.backends.fp32_precision, torch.backends.mkldnn.{matmul,conv}.fp32_precision,
// torch.set_float32_matmul_precision. "bf16" and "medium" do; the chip has no tf32 and no sum of two bfloat16, so
// "tf32" and "high" compute at full accuracy, as "ieee" and "highest" do.
enum class Fp32Op { matmul, conv };
bool fp32_as_bf16(Fp32Op op);

void apply_mode(const std::string& mode);  // to all open devices and later ones
void apply_store(const std::string& path, double sample, uint64_t seed);
void apply_unseen(const std::string& what);  // "simulate", "estimate"
void apply_memory_model(const std::string& model, uint64_t seed);
void apply_affinity(const std::string& cpus);
void apply_watchdog(uint64_t cycles);
// Before the first use of a device only. setting: of settings().
void set_before_first_use(std::string& setting, const std::string& value, const char* what);
bool transport_is_remote();

}  // namespace presil
