/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A board in software: a simulator library behind a mailbox and a memory file, as driver/board finds a real one behind
 * its files. It knows no chip: it carries accesses to the library, and lets its clock run until the interrupt, or until
 * the bus is silent.
 *
 * By chance from a seed, which it prints, and from the host's timing: requests that take a while; interrupts that come
 * late; writes to memory through the mailbox that are held back and change places, as far as mailbox.h allows (nothing
 * but a read or a flush pushes them).
 * --iommu: the chip reaches what was mapped, at addresses that are not those of the file. What it touches beyond that
 * is counted, and is junk. SIGUSR1, or --lose N[,TIMES]: the link goes, and everything reads 0xffffffff until a reset,
 * which finds memory scrambled. With --lose that is after 1 to 2 N requests and slices of the chip's clock, as the seed
 * has it, so in the middle of anything; each time anew, TIMES times (default: for ever).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "mailbox.h"
#include "presil_transport.h"

enum { PAGE = 4096, SHIFT = 16 << 20, MOST_HELD = 48, SLICE_CYCLES = 20000, SILENT_CYCLES = 10000, NAP_NS = 50000 };

static const char usage[] =
    "usage: soft-board DIRECTORY --library LIBRARY.so [--base ADDRESS] [--bytes N] [--hole OFFSET,BYTES]\n"
    "                  [--memory mapped|mailbox] [--interrupt uio|none] [--seed N] [--late-us N] [--mhz N]\n"
    "                  [--iommu 1] [--lose N[,TIMES]]\n";

typedef struct {
  uint64_t address;
  uint32_t bytes;
  uint8_t* data;
} held_write;

typedef struct {
  const char *directory, *library;
  uint64_t base, bytes, hole_at, hole_bytes, seed;
  bool mailbox_memory, interrupts, iommu;
  unsigned late_us, mhz, lose_every;
  uint64_t most_losses;

  const presil_transport_ops* ops;
  presil_transport* inner;
  presil_transport_info info;
  mailbox_file* box;
  int memory_fd, irq_fd;
  uint8_t* seen;  /* with an IOMMU: memory as the chip sees it */
  uint8_t* pages; /* 1: mapped */
  uint64_t shift; /* of the file: where the first byte of memory is */
  uint64_t random, random_losses;
  held_write held[MOST_HELD];
  int held_count;
  bool clocking, signalled, lost, was_lost;
  uint64_t due;        /* of the interrupt, in ns; 0: none */
  uint64_t until_loss; /* requests; 0: not drawn */
  bool in_launch;      /* drawn too: not at the request, but at the next interrupt */
  bool armed;          /* and that is due */
  bool interrupted;    /* since the last write to a register */
  int32_t posted_status;
  /* told at the end */
  uint64_t reads, writes, memory_reads, memory_writes, swapped, overtaken, interrupts_sent, late, resets, losses,
      counted;
  uint64_t maps, unmaps, mapped, faults, first_fault;
} board;

static volatile sig_atomic_t stop, lose;
static void on_stop(int number) { stop = number; }
static void on_lose(int number) { lose = number; }

