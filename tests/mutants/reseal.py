# SPDX-License-Identifier: Apache-2.0
"""A record of a bundle with other contents, under right hashes (docs/bundle.md)."""

import xxhash

LAUNCH_RECORD = 3


def resealed(record: bytes, contents: bytes) -> bytes:
    """The record that begins `record`, with these contents instead, uncompressed."""
    size = len(contents).to_bytes(8, "little")
    head = record[:6] + bytes(2) + record[8:16] + size + size + xxhash.xxh3_128_digest(contents)
    head += xxhash.xxh3_64_intdigest(contents).to_bytes(8, "little") + bytes(4)
    head += (xxhash.xxh3_64_intdigest(head) & 0xFFFFFFFF).to_bytes(4, "little")
    return head + contents + bytes(-len(contents) % 8)
