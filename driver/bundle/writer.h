/* SPDX-License-Identifier: Apache-2.0 */
/*
 * writer.h - the parts of a writer. writer.c: the interface; blocks.c: which contents the file has, or will have;
 * contents.c: memory for
 * them; pieces.c: device memory cut into blocks; output.c: the file and the thread that compresses.
 *
 * Everything but the file's own state (output) is under writer->lock.
 */
#ifndef BUNDLE_WRITER_H
#define BUNDLE_WRITER_H

#include <pthread.h>
#include "format.h"

/* ---- contents */
typedef struct bundle_block bundle_block;
struct bundle_block {
    bundle_block *next; /* of the same slot */
    presil_bundle_id id;
    uint8_t *data; /* while it is held */
    uint64_t uses; /* by groups that are held */
    int32_t level; /* as a job's */
    bool written;
};

typedef struct {
    bundle_block **slots;
    uint64_t slot_count, count;
} bundle_blocks;

bundle_block *bundle_blocks_find(const bundle_blocks *blocks, const presil_bundle_id *id);
bundle_block *bundle_blocks_add(bundle_blocks *blocks, const presil_bundle_id *id); /* NULL: no memory */
void bundle_blocks_remove(bundle_blocks *blocks, bundle_block *block);              /* frees it and its data */
void bundle_blocks_free(bundle_blocks *blocks);

/* Of blocks: data is given back with the size that was asked for, by any thread. NULL: no memory; may be given back. */
uint8_t *bundle_contents_new(uint64_t bytes);
void bundle_contents_free(uint8_t *at, uint64_t bytes);

/* ---- device memory */
/* Sorts and joins the ranges and cuts them into pieces, of which the blocks' hashes are still to be filled in. *out is
 * one allocation, freed with free(). */
int bundle_pieces_make(const presil_bundle_range *ranges, uint64_t count, presil_bundle_memory **out);

/* ---- the file */
typedef struct bundle_job bundle_job;
struct bundle_job { /* a record on its way */
    bundle_job *next;
    uint16_t type;
    int32_t level; /* as in presil_bundle_write_options; 0: the writer's */
    uint8_t hash[16];
    uint64_t bytes;
    uint8_t *data; /* the job's; of a BLOCK, from bundle_contents_new() */
};

typedef struct bundle_output bundle_output;
int bundle_output_check_level(int32_t level);
int bundle_output_open(const char *path, const presil_bundle_write_options *options, bundle_output **out);
/* Takes the job over, also on failure. May wait for the thread behind it, which works on at most 64 MiB. */
int bundle_output_put(bundle_output *output, bundle_job *job);
int bundle_output_drain(bundle_output *output); /* waits until all is in the file */
/* end: the closing record, too. Frees the output, also on failure. */
int bundle_output_close(bundle_output *output, bool end);
uint64_t bundle_output_bytes(const bundle_output *output);
bundle_job *bundle_job_new(uint16_t type, uint8_t *data, uint64_t bytes, const uint8_t hash[16]);
void bundle_job_free(bundle_job *job);

#endif
