// SPDX-License-Identifier: Apache-2.0
// What the transports over this memory share of presil_transport.h: when a byte was written, and which file this is.
#pragma once
#include <elf.h>
#include <link.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "write_log.h"

namespace presil {

constexpr const char* kNoWriteTime =
    "write_times: the log is off, has not got the byte, or was too long to keep the times of all";

// False: *out is as it was.
inline bool tell_times(const WriteLog& log, uint64_t base, uint64_t address, presil_write_time* out) {
  presil_write_time times = {};
  times.size = sizeof times;
  if (!out || out->size < sizeof times || !log.times(address - base, &times)) return false;
  *out = times;
  return true;
}

struct BuildId {
  uintptr_t inside;
  char* text;
  size_t bytes;
};

// The note of one segment: name "GNU", type NT_GNU_BUILD_ID.
inline bool read_build_id(const char* at, const char* end, BuildId* out) {
  while (end - at >= static_cast<ptrdiff_t>(sizeof(ElfW(Nhdr)))) {
    ElfW(Nhdr) note;
    memcpy(&note, at, sizeof note);
    const char* name = at + sizeof note;
    const char* id = name + (note.n_namesz + 3) / 4 * 4;
    at = id + (note.n_descsz + 3) / 4 * 4;
    if (at > end) return false;
    if (note.n_type != NT_GNU_BUILD_ID || note.n_namesz != 4 || memcmp(name, "GNU", 4) != 0) continue;
    for (size_t i = 0; i < note.n_descsz && 2 * i + 3 <= out->bytes; i++)
      snprintf(out->text + 2 * i, 3, "%02x", static_cast<unsigned char>(id[i]));
    return true;
  }
  return false;
}

inline int find_build_id(dl_phdr_info* info, size_t, void* context) {
  auto* out = static_cast<BuildId*>(context);
  bool ours = false;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) & p = info->dlpi_phdr[i];
    ours |= p.p_type == PT_LOAD && out->inside - (info->dlpi_addr + p.p_vaddr) < p.p_memsz;
  }
  for (int i = 0; ours && i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) & p = info->dlpi_phdr[i];
    const char* notes = reinterpret_cast<const char*>(info->dlpi_addr + p.p_vaddr);
    if (p.p_type == PT_NOTE && read_build_id(notes, notes + p.p_memsz, out)) return 1;
  }
  return ours;
}

// The GNU build-id of the file that has the function or object at `inside`; "" where it has none.
inline void build_id(const void* inside, char* text, size_t bytes) {
  BuildId id = {reinterpret_cast<uintptr_t>(inside), text, bytes};
  text[0] = 0;
  dl_iterate_phdr(find_build_id, &id);
}

}  // namespace presil
