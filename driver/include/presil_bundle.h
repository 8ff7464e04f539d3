/* SPDX-License-Identifier: Apache-2.0 */
/*
 * presil_bundle.h - bundles: files (.presil) of launches with everything that they read, and what they should give,
 * independent of PyTorch, of the chip's driver and of this machine. docs/bundle.md has every byte of the format.
 *
 * libpresil_bundle needs libc alone: neither libpresil nor a device. The rules of presil.h hold: functions return
 * PRESIL_OK or a negative presil_status, outputs are untouched on failure, and presil_bundle_error_text() of the
 * calling thread says what was expected, what was found and what to do. EIO: the file can't be read or written (errno's
 * text is in the message). EINVAL: a bad argument, or a file that is damaged or no bundle. EUNSUPPORTED: a bundle of a
 * newer major version. EHOSTMEM: no memory, or beyond a limit of the options. Structs start with `size` =
 * sizeof(struct): a missing tail counts as zero.
 *
 * Addresses are bytes of the device's memory. Times are in cycles of the chip's clock, or ns where the name says so.
 * Texts are UTF-8, ended by 0; NULL: not known (not written; read back as ""). Tags, numbers and names that a newer
 * minor version adds are skipped by an older reader.
 */
#ifndef PRESIL_BUNDLE_H
#define PRESIL_BUNDLE_H

#include "presil.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PRESIL_BUNDLE_MAJOR 1u
#define PRESIL_BUNDLE_MINOR 0u
#define PRESIL_BUNDLE_PIECE 65536u /* memory is cut at multiples of this device address */

PRESIL_API const char *presil_bundle_error_text(void); /* of the calling thread's last failure; never NULL */

/* ---- what records hold ----------------------------------------------------------------------- */
enum presil_bundle_type {
    PRESIL_BUNDLE_CHIP = 1,       /* a device: chip, configuration, memory; names of what its results count */
    PRESIL_BUNDLE_BLOCK = 2,      /* bytes, stored once */
    PRESIL_BUNDLE_LAUNCH = 3,     /* commands, what they read, what they should write, where they come from */
    PRESIL_BUNDLE_RESULT = 4,     /* what an executor made of a launch */
    PRESIL_BUNDLE_ATTACHMENT = 5, /* a file that travels along: a waveform, a log */
    PRESIL_BUNDLE_LABELS = 6,     /* key and value, for the whole file */
    PRESIL_BUNDLE_END = 7,        /* the file is whole */
};

/* Names a BLOCK by its contents: XXH3-128 in canonical (big-endian) order, and how many bytes. */
typedef struct {
    uint8_t hash[16];
    uint64_t bytes;
} presil_bundle_id;

typedef struct {
    presil_daddr base;
    uint64_t bytes;
} presil_bundle_range;

/* The contents of `ranges` ranges that follow each other in presil_bundle_memory, all within one window of
 * PRESIL_BUNDLE_PIECE bytes of address: one block has their bytes, joined. */
typedef struct {
    presil_bundle_id block;
    uint64_t ranges;
} presil_bundle_piece;

/* Contents of device memory. Ranges are sorted and disjoint; none is empty or crosses a multiple of
 * PRESIL_BUNDLE_PIECE. The pieces' ranges add up to range_count, and each piece's bytes to its block's. */
typedef struct {
    const presil_bundle_range *ranges;
    const presil_bundle_piece *pieces;
    uint64_t range_count, piece_count, bytes;
} presil_bundle_memory;

typedef struct {
    const char *name, *unit; /* such as "read_beats", "beats" */
} presil_bundle_counter;

typedef struct {
    const char *key, *value; /* key: not empty */
} presil_bundle_pair;