static uint64_t now_ns(void) {
  struct timespec t;
  (void)clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void nap(uint64_t ns) {
  const struct timespec t = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
  (void)nanosleep(&t, NULL);
}

static uint32_t draw(uint64_t* random, uint32_t below) {
  *random = *random * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(*random >> 33) % below;
}

static uint32_t pick(board* b, uint32_t below) { return draw(&b->random, below); }

_Noreturn static void die(const char* what) {
  (void)fprintf(stderr, "soft-board: %s: %s\n", what, strerror(errno));
  exit(1);
}

/* ---- memory behind the mailbox */
static int access_memory(board* b, uint64_t address, void* to, const void* from, uint64_t bytes) {
  if (address < b->base || address - b->base > b->bytes || bytes > b->bytes - (address - b->base))
    return PRESIL_TRANSPORT_EBUS;
  const off_t at = (off_t)(address - b->base + b->shift);
  const ssize_t moved = to ? pread(b->memory_fd, to, bytes, at) : pwrite(b->memory_fd, from, bytes, at);
  return moved == (ssize_t)bytes ? 0 : PRESIL_TRANSPORT_EIO;
}

/* ---- what the chip reaches */
static board* behind_iommu;

static void show(const board* b, uint64_t at, uint64_t bytes, bool reachable) {
  const int flags = reachable ? MAP_SHARED | MAP_FIXED : MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
  void* shown = mmap(b->seen + at, bytes, reachable ? PROT_READ | PROT_WRITE : PROT_NONE, flags,
                     reachable ? b->memory_fd : -1, reachable ? (off_t)(at + b->shift) : 0);
  if (shown == MAP_FAILED) die("mmap");
}

/* The chip, which is in this process, touched a page that nobody mapped. */
static void on_fault(int number, siginfo_t* info, void* context) {
  board* b = behind_iommu;
  const uint64_t at = (uint64_t)((uint8_t*)info->si_addr - b->seen) & ~(uint64_t)(PAGE - 1);
  (void)context;
  if ((uint8_t*)info->si_addr < b->seen || at >= b->bytes || b->pages[at / PAGE] ||
      mmap(b->seen + at, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED) {
    (void)signal(number, SIG_DFL);
    return;
  }
  memset(b->seen + at, 0xa5, PAGE);
  if (b->faults++ == 0) b->first_fault = b->base + at;
}

static void put_behind_iommu(board* b) {
  presil_region region = {0};
  if (b->ops->region(b->inner, 0, &region) || !region.host || region.bytes != b->bytes) die("the library's memory");
  b->seen = region.host;
  b->pages = calloc(b->bytes / PAGE, 1);
  if (!b->pages) die("calloc");
  behind_iommu = b;
  const struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER};
  if (sigaction(SIGSEGV, &action, NULL)) die("sigaction");
  show(b, 0, b->bytes, false);
}

static void unmap_all(board* b) {
  memset(b->pages, 0, b->bytes / PAGE);
  show(b, 0, b->bytes, false);
  b->mapped = 0;
}

/* All of it is mapped, or none: what is asked for twice is refused. */
static int32_t map_pages(board* b, const mailbox_entry* e, bool map) {
  const uint64_t bytes = (uint64_t)e->value * PAGE, at = e->address - b->base;
  if (b->seen && !map && !bytes) {
    unmap_all(b);
    return 0;
  }
  if (!b->seen || e->address < b->base || e->address % PAGE || !bytes || at > b->bytes || bytes > b->bytes - at)
    return PRESIL_TRANSPORT_EINVAL;
  for (uint64_t i = at / PAGE; i < (at + bytes) / PAGE; i++) {
    if (b->pages[i] == map) return PRESIL_TRANSPORT_EINVAL;
  }
  memset(b->pages + at / PAGE, map, bytes / PAGE);
  show(b, at, bytes, map);
  *(map ? &b->maps : &b->unmaps) += 1;
  b->mapped += map ? e->value : 0u - (uint64_t)e->value;
  return 0;
}

static bool overlaps_earlier(const board* b, int n) {
  for (int i = 0; i < n; i++) {
    if (b->held[i].address < b->held[n].address + b->held[n].bytes &&
        b->held[n].address < b->held[i].address + b->held[i].bytes)
      return true;
  }
  return false;
}

/* In any order that no byte can tell from the one in which they were written. */
static void push_writes(board* b) {
  while (b->held_count) {
    int n = (int)pick(b, (uint32_t)b->held_count);
    if (overlaps_earlier(b, n)) n = 0;
    b->swapped += n != 0;
    held_write* h = &b->held[n];
    const int status = access_memory(b, h->address, NULL, h->data, h->bytes);
    if (status) b->posted_status = status;
    free(h->data);
    memmove(h, h + 1, (size_t)(b->held_count - n - 1) * sizeof *h);
    b->held_count--;
  }
}

static void hold_write(board* b, const mailbox_entry* e, const uint8_t* slot) {
  if (b->held_count == MOST_HELD) push_writes(b);
  held_write* h = &b->held[b->held_count++];
  *h = (held_write){e->address, e->bytes, malloc(e->bytes ? e->bytes : 1)};
  if (!h->data) die("malloc");
  memcpy(h->data, slot, e->bytes);
}

static void scramble_memory(board* b) {
  uint8_t junk[65536];
  for (size_t i = 0; i < sizeof junk; i++) junk[i] = (uint8_t)pick(b, 256);
  for (uint64_t at = 0; at < b->bytes && at < 64 * sizeof junk; at += sizeof junk)
    (void)access_memory(b, b->base + at, NULL, junk, b->bytes - at < sizeof junk ? b->bytes - at : sizeof junk);
}

/* ---- the link */
static void lose_link(board* b) {
  b->lost = b->was_lost = true;
  b->losses++;
  b->until_loss = 0;
  b->armed = false;
  (void)printf("link lost\n");
  (void)fflush(stdout);
}

static void count_request(board* b, uint32_t kind) {
  if (kind == MAILBOX_READ32) return;
  b->counted++;
  if (!b->lose_every || b->lost || b->armed || b->losses >= b->most_losses) return;
  if (!b->until_loss) {
    b->until_loss = 1 + draw(&b->random_losses, 2 * b->lose_every);
    b->in_launch = draw(&b->random_losses, 2);
  }
  if (--b->until_loss) return;
  b->armed = b->in_launch;
  if (!b->armed) lose_link(b);
}

/* ---- requests */
static int32_t serve_lost(mailbox_entry* e, uint8_t* slot) {
  if (e->kind == MAILBOX_READ32) e->value = UINT32_MAX;
  if (e->kind == MAILBOX_MEM_READ) memset(slot, 0xff, e->bytes);
  return 0;
}

static int32_t reset_chip(board* b, mailbox_entry* e) {
  push_writes(b);
  b->resets++;
  b->posted_status = 0;
  b->clocking = b->signalled = b->interrupted = false;
  b->due = 0;
  e->value = b->was_lost;
  if (b->was_lost) scramble_memory(b);
  if (b->was_lost && b->seen) unmap_all(b);
  b->was_lost = b->lost = false;
  return b->ops->reset(b->inner) < 0 ? PRESIL_TRANSPORT_EIO : 0;
}

static int32_t serve_one(board* b, mailbox_entry* e, uint8_t* slot) {
  if (e->bytes > MAILBOX_SLOT) return PRESIL_TRANSPORT_EINVAL;
  if (e->kind == MAILBOX_RESET) return reset_chip(b, e);
  count_request(b, e->kind);
  if (b->lost) return serve_lost(e, slot);
  switch (e->kind) {
    case MAILBOX_READ32:
      push_writes(b);
      b->reads++;
      b->clocking |= !b->signalled;
      return b->ops->read32(b->inner, (uint32_t)e->address, &e->value);
    case MAILBOX_WRITE32:
      b->writes++;
      b->overtaken += (uint64_t)b->held_count;
      b->clocking = true;
      b->signalled = b->interrupted = false;
      return b->ops->write32(b->inner, (uint32_t)e->address, e->value);
    case MAILBOX_MEM_READ:
      push_writes(b);
      b->memory_reads += e->bytes;
      return access_memory(b, e->address, slot, NULL, e->bytes);
    case MAILBOX_MEM_WRITE:
      b->memory_writes += e->bytes;
      hold_write(b, e, slot);
      return 0;
    case MAILBOX_FLUSH: push_writes(b); return 0;
    case MAILBOX_MAP: return map_pages(b, e, true);
    case MAILBOX_UNMAP: return map_pages(b, e, false);
    default: return PRESIL_TRANSPORT_EINVAL;
  }
}

static bool serve(board* b) {
  const uint32_t posted = __atomic_load_n(&b->box->posted, __ATOMIC_ACQUIRE);
  uint32_t done = b->box->done;
  if (posted == done) return false;
  for (; done != posted; done++) {
    mailbox_entry* e = &b->box->entry[done % MAILBOX_ENTRIES];
    if (pick(b, 64) == 0) nap(pick(b, 200000));
    const bool answered = e->kind != MAILBOX_WRITE32 && e->kind != MAILBOX_MEM_WRITE;
    int32_t status = serve_one(b, e, b->box->slot[done % MAILBOX_ENTRIES]);
    if (!answered && status) b->posted_status = status;
    if (answered && !status) status = b->posted_status;
    if (answered) b->posted_status = 0;
    e->status = status;
    __atomic_store_n(&b->box->done, done + 1, __ATOMIC_RELEASE);
  }
  return true;
}

/* ---- the clock */
static void run_clock(board* b) {
  presil_wait w = {.size = sizeof w, .deadline_cycles = SLICE_CYCLES, .hang_cycles = SILENT_CYCLES};
  const int status = b->ops->wait(b->inner, &w);
  if (status || w.reason == PRESIL_WAIT_HUNG) b->clocking = false; /* until somebody asks for something */
  if (status || w.reason != PRESIL_WAIT_IRQ) return;
  b->clocking = false;
  if (b->armed && !b->interrupted) lose_link(b);
  b->interrupted = true;
  if (b->lost) return;
  if (b->signalled || !b->interrupts) return;
  b->signalled = true;
  const unsigned late = b->late_us && pick(b, 2) ? pick(b, b->late_us) : 0;
  b->late += late != 0;
  b->due = now_ns() + late * 1000ull;
}

static void send_interrupt(board* b) {
  if (!b->due || b->lost || now_ns() < b->due) return;
  const uint32_t count = (uint32_t)++b->interrupts_sent;
  b->due = 0;
  (void)!write(b->irq_fd, &count, sizeof count); /* a full pipe: events enough are in it */
}

static void run(board* b) {
  while (!stop) {
    if (lose) lose_link(b);
    lose = 0;
    send_interrupt(b);
    if (serve(b)) continue;
    if (b->clocking)
      run_clock(b);
    else
      nap(NAP_NS);
  }
}

/* ---- setting up */
static void path_of(const board* b, const char* name, char* out, size_t bytes) {
  if ((size_t)snprintf(out, bytes, "%s/%s", b->directory, name) >= bytes) die("the directory's name is too long");
}

static int make_file(const board* b, const char* name, uint64_t bytes) {
  char path[4096];
  path_of(b, name, path, sizeof path);
  (void)unlink(path);
  const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0 || ftruncate(fd, (off_t)bytes)) die(path);
  return fd;
}

