/* SPDX-License-Identifier: Apache-2.0 */
/*
 * presil_image.h - command lists as bytes, for programs that are compiled in one process and run in another
 * (docs/aot.md). The rules of presil.h hold.
 */
#ifndef PRESIL_IMAGE_H
#define PRESIL_IMAGE_H

#include "presil.h"

#ifdef __cplusplus
extern "C" {
#endif

/* As presil_weights_create, but packed to [place, place + bytes) of the caller's device memory, which the caller keeps.
 * place: 4 KiB-aligned. ENOMEM if the image is larger. */
PRESIL_CHECKED int presil_weights_create_at(presil_device *device, const presil_weights_desc *desc, presil_daddr place,
                                            uint64_t bytes, presil_weights **out);

/* A list as bytes, to be loaded by another process on the same kind of chip. Everything that it touches must lie in one
 * block from base on, weights included. to NULL: *size = bytes needed; else *size is the room at `to` and becomes what
 * was written. EUNSUPPORTED if the chip has no such format. */
PRESIL_CHECKED int presil_list_save(const presil_list *list, presil_daddr base, void *to, uint64_t *size);

/* base: 4 KiB-aligned. Damaged bytes, commands that reach outside of [base, base + bytes): EINVAL; commands for another
 * chip: ENODEV. */
PRESIL_CHECKED int presil_list_load(presil_device *device, const void *from, uint64_t size, presil_daddr base,
                                    uint64_t bytes, presil_list **out);

#ifdef __cplusplus
}
#endif
#endif
