# SPDX-License-Identifier: Apache-2.0
"""driver/include/presil_transport.h through ctypes: any simulator library, driven below the driver.

    chip = Transport("libpresil_sim_tiny_fast.so", memory_bytes=1 << 20)
    chip.write32(0x30, 1)

Errors of the library are TransportError. One thread at a time, as for C.
"""

import ctypes as c
import os

ABI = 2  # PRESIL_TRANSPORT_ABI
IRQ, DEADLINE, CANCELLED, HUNG = range(4)  # presil_wait_reason
_OPS = (
    "open close info last_error read32 write32 region mem_read mem_write sync_for_device sync_for_host launch "
    "wait cycles reset "
    "trace write_log write_log_fetch bus_fault set_memory_model inject read32_many wait_then write_times "
    "bus_open map unmap timing"
).split()


class _Ops(c.Structure):
    _fields_ = [("size", c.c_uint32), ("abi", c.c_uint32), *((name, c.c_void_p) for name in _OPS)]


class _Options(c.Structure):
    _fields_ = [
        ("size", c.c_uint32),
        ("abi", c.c_uint32),
        ("memory_fd", c.c_int),
        ("reserved0", c.c_uint32),
        ("memory_bytes", c.c_uint64),
        ("memory_base", c.c_uint64),
        ("memory_model", c.c_char_p),
        ("seed", c.c_uint64),
        ("options", c.c_char_p),
        ("log", c.c_void_p),
        ("log_context", c.c_void_p),
    ]


class Info(c.Structure):
    _fields_ = [
        ("size", c.c_uint32),
        ("abi", c.c_uint32),
        ("capabilities", c.c_uint32),
        ("clock_mhz", c.c_uint32),
        ("chip", c.c_char * 32),
        ("config", c.c_char * 32),
        ("build", c.c_char * 32),
        ("text", c.c_char * 128),
        ("rtl", c.c_char * 72),
        ("library", c.c_char * 72),
    ]


class _Region(c.Structure):
    _fields_ = [("base", c.c_uint64), ("bytes", c.c_uint64), ("host", c.c_void_p)]


class _Wait(c.Structure):
    _fields_ = [
        ("size", c.c_uint32),
        ("reason", c.c_uint32),
        ("deadline_cycles", c.c_uint64),
        ("deadline_ns", c.c_uint64),
        ("hang_cycles", c.c_uint64),
        ("cancel", c.c_void_p),
        ("progress", c.c_void_p),
        ("progress_context", c.c_void_p),
        ("cycles", c.c_uint64),
    ]


class _WriteRange(c.Structure):
    _fields_ = [("base", c.c_uint64), ("bytes", c.c_uint64)]


class _BusFault(c.Structure):
    _fields_ = [("valid", c.c_uint32), ("is_write", c.c_uint32), ("address", c.c_uint64), ("cycle", c.c_uint64)]


class WriteTime(c.Structure):
    _fields_ = [
        ("size", c.c_uint32),
        ("first_launch", c.c_uint32),
        ("last_launch", c.c_uint32),
        ("reserved0", c.c_uint32),
        ("first_cycle", c.c_uint64),
        ("last_cycle", c.c_uint64),
    ]


class TransportError(RuntimeError):
    """A negative presil_transport_error; `code` is its number."""

    def __init__(self, code: int, text: str):
        super().__init__(text)
        self.code = code


_ARGUMENTS = {
    "info": (c.POINTER(Info),),
    "read32": (c.c_uint32, c.POINTER(c.c_uint32)),
    "write32": (c.c_uint32, c.c_uint32),
    "region": (c.c_uint32, c.POINTER(_Region)),
    "mem_read": (c.c_uint64, c.c_void_p, c.c_uint64),
    "mem_write": (c.c_uint64, c.c_char_p, c.c_uint64),
    "launch": (c.c_uint64,),
    "wait": (c.POINTER(_Wait),),
    "cycles": (c.POINTER(c.c_uint64),),
    "reset": (),
    "trace": (c.c_char_p, c.c_uint64, c.c_uint64),
    "write_log": (c.c_int,),
    "write_log_fetch": (c.POINTER(c.POINTER(_WriteRange)), c.POINTER(c.c_size_t)),
    "bus_fault": (c.POINTER(_BusFault),),
    "set_memory_model": (c.c_char_p, c.c_uint64),
    "inject": (c.c_char_p,),
    "write_times": (c.c_uint64, c.POINTER(WriteTime)),
}


