// SPDX-License-Identifier: Apache-2.0
// Launches on other cores (presil_jobs.h), as torch.backends.presil.jobs says: the twin answers PyTorch, processes run
// the RTL and compare. A device with jobs is in mode MODEL, whatever the setting `mode` says.
#pragma once
#include <presil_jobs.h>

#include <cstdint>

namespace presil {

// What a device is opened with: MODEL for one that will have jobs.
presil_mode mode_of_device();
// After a device was opened, and after mode or jobs changed: begins or ends its jobs.
void connect_jobs(int index, presil_device* device);
void end_jobs(int index);  // waits; raises what failed
bool has_jobs(int index) noexcept;
void wait_for_jobs(int index);         // raises the first failure, with its origin; returns at once if there are none
void cancel_jobs(int index) noexcept;  // async-signal-safe
void finish_jobs() noexcept;           // at exit: a failure that nobody waited for is printed
presil_jobs_stats jobs_stats(int index);  // zero without jobs
// 0: as many as there are processors. Raises below 0.
void apply_jobs(int64_t jobs);
// Who hears the reports: presil_set_report()'s function, of jobs too.
void set_jobs_report(presil_report_fn report);

}  // namespace presil
