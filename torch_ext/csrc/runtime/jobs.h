// SPDX-License-Identifier: Apache-2.0
// Launches on other cores (presil_jobs.h), as torch.backends.presil.jobs says, and in mode "hybrid" with any number:
// the twin answers PyTorch, processes run the RTL and compare, but for launches that the timing store knows. A device
// with jobs is in mode MODEL, whatever the setting `mode` says.
#pragma once
#include <presil.h>
#include <presil_jobs.h>

#include <cstdint>
#include <string>

namespace presil {

// What a device is opened with: MODEL for one that will have jobs.
presil_mode mode_of_device();
presil_mode mode_without_jobs(const std::string& mode);  // of a device whose jobs can't be had
// After a device was opened, and after mode or jobs changed: begins or ends its jobs.
void connect_jobs(int index, presil_device* device);
void end_jobs(int index) noexcept;  // waits; what failed is kept, for raise_failure_of_jobs()
bool has_jobs(int index) noexcept;
bool jobs_source(int index, presil_capture_source* out);  // false: there are none
void wait_for_jobs(int index);  // raises the first failure, with its origin; returns at once if there are none
bool jobs_ready(int index, double seconds) noexcept;  // waits at most so long; true without jobs
void settle_jobs(int index) noexcept;                 // waits; the next wait_for_jobs() raises what failed
void raise_failure_of_jobs(int index);
void forget_jobs(int index) noexcept;     // cancels, and what failed was never
void cancel_jobs(int index) noexcept;     // async-signal-safe
void finish_jobs() noexcept;              // at exit: a failure that nobody waited for is printed
presil_jobs_stats jobs_stats(int index);  // zero without jobs
// 0: as many as there are processors. Raises below 0.
void apply_jobs(int64_t jobs);
// Where they are refused, the settings stay. What an earlier launch of jobs failed with is raised as well, once the
// settings are changed.
void apply_mode_and_jobs(const std::string& mode, uint32_t jobs);
// Who hears the reports: presil_set_report()'s function, of jobs too.
void set_jobs_report(presil_report_fn report);

}  // namespace presil