/* CHIP. Launches and results name theirs by its number among the CHIP records of the file: 0 for the first. */
typedef struct {
    uint32_t size, abi_chip, abi_transport, capabilities; /* presil_transport_capability */
    const char *chip, *config, *build;                    /* as presil_device_info */
    const char *transport;                                /* as chosen from presil_device_options */
    const char *simulator;                                /* and its version, for people */
    const char *rtl_hash, *library_hash;                  /* of the sources; of the library's file. Compared as texts */
    const char *memory_model;
    const char *presil_version, *torch_version;
    uint64_t config_hash, clock_mhz; /* 0: the chip tells none */
    uint64_t memory_bytes, seed, hang_cycles;
    presil_daddr memory_base;
    const char *const *engines;            /* engine_count names: rows of presil_bundle_result.stalls */
    const char *const *causes;             /* cause_count names: columns */
    const presil_bundle_counter *counters; /* counter_count: presil_bundle_result.counters */
    uint32_t engine_count, cause_count, counter_count, reserved0;
} presil_bundle_chip;

/* A tensor of a launch: turns an address into a coordinate without the chip (presil_bundle_coordinate). */
typedef struct {
    const char *name;  /* "input", "weight", "output" */
    const char *dtype; /* as PyTorch prints it, without "torch.": "bfloat16" */
    presil_daddr data; /* of element 0, 0, ... */
    uint64_t element_bytes;
    const int64_t *shape, *stride; /* ndim each; strides in elements */
    uint32_t ndim;
    uint16_t written;      /* 1 if the launch writes it */
    uint16_t element_bits; /* 4: two elements in a byte, the first below, and element_bytes is 0; else 0 */
} presil_bundle_tensor;

/* What was asked of the chip, as presil_op.h says it, in names: one operator. Bits: of an fp32 (of a double in
 * presil_bundle_attribute.reals), so that infinities and NaNs are what they were. */
typedef struct {
    const char *name;              /* "input", "weight", "output" */
    const char *dtype;             /* as of presil_bundle_tensor; int4 too */
    presil_daddr data;             /* of element 0, 0, ...; packed: of the packed bytes */
    const int64_t *shape, *stride; /* ndim each; strides in elements, of a packed one: anything */
    uint32_t ndim, packed;         /* packed 1: by the chip, in an order of its own */
} presil_bundle_operand;

typedef struct {
    const char *name;
    const int64_t *integers; /* integer_count */
    const uint64_t *reals;   /* real_count: bits */
    const char *text;
    uint32_t integer_count, real_count;
} presil_bundle_attribute;

typedef struct {
    const char *kind; /* "scale", "add", "clamp", "quantize" */
    int32_t input;    /* number among the inputs; -1: none */
    uint32_t scale_bits, low_bits, high_bits;
    int32_t zero_point, int_low, int_high;
} presil_bundle_step;

typedef struct {
    uint32_t present;         /* 0: not known; the rest is 0 */
    uint32_t compute, tiling; /* presil_op */
    uint32_t reserved0;
    const char *kind; /* presil_op_name() */
    const presil_bundle_operand *inputs, *outputs;
    const presil_bundle_attribute *attributes;
    const presil_bundle_step *steps;
    uint32_t input_count, output_count, attribute_count, step_count;
    const void *bias, *scale; /* of packed weights, one for each output channel, 4 bytes each: fp32 (bias of int8
                                 products: int32); NULL: none */
    uint64_t bias_bytes, scale_bytes;
} presil_bundle_asked;

/* LAUNCH. */
typedef struct {
    uint32_t size, mode;       /* presil_mode it was run in */
    uint64_t chip;             /* number of its CHIP record */
    uint64_t launch;           /* number in its device; unique together with `chip` */
    const char *label;         /* as in its report */
    presil_bundle_id commands; /* the chip's own image (presil_chip_ops.save) with base =
                                  presil_bundle_chip.memory_base; bytes 0: the chip has no such format */
    uint64_t signature, macs, passes, peak_macs_per_cycle, descriptors, segments, estimate; /* presil_plan_info */
    uint64_t origin, tag;                                                                   /* of its report */
    const presil_bundle_memory *reads;    /* as they were before the launch; NULL: none */
    const presil_bundle_memory *expected; /* what the executor without a clock wrote; NULL: not known */
    const presil_bundle_pair *labels;     /* pair_count: "module", "file", "operator", ... */
    const presil_bundle_tensor *tensors;
    uint32_t label_count, tensor_count;
    presil_daddr scratch; /* memory that it needs only while it runs: it is in none of the lists */
    uint64_t scratch_bytes;
    presil_bundle_asked asked;
} presil_bundle_launch;

