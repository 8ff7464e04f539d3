// SPDX-License-Identifier: Apache-2.0
// The library's code on a huge page. A model's code fills the processor's first cache for instructions, and how fast it
// runs depends on where its 4 KiB pages lie in physical memory: the same library, copied to another file, ran an idle
// chip at 4,500 or at 8,600 kHz, each file always as fast. On a page of 2 MiB it is the process that is fast or slow.
#pragma once

#include <dlfcn.h>
#include <link.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace presil {

constexpr uintptr_t kHugePage = uintptr_t{2} << 20;

struct CodeSegment {
  uintptr_t inside;  // an address of the code that is looked for
  uintptr_t begin, end;
};

inline int find_code(dl_phdr_info* library, size_t, void* out) {
  CodeSegment* code = static_cast<CodeSegment*>(out);
  for (int i = 0; i < library->dlpi_phnum; i++) {
    const ElfW(Phdr) & part = library->dlpi_phdr[i];
    const uintptr_t begin = library->dlpi_addr + part.p_vaddr;
    if (part.p_type != PT_LOAD || code->inside - begin >= part.p_memsz) continue;
    code->begin = begin;
    code->end = begin + part.p_memsz;
    return 1;
  }
  return 0;
}

// Copies the code that `inside` is of to a huge page, in its place. Only before anybody else can run it. Nothing
// changes where the segment does not begin at a multiple of 2 MiB (presil_add_chip links it so; glibc before 2.35 does
// not heed it), where the system refuses, or with PRESIL_HUGE_CODE=0: perf and gdb know code by the file it is of.
inline bool code_on_huge_page(const void* inside) {
  const char* wish = std::getenv("PRESIL_HUGE_CODE");
  if (wish && std::strcmp(wish, "0") == 0) return false;
  CodeSegment code{reinterpret_cast<uintptr_t>(inside), 0, 0};
  if (!dl_iterate_phdr(find_code, &code) || code.begin % kHugePage) return false;
  const size_t size = (code.end - code.begin + kHugePage - 1) / kHugePage * kHugePage;
  void* room = mmap(nullptr, size + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) return false;
  const uintptr_t start = reinterpret_cast<uintptr_t>(room);
  const uintptr_t page = (start + kHugePage - 1) / kHugePage * kHugePage;
  void* copy = reinterpret_cast<void*>(page);
  bool moved = false;
  if (madvise(copy, size, MADV_HUGEPAGE) == 0) {
    std::memcpy(copy, reinterpret_cast<void*>(code.begin), code.end - code.begin);
    moved = mprotect(copy, size, PROT_READ | PROT_EXEC) == 0 &&
            mremap(copy, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, reinterpret_cast<void*>(code.begin)) != MAP_FAILED;
  }
  if (!moved) {
    munmap(room, size + kHugePage);
    return false;
  }
  if (page > start) munmap(room, page - start);
  munmap(reinterpret_cast<void*>(page + size), start + kHugePage - page);
  return true;
}

}  // namespace presil
