# SPDX-License-Identifier: Apache-2.0
"""Bytes of an address space too large for a bytearray: pages come into being when they are written."""

PAGE = 4096


class Sparse:
    """Reads `fill` where nothing was written. Slices have no step and are read only; single bytes are written."""

    def __init__(self, length, fill=0):
        self.length, self.fill, self.pages = length, fill, {}

    def __len__(self):
        return self.length

    def like(self, fill):
        return Sparse(self.length, fill)

    def page(self, number):
        if number not in self.pages:
            self.pages[number] = bytearray([self.fill]) * PAGE
        return self.pages[number]

    def write(self, at, data):
        for k in range(at // PAGE, (at + len(data) - 1) // PAGE + 1):
            low, high = max(at, k * PAGE), min(at + len(data), (k + 1) * PAGE)
            self.page(k)[low - k * PAGE : high - k * PAGE] = data[low - at : high - at]

    def __getitem__(self, key):
        if isinstance(key, slice):
            out, at, end = bytearray(), key.start or 0, self.length if key.stop is None else key.stop
            while at < end:
                part = min(end, (at // PAGE + 1) * PAGE)
                page = self.pages.get(at // PAGE)
                out += page[at % PAGE : at % PAGE + part - at] if page else bytes([self.fill]) * (part - at)
                at = part
            return out
        page = self.pages.get(key // PAGE)
        return page[key % PAGE] if page else self.fill

    def __setitem__(self, key, value):
        self.page(key // PAGE)[key % PAGE] = value