/* The first byte that is not what it should be. */
typedef struct {
    uint32_t present; /* 0: no difference, or none was looked for; the rest is 0 */
    uint8_t expected, found;
    uint16_t reserved0;
    presil_daddr address;
    uint64_t bytes;   /* how many bytes differ in all */
    uint64_t cycle;   /* since the doorbell, when it was written; UINT64_MAX: not known */
    const char *text; /* in the chip's words: tensor coordinate, tile, command */
} presil_bundle_difference;

/* RESULT. Follows its LAUNCH; several may (of the chip, of a model, of a replay). */
typedef struct {
    uint32_t size;
    int32_t status;   /* presil_status */
    int32_t verified; /* 1 equal, 0 differs, -1 not compared */
    uint32_t reserved0;
    uint64_t chip, launch; /* as in its LAUNCH */
    const char *executor;  /* "rtl", "model", or another's name */
    const char *error;     /* status != 0: text */
    uint64_t cycles;       /* doorbell to idle; 0 without a clock */
    uint64_t fill, drain;  /* cycles */
    uint64_t sim_ns, twin_ns, host_ns;
    const uint64_t *stalls;   /* stall_count = engine_count * cause_count of its chip, or 0: cycles, engine by engine */
    const uint64_t *counters; /* counter_count of its chip, or 0 */
    uint32_t stall_count, counter_count;
    const presil_bundle_memory *writes; /* what memory held afterwards, where it wrote; NULL: not kept */
    presil_bundle_difference difference;
    const presil_bundle_range *stray, *missing; /* written, but not in `expected`; and the reverse. Sorted, disjoint */
    uint64_t stray_count, missing_count;
} presil_bundle_result;

/* ATTACHMENT. */
typedef struct {
    uint32_t size;
    uint32_t has_launch; /* 1: of `chip`, `launch`; 0: of the whole file */
    uint64_t chip, launch;
    const char *name;       /* a file's name: 1 to 255 bytes, no '/', no control character, does not begin with '.' */
    const char *media_type; /* "text/plain", ... */
    const void *data;
    uint64_t bytes;
} presil_bundle_attachment;

/* ---- writing --------------------------------------------------------------------------------- */
typedef struct presil_bundle_writer presil_bundle_writer;
typedef struct presil_bundle_group presil_bundle_group; /* the records of one launch on their way to the file */

/* Zero-initialised but for size: everything is written as it comes, which leaves a readable file at any moment that the
 * process may be killed. */
typedef struct {
    uint32_t size;
    uint32_t hold;       /* 1: a group's records stay in host memory until it is committed; abandoning drops them */
    uint32_t ring;       /* n > 0: as hold, and of the committed groups the last n stay in memory, until
                            presil_bundle_flush() or presil_bundle_close() writes them; older ones are dropped */
    int32_t level;       /* of zstd: 1 to 19; 0, the default: 1, of contents Huffman codes alone; -1: none */
    uint32_t overwrite;  /* 1: a file that is there is replaced; 0: it is refused */
    uint32_t foreground; /* 1: compress and write in the calling thread; 0: in a thread of the writer's own */
    uint64_t hold_bytes; /* most host memory for held contents: beyond it the oldest committed groups are dropped, and a
                            put that still does not fit is EHOSTMEM. 0: 4 GiB */
} presil_bundle_write_options;

/* How to read device memory: bytes from `host` + (address - base), or through read() where host is NULL, which returns
 * 0 or a negative presil_status. */
typedef struct {
    const void *host;
    presil_daddr base;
    int (*read)(void *context, presil_daddr address, void *to, uint64_t bytes);
    void *context;
} presil_bundle_source;

/* A writer may be used by several threads at once, a group by one at a time. A failure of the file (EIO; a full disk)
 * is every later call's too; what was written before it stays readable. options NULL: defaults. */
