/* SPDX-License-Identifier: Apache-2.0 */
/* peer.h - a copy between devices, as its halves see it. */
#ifndef PRESIL_CORE_PEER_H
#define PRESIL_CORE_PEER_H

#include "queue.h"

void presil_peer_drop(peer_copy *peer);
/* Runner: before the half of a block is copied, the failure of the other; after it, its own status. */
int presil_peer_before(peer_copy *peer);
void presil_peer_after(peer_copy *peer, int status);

#endif
