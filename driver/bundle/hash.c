/* SPDX-License-Identifier: Apache-2.0 */
#include "format.h"

#define XXH_INLINE_ALL
#include <string.h>
#include <xxhash.h>

void bundle_hash128(const void *data, size_t bytes, uint8_t out[16]) {
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits(data, bytes));
    memcpy(out, canonical.digest, 16);
}

uint64_t bundle_hash64(const void *data, size_t bytes) { return XXH3_64bits(data, bytes); }
uint32_t bundle_check(const void *data, size_t bytes) { return (uint32_t)XXH3_64bits(data, bytes); }

bundle_hasher *bundle_hasher_new(void) {
    XXH3_state_t *state = XXH3_createState();
    if (state) (void)XXH3_128bits_reset(state);
    return (bundle_hasher *)state;
}

void bundle_hasher_add(bundle_hasher *hasher, const void *data, size_t bytes) {
    (void)XXH3_128bits_update((XXH3_state_t *)hasher, data, bytes);
}

void bundle_hasher_get(const bundle_hasher *hasher, uint8_t out[16]) {
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest((const XXH3_state_t *)hasher));
    memcpy(out, canonical.digest, 16);
}

void bundle_hasher_free(bundle_hasher *hasher) { (void)XXH3_freeState((XXH3_state_t *)hasher); }