PRESIL_CHECKED int presil_bundle_create(const char *path, const presil_bundle_write_options *options,
                                        presil_bundle_writer **out);
/* Writes what is held, and the record that says that the file is whole; frees the writer and groups that were neither
 * committed nor abandoned (which count as abandoned), also on failure. NULL is allowed. */
PRESIL_CHECKED int presil_bundle_close(presil_bundle_writer *writer);
/* As a process that ends without close: the file stays torn. */
PRESIL_API void presil_bundle_abort(presil_bundle_writer *writer);
/* Committed groups that are held are written, and the file is brought to the system (not synchronised to the disk). */
PRESIL_CHECKED int presil_bundle_flush(presil_bundle_writer *writer);
/* Bytes in the file so far, of contents before compression and deduplication; either may be NULL. */
PRESIL_API void presil_bundle_written(presil_bundle_writer *writer, uint64_t *file_bytes, uint64_t *content_bytes);

/* What they are given is copied. Written at once, never held. number: NULL, or receives the chip's. */
PRESIL_CHECKED int presil_bundle_put_chip(presil_bundle_writer *writer, const presil_bundle_chip *chip,
                                          uint64_t *number);
PRESIL_CHECKED int presil_bundle_put_labels(presil_bundle_writer *writer, const presil_bundle_pair *labels,
                                            uint32_t count);

PRESIL_CHECKED int presil_bundle_begin(presil_bundle_writer *writer, presil_bundle_group **out);
/* Both free the group and its memories. Abandoning takes back nothing that was written already (neither hold nor
 * ring). */
PRESIL_CHECKED int presil_bundle_commit(presil_bundle_group *group);
PRESIL_API void presil_bundle_abandon(presil_bundle_group *group);

/* As presil_bundle_write_options.level, of the contents that are put from now on; 0: the writer's. */
PRESIL_CHECKED int presil_bundle_set_level(presil_bundle_group *group, int32_t level);
/* Contents that the writer has already are not stored again. */
PRESIL_CHECKED int presil_bundle_put_block(presil_bundle_group *group, const void *data, uint64_t bytes,
                                           presil_bundle_id *out);
/* Reads and stores the ranges: any order, they may overlap or touch. *out is the group's, until it is committed or
 * abandoned. */
PRESIL_CHECKED int presil_bundle_put_memory(presil_bundle_group *group, const presil_bundle_source *source,
                                            const presil_bundle_range *ranges, uint64_t count,
                                            const presil_bundle_memory **out);
/* Blocks that they name must have been put in this group (or read from the same file, for a tool that copies). */
PRESIL_CHECKED int presil_bundle_put_launch(presil_bundle_group *group, const presil_bundle_launch *launch);
PRESIL_CHECKED int presil_bundle_put_result(presil_bundle_group *group, const presil_bundle_result *result);
PRESIL_CHECKED int presil_bundle_put_attachment(presil_bundle_group *group, const presil_bundle_attachment *attachment);

/* ---- reading --------------------------------------------------------------------------------- */
typedef struct presil_bundle_reader presil_bundle_reader;

/* Limits of what a file may ask for. */
typedef struct {
    uint32_t size;
    uint32_t verify;       /* 1: opening also reads and checks every record's contents (a damaged one is the tear) */
    uint64_t record_bytes; /* most raw bytes of a record; 0: 256 MiB */
    uint64_t total_bytes;  /* most raw bytes of all records; 0: 1 TiB */
    uint64_t records;      /* most records; 0: 2^28 */
} presil_bundle_read_options;

typedef struct {
    uint32_t size, major, minor;
    uint32_t torn;                   /* 1: no END, or something behind the last good record; tear_text says what */
    uint8_t id[16];                  /* random, of the file */
    uint64_t file_bytes, good_bytes; /* good_bytes: up to the tear */
    uint64_t records, chips, launches, results, attachments, blocks, unknown;
    uint64_t raw_bytes, stored_bytes; /* of all records' contents, before and after compression */
    char tear_text[160];
} presil_bundle_summary;