static void open_inner(board* b) {
  void* library = dlopen(b->library, RTLD_NOW | RTLD_LOCAL);
  void* entry = library ? dlsym(library, "presil_transport_entry") : NULL;
  char error[512] = "";
  if (!entry) {
    (void)fprintf(stderr, "soft-board: %s is no transport library: %s\n", b->library, dlerror());
    exit(1);
  }
  presil_transport_entry_fn function;
  memcpy(&function, &entry, sizeof function);
  b->ops = function();
  const presil_transport_options o = {.size = sizeof o,
                                      .abi = PRESIL_TRANSPORT_ABI,
                                      .memory_fd = b->memory_fd,
                                      .memory_bytes = b->bytes,
                                      .memory_base = {b->base},
                                      .seed = b->seed};
  b->info.size = sizeof b->info;
  if (b->ops->open(&o, &b->inner, error, sizeof error) || b->ops->info(b->inner, &b->info)) {
    (void)fprintf(stderr, "soft-board: %s does not open: %s\n", b->library, error);
    exit(1);
  }
}

static void write_memory_line(const board* b, FILE* f, uint64_t from, uint64_t to) {
  if (from == to) return;
  (void)fprintf(f, "memory = %s base=0x%llx bytes=0x%llx", b->mailbox_memory ? "mailbox" : "memory",
                (unsigned long long)(b->base + from), (unsigned long long)(to - from));
  (void)fprintf(f, b->mailbox_memory ? "\n" : " offset=0x%llx\n", (unsigned long long)(from + b->shift));
}

