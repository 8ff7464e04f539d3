/* SPDX-License-Identifier: Apache-2.0 */
/* transport_iommu.h - what the transport behind an IOMMU (transport_iommu.c) saw, and what it is to refuse. A test and
 * the transport are one process: PRESIL_IO_STATE has the address of the test's. */
#ifndef TRANSPORT_IOMMU_H
#define TRANSPORT_IOMMU_H

#include <stdint.h>

typedef struct {
    unsigned maps, unmaps;
    uint64_t pages;       /* mapped now */
    uint64_t first, last; /* page of the last map(), and the one behind it */
    int refuse_map, refuse_unmap;
    uint64_t second;        /* page where a second region begins, right behind the first; 0: there is one */
    int wrong;              /* mapped twice or over two regions, or unmapped what was not mapped like that */
    unsigned unreached;     /* bytes that the chip wrote, where nothing was mapped */
    int last_unmapped_byte; /* the first byte of a block, while it was still mapped */
} io_state;

#endif