typedef struct {
    uint32_t size;
    uint16_t type, flags; /* type: presil_bundle_type, or one that this version does not know */
    uint64_t number;      /* 0 for the first record of the file */
    uint64_t offset;      /* of the record in the file */
    uint64_t raw_bytes, stored_bytes;
    uint8_t hash[16]; /* XXH3-128 of the raw bytes */
} presil_bundle_record;

/* Builds an index from the records' headers: one pass, 64 bytes of memory a record. A torn file is opened up to the
 * tear. A reader may be used by one thread at a time. options NULL: defaults. */
PRESIL_CHECKED int presil_bundle_open(const char *path, const presil_bundle_read_options *options,
                                      presil_bundle_reader **out);
PRESIL_API void presil_bundle_reader_close(presil_bundle_reader *reader); /* NULL is allowed */
PRESIL_CHECKED int presil_bundle_get_summary(presil_bundle_reader *reader, presil_bundle_summary *out);

/* Numbers count from 0 among the records of the type, in the order of the file. What they return is freed with
 * presil_bundle_free(), and does not need the reader any more. */
PRESIL_CHECKED int presil_bundle_get_chip(presil_bundle_reader *reader, uint64_t number,
                                          const presil_bundle_chip **out);
PRESIL_CHECKED int presil_bundle_get_launch(presil_bundle_reader *reader, uint64_t number,
                                            const presil_bundle_launch **out);
PRESIL_CHECKED int presil_bundle_get_result(presil_bundle_reader *reader, uint64_t number,
                                            const presil_bundle_result **out);
PRESIL_CHECKED int presil_bundle_get_attachment(presil_bundle_reader *reader, uint64_t number,
                                                const presil_bundle_attachment **out);
/* Pairs of all LABELS records; a key that comes again replaces the one before. */
PRESIL_CHECKED int presil_bundle_get_labels(presil_bundle_reader *reader, const presil_bundle_pair **out,
                                            uint32_t *count);
PRESIL_API void presil_bundle_free(const void *got); /* NULL is allowed */

/* Number of the LAUNCH record of a chip's launch; EINVAL if there is none. */
PRESIL_CHECKED int presil_bundle_find_launch(presil_bundle_reader *reader, uint64_t chip, uint64_t launch,
                                             uint64_t *number);
/* Number of the next RESULT record of a LAUNCH record, from RESULT record `from` on; UINT64_MAX if there is none. */
PRESIL_CHECKED int presil_bundle_next_result(presil_bundle_reader *reader, uint64_t launch_number, uint64_t from,
                                             uint64_t *number);

/* Contents of a block: id->bytes to `to`, checked against its hash. `to` NULL: only whether it is there, so that nobody
 * asks for memory by a length that no block has. */
PRESIL_CHECKED int presil_bundle_get_block(presil_bundle_reader *reader, const presil_bundle_id *id, void *to);
/* Calls write() for every range of `memory`, in order of address, with its contents: to put them into a device, or to
 * compare. It returns 0, or a presil_status that ends the walk and is returned. */
PRESIL_CHECKED int presil_bundle_get_memory(presil_bundle_reader *reader, const presil_bundle_memory *memory,
                                            int (*write)(void *context, presil_daddr address, const void *bytes,
                                                         uint64_t count),
                                            void *context);

/* "output [0, 3, 1, 2]" for a byte of a launch's tensor, those that it writes first; "" if it is in none. */
PRESIL_API void presil_bundle_coordinate(const presil_bundle_launch *launch, presil_daddr address, char *text,
                                         size_t bytes);

/* ---- records as they are: for tools that show or copy them ------------------------------------ */
PRESIL_CHECKED int presil_bundle_get_record(presil_bundle_reader *reader, uint64_t number, presil_bundle_record *out);
/* The raw bytes, checked; *out is freed with presil_bundle_free(). */
PRESIL_CHECKED int presil_bundle_get_raw(presil_bundle_reader *reader, uint64_t number, const void **out,
                                         uint64_t *bytes);

#ifdef __cplusplus
}
#endif
#endif