static void write_spec(const board* b) {
  char path[4096];
  path_of(b, "board", path, sizeof path);
  FILE* f = fopen(path, "w");
  if (!f) die(path);
  (void)fprintf(f, "# written by soft-board; seed %llu\nchip = %s\nconfig = %s\nclock_mhz = %u\n",
                (unsigned long long)b->seed, b->info.chip, b->info.config, b->mhz);
  (void)fprintf(f, "registers = registers bytes=0x%zx mailbox\n", sizeof(mailbox_file));
  if (b->hole_bytes) {
    write_memory_line(b, f, 0, b->hole_at);
    write_memory_line(b, f, b->hole_at + b->hole_bytes, b->bytes);
  } else {
    write_memory_line(b, f, 0, b->bytes);
  }
  if (b->iommu) (void)fprintf(f, "iommu = mailbox\n");
  (void)fprintf(f, "interrupt = %s\nreset = mailbox\ntimeout_ms = 5000\n", b->interrupts ? "uio:irq" : "none");
  if (fclose(f)) die(path);
}

static void set_up(board* b) {
  char path[4096];
  b->shift = b->iommu ? SHIFT : 0;
  b->memory_fd = make_file(b, "memory", b->bytes + b->shift);
  open_inner(b);
  if (b->iommu) put_behind_iommu(b);
  const int fd = make_file(b, "registers", sizeof(mailbox_file));
  void* box = mmap(NULL, sizeof(mailbox_file), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (box == MAP_FAILED) die("registers");
  b->box = box;
  b->box->version = MAILBOX_VERSION;
  b->box->entries = MAILBOX_ENTRIES;
  b->box->slot_bytes = MAILBOX_SLOT;
  __atomic_store_n(&b->box->magic, MAILBOX_MAGIC, __ATOMIC_RELEASE);
  path_of(b, "irq", path, sizeof path);
  (void)unlink(path);
  if (mkfifo(path, 0600)) die(path);
  b->irq_fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (b->irq_fd < 0) die(path);
  write_spec(b);
}

static void options(board* b, int argc, char** argv) {
  for (int i = 1; i < argc; i++) {
    const char* value = i + 1 < argc ? argv[i + 1] : "";
    char* end = NULL;
    if (*argv[i] != '-') {
      b->directory = argv[i];
      continue;
    }
    i++;
    if (!strcmp(argv[i - 1], "--library"))
      b->library = value;
    else if (!strcmp(argv[i - 1], "--base"))
      b->base = strtoull(value, NULL, 0);
    else if (!strcmp(argv[i - 1], "--bytes"))
      b->bytes = strtoull(value, NULL, 0);
    else if (!strcmp(argv[i - 1], "--seed"))
      b->seed = strtoull(value, NULL, 0);
    else if (!strcmp(argv[i - 1], "--late-us"))
      b->late_us = (unsigned)atoi(value);
    else if (!strcmp(argv[i - 1], "--mhz"))
      b->mhz = (unsigned)atoi(value);
    else if (!strcmp(argv[i - 1], "--memory"))
      b->mailbox_memory = !strcmp(value, "mailbox");
    else if (!strcmp(argv[i - 1], "--interrupt"))
      b->interrupts = strcmp(value, "none") != 0;
    else if (!strcmp(argv[i - 1], "--iommu"))
      b->iommu = strcmp(value, "0") != 0;
    else if (!strcmp(argv[i - 1], "--lose")) {
      b->lose_every = (unsigned)strtoul(value, &end, 0);
      if (*end == ',') b->most_losses = strtoull(end + 1, NULL, 0);
    } else if (!strcmp(argv[i - 1], "--hole")) {
      b->hole_at = strtoull(value, &end, 0);
      b->hole_bytes = *end == ',' ? strtoull(end + 1, NULL, 0) : 0;
    } else {
      b->directory = NULL;
      break;
    }
  }
  if (b->directory && b->library) return;
  (void)fputs(usage, stderr);
  exit(2);
}

int main(int argc, char** argv) {
  static board b = {.base = 0x80000000u,
                    .bytes = 64u << 20,
                    .seed = 1,
                    .interrupts = true,
                    .late_us = 2000,
                    .mhz = 1000,
                    .most_losses = UINT64_MAX};
  options(&b, argc, argv);
  b.random = b.random_losses = b.seed * 2 + 1;
  (void)signal(SIGTERM, on_stop);
  (void)signal(SIGINT, on_stop);
  (void)signal(SIGUSR1, on_lose);
  if (mkdir(b.directory, 0700) && errno != EEXIST) die(b.directory);
  set_up(&b);
  (void)printf("soft-board: PRESIL_TRANSPORT=board:%s/board, seed %llu\nready\n", b.directory,
               (unsigned long long)b.seed);
  (void)fflush(stdout);
  run(&b);
  (void)printf(
      "{\"reads\": %llu, \"writes\": %llu, \"memory_reads\": %llu, \"memory_writes\": %llu, \"swapped\": %llu, "
      "\"overtaken\": %llu, \"interrupts\": %llu, \"late\": %llu, \"resets\": %llu, \"losses\": %llu, "
      "\"counted\": %llu, \"maps\": %llu, \"unmaps\": %llu, \"mapped_pages\": %llu, \"faults\": %llu, "
      "\"first_fault\": %llu}\n",
      (unsigned long long)b.reads, (unsigned long long)b.writes, (unsigned long long)b.memory_reads,
      (unsigned long long)b.memory_writes, (unsigned long long)b.swapped, (unsigned long long)b.overtaken,
      (unsigned long long)b.interrupts_sent, (unsigned long long)b.late, (unsigned long long)b.resets,
      (unsigned long long)b.losses, (unsigned long long)b.counted, (unsigned long long)b.maps,
      (unsigned long long)b.unmaps, (unsigned long long)b.mapped, (unsigned long long)b.faults,
      (unsigned long long)b.first_fault);
  b.ops->close(b.inner);
  return 0;
}
