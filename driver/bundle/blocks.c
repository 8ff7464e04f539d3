/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>
#include "writer.h"

static uint64_t slot_of(const bundle_blocks *blocks, const presil_bundle_id *id) {
    uint64_t key;
    memcpy(&key, id->hash, sizeof key);
    return key & (blocks->slot_count - 1);
}

bundle_block *bundle_blocks_find(const bundle_blocks *blocks, const presil_bundle_id *id) {
    if (!blocks->slot_count) return NULL;
    bundle_block *at = blocks->slots[slot_of(blocks, id)];
    while (at && (at->id.bytes != id->bytes || memcmp(at->id.hash, id->hash, sizeof id->hash) != 0)) at = at->next;
    return at;
}

static bool grow(bundle_blocks *blocks) {
    const uint64_t count = blocks->slot_count ? 2 * blocks->slot_count : 256;
    bundle_blocks grown = {calloc(count, sizeof *grown.slots), count, blocks->count};
    if (!grown.slots) return false;
    for (uint64_t i = 0; i < blocks->slot_count; i++) {
        for (bundle_block *at = blocks->slots[i], *next; at; at = next) {
            bundle_block **slot = &grown.slots[slot_of(&grown, &at->id)];
            next = at->next;
            at->next = *slot;
            *slot = at;
        }
    }
    free(blocks->slots);
    *blocks = grown;
    return true;
}

bundle_block *bundle_blocks_add(bundle_blocks *blocks, const presil_bundle_id *id) {
    if (blocks->count >= blocks->slot_count && !grow(blocks)) return NULL;
    bundle_block *made = calloc(1, sizeof *made);
    if (!made) return NULL;
    bundle_block **slot = &blocks->slots[slot_of(blocks, id)];
    made->id = *id;
    made->next = *slot;
    *slot = made;
    blocks->count++;
    return made;
}

void bundle_blocks_remove(bundle_blocks *blocks, bundle_block *block) {
    bundle_block **at = &blocks->slots[slot_of(blocks, &block->id)];
    while (*at != block) at = &(*at)->next;
    *at = block->next;
    blocks->count--;
    bundle_contents_free(block->data, block->id.bytes);
    free(block);
}

void bundle_blocks_free(bundle_blocks *blocks) {
    for (uint64_t i = 0; i < blocks->slot_count; i++) {
        for (bundle_block *at = blocks->slots[i], *next; at; at = next) {
            next = at->next;
            bundle_contents_free(at->data, at->id.bytes);
            free(at);
        }
    }
    free(blocks->slots);
    *blocks = (bundle_blocks){0};
}
