// SPDX-License-Identifier: Apache-2.0
#include "presil_tlm.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <stdexcept>
#include <vector>

#include "twin_module.h"

namespace presil {

namespace {

std::string find_chip(const std::string& name) {
  std::vector<std::string> folders;
  const char* more = getenv("PRESIL_LIBRARY_PATH");
  const std::string path = more ? more : "";
  for (size_t at = 0; at < path.size();) {
    const size_t end = std::min(path.find(':', at), path.size());
    if (end > at) folders.push_back(path.substr(at, end - at));
    at = end + 1;
  }
  Dl_info self;  // beside this library
  if (dladdr(reinterpret_cast<void*>(&load_chip), &self) && self.dli_fname) {
    const std::string file = self.dli_fname;
    folders.push_back(file.find('/') == std::string::npos ? "." : file.substr(0, file.rfind('/')));
  }
  std::string looked;
  for (const std::string& folder : folders) {
    const std::string file = folder + "/" + name;
    if (access(file.c_str(), R_OK) == 0) return file;
    looked += (looked.empty() ? "" : ":") + folder;
  }
  throw std::runtime_error(name + " is not in " + looked +
                           ": build it (PRESIL_SYSTEMC_CONFIGS), or name the library's file");
}

}  // namespace

ChipMaker load_chip(const std::string& file, const std::string& config, const std::string& build) {
  if (file.empty() && config.empty())
    throw std::runtime_error("which chip? Name its configuration, or its library's file");
  if (file.empty() && build == "twin")
    return [config](const char* name, Clock& clock, uint64_t, std::string* error) {
      return make_twin_chip(name, config, clock, error);
    };
  const std::string path = file.empty() ? find_chip("libpresil_sim_" + config + "_" + build + ".so") : file;
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);  // for ever: the kernel keeps pointing into it
  if (!library) throw std::runtime_error(std::string("the chip's library can't be opened: ") + dlerror());
  const auto entry = reinterpret_cast<RtlChipEntry>(dlsym(library, kRtlChipEntry));
  if (!entry) throw std::runtime_error(path + " is not the library of a chip for SystemC: it has no " + kRtlChipEntry);
  return entry;
}

namespace {

std::unique_ptr<Chip> make_chip(Clock& clock, const TlmChipOptions& options) {
  std::string error;
  std::unique_ptr<Chip> chip(
      load_chip(options.library, options.config, options.build)("chip", clock, options.seed, &error));
  if (!chip) throw std::runtime_error("the chip can't be made: " + error);
  return chip;
}

}  // namespace

TlmChip::TlmChip(sc_core::sc_module_name name, const TlmChipOptions& options)
    : sc_module(name), clock_("clock", sc_core::sc_time(1e6 / options.clock_mhz, sc_core::SC_PS)),
      chip_(make_chip(clock_, options)), registers(chip_->registers), memory(chip_->memory), irq(chip_->irq) {}

}  // namespace presil