class Transport:
    """One open transport. memory_bytes, memory_base: its DRAM, multiples of 4096; addresses are the device's."""

    def __init__(self, library, memory_model="default", memory_bytes=64 << 20, memory_base=0, seed=1, options=None):
        entry = c.CDLL(str(library)).presil_transport_entry
        entry.restype = c.POINTER(_Ops)
        self._ops = entry().contents
        self._calls = {
            name: c.CFUNCTYPE(c.c_int, c.c_void_p, *types)(getattr(self._ops, name))
            for name, types in _ARGUMENTS.items()
            if getattr(_Ops, name).offset < self._ops.size and getattr(self._ops, name)
        }
        self._last_error = c.CFUNCTYPE(c.c_char_p, c.c_void_p)(self._ops.last_error)
        self._handle, error = c.c_void_p(), c.create_string_buffer(512)
        if path := os.environ.get("PRESIL_COVERAGE"):  # as the driver has it
            options = ",".join(filter(None, (options, f"coverage={path}")))
        text = options and options.encode()
        model = memory_model.encode()
        o = _Options(c.sizeof(_Options), ABI, -1, 0, memory_bytes, memory_base, model, seed, text, None, None)
        types = (c.POINTER(_Options), c.POINTER(c.c_void_p), c.c_char_p, c.c_size_t)
        code = c.CFUNCTYPE(c.c_int, *types)(self._ops.open)(c.byref(o), c.byref(self._handle), error, 256)
        if code:
            raise TransportError(code, error.value.decode())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self) -> None:
        if self._handle:
            c.CFUNCTYPE(None, c.c_void_p)(self._ops.close)(self._handle)
            self._handle = c.c_void_p()

    def call(self, name: str, *arguments) -> int:
        """Any function of presil_transport_ops after the handle. Its result, which is not negative."""
        code = self._calls[name](self._handle, *arguments)
        if code < 0:
            raise TransportError(code, f"{name}: {self._last_error(self._handle).decode()}")
        return code

    def read32(self, offset: int) -> int:
        value = c.c_uint32()
        self.call("read32", offset, value)
        return value.value

    def write32(self, offset: int, value: int) -> None:
        self.call("write32", offset, value & 0xFFFFFFFF)

    def host(self) -> int:
        """Host address of the DRAM's first byte, 0 where it is not mapped."""
        region = _Region()
        self.call("region", 0, region)
        return region.host or 0

    def memory_read(self, address: int, count: int) -> bytes:
        data = c.create_string_buffer(count)
        self.call("mem_read", address, data, count)
        return data.raw

    def memory_write(self, address: int, data) -> None:
        self.call("mem_write", address, bytes(data), len(data))

    def info(self) -> Info:
        info = Info(size=c.sizeof(Info))
        self.call("info", info)
        return info

    def launch(self, number: int) -> None:
        self.call("launch", number)

    def wait(self, cycles: int, hang_cycles: int = 0, deadline_ns: int = 0, cancel=None) -> tuple[int, int]:
        """(reason, cycles simulated): until the interrupt, `cycles` at most (0: any). cancel: a c_int, looked at."""
        w = _Wait(size=c.sizeof(_Wait), deadline_cycles=cycles, hang_cycles=hang_cycles, deadline_ns=deadline_ns)
        w.cancel = c.addressof(cancel) if cancel is not None else None
        self.call("wait", w)
        return w.reason, w.cycles

    def cycles(self) -> int:
        value = c.c_uint64()
        self.call("cycles", value)
        return value.value

    def reset(self) -> None:
        self.call("reset")

    def set_memory_model(self, model: str, seed: int) -> None:
        self.call("set_memory_model", model.encode(), seed)

    def inject(self, fault: str | None) -> None:
        self.call("inject", fault and fault.encode())

    def write_log(self, on: bool) -> None:
        self.call("write_log", int(on))

    def written(self) -> list[tuple[int, int]]:
        """(address, bytes) of what the chip wrote since the log was switched on or last fetched."""
        ranges, count = c.POINTER(_WriteRange)(), c.c_size_t()
        self.call("write_log_fetch", ranges, count)
        return [(ranges[i].base, ranges[i].bytes) for i in range(count.value)]

    def write_time(self, address: int) -> WriteTime:
        """When the chip wrote the byte: of those that written() gave."""
        time = WriteTime(size=c.sizeof(WriteTime))
        self.call("write_times", address, time)
        return time
