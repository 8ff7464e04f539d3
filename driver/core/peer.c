/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies between devices: block by block, the source's queue reads into one of two buffers, the target's writes it.
 * Each half waits for what it needs of the other queue, which was enqueued before it: no circle. A half that fails, or
 * is cancelled, fails all that follow, so nothing is written that was not read.
 */
#include "peer.h"
#include "copy.h"
#include "fail.h"
#include "life.h"
#include "queue.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

struct peer_copy {
    atomic_int references; /* presil_copy_peer and every queued half */
    pthread_mutex_t lock;  /* two runners may fail at once */
    int status;            /* of the first half that failed; then `text` is its error */
    char text[ERROR_TEXT];
    uint64_t block;
    uint8_t buffers[]; /* two of `block` bytes */
};

void presil_peer_drop(peer_copy *peer) {
    if (!peer || atomic_fetch_sub(&peer->references, 1) != 1) return;
    (void)pthread_mutex_destroy(&peer->lock);
    free(peer);
}

int presil_peer_before(peer_copy *peer) {
    (void)pthread_mutex_lock(&peer->lock);
    const int status = peer->status ? presil_fail(peer->status, "%s", peer->text) : PRESIL_OK;
    (void)pthread_mutex_unlock(&peer->lock);
    return status;
}

void presil_peer_after(peer_copy *peer, int status) {
    if (!status) return;
    (void)pthread_mutex_lock(&peer->lock);
    if (!peer->status) (void)snprintf(peer->text, sizeof peer->text, "%s", presil_error_text());
    if (!peer->status) peer->status = status;
    (void)pthread_mutex_unlock(&peer->lock);
}

typedef struct {
    presil_device *device;
    presil_stream *stream;
    uint64_t last[2]; /* positions in the queue of the halves that used each buffer last; 0: none */
} side;

static int push_wait(const side *here, const side *other, unsigned buffer) {
    if (!other->last[buffer]) return PRESIL_OK;
    presil_device_hold(other->device);
    work_item item = {.kind = ITEM_WAIT, .wait_device = other->device, .wait_seq = other->last[buffer]};
    const int status = presil_queue_push(here->device, here->stream, &item, false);
    if (status) presil_device_drop(other->device);
    return status;
}

static int push_half(side *here, const side *other, unsigned buffer, peer_copy *peer, copy_item copy) {
    int status = push_wait(here, other, buffer);
    if (status) return status;
    copy.peer = peer;
    work_item item = {.kind = ITEM_COPY, .copy = copy};
    (void)atomic_fetch_add(&peer->references, 1);
    status = presil_queue_push(here->device, here->stream, &item, true);
    if (status)
        presil_peer_drop(peer);
    else
        here->last[buffer] = item.seq;
    return status;
}

static int push_blocks(side *target, side *source, presil_daddr to, presil_daddr from, uint64_t bytes,
                       peer_copy *peer) {
    unsigned buffer = 0;
    int status = PRESIL_OK;
    for (uint64_t at = 0, n; at < bytes && !status; at += n, buffer ^= 1) {
        n = bytes - at < peer->block ? bytes - at : peer->block;
        uint8_t *host = peer->buffers + buffer * peer->block;
        status = push_half(source, target, buffer, peer,
                           (copy_item){.host_to = host, .from = {from.value + at}, .bytes = n});
        if (!status)
            status = push_half(target, source, buffer, peer,
                               (copy_item){.to = {to.value + at}, .host_from = host, .bytes = n});
    }
    return status;
}

int presil_copy_peer(presil_device *to_device, presil_daddr to, presil_device *from_device, presil_daddr from,
                     presil_stream *stream, uint64_t bytes) {
    if (to_device == from_device) return presil_copy_on_device(to_device, stream, to, from, bytes, PRESIL_COPY_DIRECT);
    side target = {.device = to_device, .stream = stream && stream->device == to_device ? stream : NULL},
         source = {.device = from_device, .stream = stream && stream->device == from_device ? stream : NULL};
    if (stream && !target.stream && !source.stream)
        return presil_fail(PRESIL_EINVAL, "presil_copy_peer: the stream belongs to neither device");
    int status = presil_copy_begin(to_device, &target.stream, PRESIL_COPY_DIRECT);
    if (!status) status = presil_copy_begin(from_device, &source.stream, PRESIL_COPY_DIRECT);
    if (!status) status = presil_copy_check_range(to_device, to, bytes);
    if (!status) status = presil_copy_check_range(from_device, from, bytes);
    if (status || bytes == 0) return status;
    const uint64_t block = bytes < COPY_BLOCK_BYTES ? bytes : COPY_BLOCK_BYTES;
    peer_copy *peer = malloc(sizeof *peer + 2 * block);
    if (!peer)
        return presil_fail(PRESIL_EHOSTMEM, "presil_copy_peer: no host memory for two buffers of %llu bytes",
                           (unsigned long long)block);
    atomic_init(&peer->references, 1);
    (void)pthread_mutex_init(&peer->lock, NULL);
    peer->status = PRESIL_OK;
    peer->block = block;
    status = push_blocks(&target, &source, to, from, bytes, peer);
    if (status) presil_peer_after(peer, status);
    presil_peer_drop(peer);
    return status;
}
