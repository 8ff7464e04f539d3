# SPDX-License-Identifier: Apache-2.0
"""The module presil_ports around a chip: the ports of presil_top outside (docs/rtl.md), those of its map inside."""

import math

AXIL = """\
  input  logic [31:0] s_axil_awaddr,
  input  logic        s_axil_awvalid,
  output logic        s_axil_awready,
  input  logic [31:0] s_axil_wdata,
  input  logic [ 3:0] s_axil_wstrb,
  input  logic        s_axil_wvalid,
  output logic        s_axil_wready,
  output logic [ 1:0] s_axil_bresp,
  output logic        s_axil_bvalid,
  input  logic        s_axil_bready,
  input  logic [31:0] s_axil_araddr,
  input  logic        s_axil_arvalid,
  output logic        s_axil_arready,
  output logic [31:0] s_axil_rdata,
  output logic [ 1:0] s_axil_rresp,
  output logic        s_axil_rvalid,
  input  logic        s_axil_rready,
"""
FRONT = (
    "awaddr awvalid awready wdata wstrb wvalid wready bresp bvalid bready "
    "araddr arvalid arready rdata rresp rvalid rready"
)
REQUEST = ("addr", "len", "size", "burst")
# A memory port: wire -> (width by name, driven by the memory)
MEMORY = {
    "arid": "ID", "araddr": "ADDR", "arlen": "8", "arsize": "3", "arburst": "2", "arvalid": "1", "arready": "in",
    "rid": "in ID", "rdata": "in DATA", "rresp": "in 2", "rlast": "in", "rvalid": "in", "rready": "1",
    "awid": "ID", "awaddr": "ADDR", "awlen": "8", "awsize": "3", "awburst": "2", "awvalid": "1", "awready": "in",
    "wdata": "DATA", "wstrb": "STRB", "wlast": "1", "wvalid": "1", "wready": "in",
    "bid": "in ID", "bresp": "in 2", "bvalid": "in", "bready": "1",
}  # fmt: skip


class Wrapper:
    def __init__(self, top, parameters, ports, port_map):
        self.top, self.parameters, self.ports, self.map = top, parameters, ports, port_map
        self.lines, self.connections = [], {}
        self.common = math.lcm(*(c["divide"] for c in port_map.clocks.values()))

    # ---- pieces

    def add(self, text=""):
        self.lines += ["  " + line if line else "" for line in text.split("\n")]

    def wire(self, port):
        """The net behind an output of the chip."""
        self.connections[port] = f"c_{port}"
        return f"c_{port}"

    def edge(self, clock):
        divide = self.map.clocks[clock]["divide"]
        return "1'b1" if divide == 1 else f"(phase % {divide} == 0)"

    def memory_shape(self, bus):
        data = bus.width("rdata" if bus.has("rdata") else "wdata")
        widths = {end: max([bus.width(w) for w in wires if bus.has(w)], default=1)
                  for end, wires in (("id", ("arid", "awid")), ("addr", ("araddr", "awaddr")))}  # fmt: skip
        return data, widths["id"], widths["addr"]

    # ---- the whole

    def text(self):
        shapes = [self.memory_shape(bus) for bus in self.map.memory]
        outer = [i for i, bus in enumerate(self.map.memory) if not bus.settings["sram"]]
        data, identity, address = (max([shapes[i][k] for i in outer], default=d) for k, d in enumerate((64, 1, 40)))
        selects = (len(outer) - 1).bit_length() if outer else 0
        self.shape = data, identity + selects, address
        if not outer:
            self.no_memory()
        self.clocks_and_resets()
        self.add("wire [31:0] pending;")
        self.registers()
        self.interrupts()
        for i, bus in enumerate(self.map.memory):
            alone = not bus.settings["sram"] and len(outer) == 1
            self.memory(i, bus, "m_axi_" if alone else f"m{i}_", *shapes[i])
            if bus.settings["sram"]:
                self.sram(i, bus, *shapes[i])
        if len(outer) > 1:
            self.join(outer, shapes, data, identity, address)
        self.chip()
        body = "\n".join(self.lines)
        return f"""\
// SPDX-License-Identifier: Apache-2.0
// Made by sim/ports/ports.py: {self.top} with the ports of presil_top.
module presil_ports (
  input  logic clk,
  input  logic rst,
  output logic irq,
{AXIL}{outer_memory(*self.shape)});
{body}
endmodule
"""

    def testbench(self):
        """presil_dpi_top around the module: the chip in a simulator that owns the clock (docs/dpi.md)."""
        data, identity, address = self.shape
        wires = "\n".join(f"  logic [{width_of(kind, *self.shape) - 1}:0] m_axi_{w};" for w, kind in MEMORY.items())
        own = "\n".join("  " + line.split("put", 1)[1].strip().rstrip(",") + ";" for line in AXIL.splitlines())
        return f"""\
// SPDX-License-Identifier: Apache-2.0
// Made by sim/ports/ports.py: {self.top} behind presil_dpi. Takes +presil_socket=PATH.
module presil_ports_dpi_top #(
  parameter int unsigned CLOCK_MHZ = 1000,
  parameter string       CONFIG    = "",  // the chip's default
  parameter string       CHIP      = "presil"
);
  timeunit 1ps;
  timeprecision 1ps;
  logic clk = 1'b0;
  initial forever #(500_000 / CLOCK_MHZ) clk = ~clk;
  logic rst, irq;
  logic [2:0] s_axil_awprot, s_axil_arprot;
{own}
{wires}
  presil_ports u_chip (.*);
  presil_dpi #(.WORD({data // 8}), .ADDR({address}), .ID({identity}), .AXIL_ADDR(32),
    .REGISTERS({self.map.registers.settings["bytes"]}), .CLOCK_MHZ(CLOCK_MHZ), .CHIP(CHIP),
    .CONFIG(CONFIG)) u_driver (.*);
endmodule
"""

    def clocks_and_resets(self):
        if self.common > 1:
            self.add("// common edge of all clocks where phase is 0; in reset every clock has every edge")
            self.add(f"logic [{self.common.bit_length() - 1}:0] phase;")
            self.add(f"always_ff @(negedge clk) phase <= reset || phase == {self.common - 1} ? '0 : phase + 1'b1;")
            self.add("wire aligned = phase == 0;")
        else:
            self.add("wire aligned = 1'b1;")
        hold = max([r["cycles"] for r in self.map.resets.values()], default=0)
        if hold:
            self.add(f"logic [{hold.bit_length() - 1}:0] holding;")
            self.add(f"always_ff @(posedge clk) holding <= rst ? {hold} : holding != 0 ? holding - 1'b1 : holding;")
            self.add("wire reset = rst || holding != 0;")
        else:
            self.add("wire reset = rst;")
        for name, clock in self.map.clocks.items():
            self.connections[name] = "clk" if clock["divide"] == 1 else f"clk && {self.edge(name)}"
        for name, reset in self.map.resets.items():
            held = hold - reset["cycles"]
            level = "rst" if not reset["cycles"] else "reset" if not held else f"(rst || holding > {held})"
            self.connections[name] = level if reset["active"] == "high" else f"!{level}"

    def interrupts(self):
        """Each bit of each port, in the order of the map."""
        widths, pins = {p.name: p.width for p in self.ports}, []
        for name, interrupt in self.map.interrupts.items():
            net, width = self.wire(name), widths[name]
            for i in range(width):
                bit = f"[{i}]" if width > 1 else ""
                pins.append((name + bit, ("" if interrupt["active"] == "high" else "!") + net + bit, interrupt["kind"]))
        if not pins:
            self.add("assign irq = 1'b0;\nassign pending = '0;")
            return
        self.add(f"wire [{len(pins) - 1}:0] raised;\nassign pending = 32'(raised);")
        self.add("wire access = s_axil_awvalid || s_axil_arvalid || s_axil_bready || s_axil_rready;")
        for i, (name, pin, kind) in enumerate(pins):
            kept = f"clear[{i}]" if self.map.registers.settings["pending"] is not None else "begins"
            clear = kept if kind == "pulse" else "1'b0"
            self.add(f'presil_port_interrupt #(.NAME("{name}"), .PULSE(1\'b{int(kind == "pulse")}),')
            self.add(f"  .SOON({16 * self.common})) u_interrupt{i} (.clk(clk), .rst(reset), .pin({pin}),")
            self.add(f"  .access(access), .clear({clear}), .raised(raised[{i}]));")
        if self.common > 1:
            self.add(
                "logic irq_q;\nalways_ff @(posedge clk) if (reset) irq_q <= 1'b0; else if (aligned) irq_q <= |raised;"
            )
            self.add("assign irq = irq_q;")
        else:
            self.add("assign irq = |raised;")

    # ---- registers

    def passes(self):
        """AXI4-Lite that needs nothing in between."""
        bus = self.map.registers
        pulses = any(i["kind"] == "pulse" for i in self.map.interrupts.values())
        return (
            bus.kind == "axi4-lite" and self.common == 1 and bus.width("wdata") == 32 and not bus.settings["base"]
            and bus.settings["pending"] is None and not pulses
            and all(not r["cycles"] for r in self.map.resets.values())
            and all(bus.has(w) for w in ("bresp", "rresp", "bready", "rready", "wstrb"))
        )  # fmt: skip

    def inputs(self, bus, values):
        for wire, value in values.items():
            if bus.has(wire):
                self.connections[bus.wires[wire].name] = value

    def output(self, bus, wire, absent):
        return self.wire(bus.wires[wire].name) if bus.has(wire) else absent

    def registers(self):
        bus = self.map.registers
        if self.passes():
            for wire, port in bus.wires.items():
                if wire.endswith("addr"):
                    self.connections[port.name] = f"{port.width}'(s_axil_{wire})"
                elif not wire.endswith("prot"):
                    self.connections[port.name] = f"s_axil_{wire}"
            self.inputs(bus, {"awprot": "'0", "arprot": "'0"})
            self.add("wire begins = 1'b0;")
            return
        s = bus.settings
        has_pending = s["pending"] is not None
        self.add("logic req, req_write, done, begins;\nlogic [31:0] req_addr, req_wdata, done_rdata, clear;")
        self.add("logic [3:0] req_strb;\nlogic [1:0] done_resp;")
        pins = ", ".join(f".s_axil_{w}(s_axil_{w})" for w in FRONT.split())
        self.add(f"presil_port_front #(.HAS_PENDING(1'b{int(has_pending)}), .PENDING({s['pending'] or 0})) u_front (")
        self.add("  .clk(clk), .rst(reset), .aligned(aligned), .req(req), .req_write(req_write), .req_addr(req_addr),")
        self.add(
            "  .req_wdata(req_wdata), .req_strb(req_strb), .done(done), .done_rdata(done_rdata), .done_resp(done_resp),"
        )
        self.add(f"  .begins(begins), .clear(clear), .pending(pending),\n  {pins});")
        address = f"(req_addr + 32'd{s['base']})" if s["base"] else "req_addr"
        address = f"({address} >> 2)" if s["word_addressed"] else address
        getattr(self, {"axi4-lite": "axil", "valid-ready": "valid_ready"}.get(bus.kind, "apb"))(bus, address)

    REQUEST = ".clk(clk), .rst(reset), .req(req), .req_write(req_write), .done(done)"

    def apb(self, bus, address):
        self.add("logic psel, penable, pwrite;\nlogic [31:0] paddr, pwdata;\nlogic [3:0] pstrb;")
        self.add(f"presil_port_apb u_apb ({self.REQUEST}, .edge_coming({self.edge(bus.clock)}),")
        self.add(f"  .req_addr({address}), .req_wdata(req_wdata), .req_strb(req_strb), .done_rdata(done_rdata),")
        self.add(
            "  .done_resp(done_resp), .psel(psel), .penable(penable), .pwrite(pwrite), .paddr(paddr), .pwdata(pwdata),"
        )
        ready, error = self.output(bus, "pready", "1'b1"), self.output(bus, "pslverr", "1'b0")
        self.add(f"  .pstrb(pstrb), .pready({ready}), .pslverr({error}), .prdata({self.output(bus, 'prdata', '')}));")
        self.inputs(bus, {w: w for w in ("psel", "penable", "pwrite", "pwdata", "pstrb")})
        self.inputs(bus, {"paddr": f"{bus.width('paddr')}'(paddr)", "pprot": "'0"})

    def valid_ready(self, bus, address):
        self.add("logic valid;")
        answers = int(bus.has("bvalid"))
        self.add(f"presil_port_valid_ready #(.ANSWERS(1'b{answers})) u_valid_ready ({self.REQUEST},")
        ready, answer = self.output(bus, "ready", "1'b1"), self.output(bus, "bvalid", "1'b0")
        self.add(f"  .edge_coming({self.edge(bus.clock)}), .valid(valid), .ready({ready}), .bvalid({answer}),")
        self.add(f"  .rvalid({self.output(bus, 'rvalid', '')}));")
        self.add(f"assign done_rdata = {self.output(bus, 'rdata', '')};\nassign done_resp = 2'b00;")
        self.inputs(bus, {"valid": "valid", "write": "req_write", "wdata": "req_wdata"})
        self.inputs(bus, {"addr": f"{bus.width('addr')}'({address})", "posted": f"1'b{1 - answers}"})

    def axil(self, bus, address):
        data = bus.width("wdata")
        self.add(
            f"logic awvalid, wvalid, bready, arvalid, rready;\nlogic [{data - 1}:0] wdata;"
            f"\nlogic [{data // 8 - 1}:0] wstrb;"
        )
        self.add(f"presil_port_axil #(.DATA({data})) u_axil ({self.REQUEST}, .edge_coming({self.edge(bus.clock)}),")
        self.add(f"  .req_addr({address}), .req_wdata(req_wdata), .req_strb(req_strb), .done_rdata(done_rdata),")
        pins = {
            w: self.output(bus, w, "2'b00") for w in "awready wready bresp bvalid arready rdata rresp rvalid".split()
        }
        pins |= {w: w for w in "awvalid wdata wstrb wvalid bready arvalid rready".split()}
        self.add("  .done_resp(done_resp), " + ", ".join(f".{wire}({net})" for wire, net in pins.items()) + ");")
        self.inputs(bus, {w: w for w in "awvalid wdata wstrb wvalid bready arvalid rready".split()})
        address = f"{bus.width('awaddr')}'({address})"
        self.inputs(bus, {"awaddr": address, "araddr": address, "awprot": "'0", "arprot": "'0"})

    # ---- memory

    def no_memory(self):
        for wire, kind in MEMORY.items():
            if not kind.startswith("in"):
                self.add(f"assign m_axi_{wire} = '0;")

    def memory(self, index, bus, net, data, identity, address):
        """One port of the chip as the signals net*."""
        if net != "m_axi_":
            for wire, kind in MEMORY.items():
                self.add(f"logic [{width_of(kind, data, identity, address) - 1}:0] {net}{wire};")
        size = (data // 8).bit_length() - 1
        edge = self.edge(bus.clock)
        slow = edge != "1'b1" and not bus.settings["sram"]
        out = {"arlen": "'0", "arsize": f"3'd{size}", "arburst": "2'd1", "arid": "'0", "rready": "1'b1",
               "wstrb": "'1", "wlast": "1'b1", "bready": "1'b1"}  # fmt: skip
        out |= {wire.replace("ar", "aw"): out[wire] for wire in ("arlen", "arsize", "arburst", "arid")}
        values = {}
        for wire, kind in MEMORY.items():
            if kind.startswith("in"):
                continue
            values[wire] = self.output(bus, wire, out.get(wire, "'0"))
            unused = "write" if wire[0] in "ra" and wire[:2] != "aw" else "read"
            if not bus.has(wire) and bus.settings["direction"] == unused:
                values[wire] = "'0"
        if slow:
            self.slow(index, bus, net, values, (data, identity, address))
        else:
            for wire, value in values.items():
                self.add(f"assign {net}{wire} = {width_of(MEMORY[wire], data, identity, address)}'({value});")
            self.extras(index, bus, identity, lambda wire, value: self.add(f"assign {wire}_{index} = {value};"))
        for wire, kind in MEMORY.items():
            if kind.startswith("in") and bus.has(wire):
                crossed = slow and wire in ("arready", "awready", "wready")
                self.connections[bus.wires[wire].name] = f"{wire[:-5]}{index}_ready" if crossed else f"{net}{wire}"
        if bus.kind == "axi3":
            self.axi3(index, bus, net, identity)

    EXTRAS = {"awlock": "2", "arlock": "2", "wid": "ID"}

    def extras(self, index, bus, identity, use):
        """What only AXI3 has, for who checks it."""
        for wire, kind in self.EXTRAS.items():
            value = self.output(bus, wire, "'0")
            if bus.kind == "axi3":
                self.add(f"logic [{width_of(kind, 0, identity, 0) - 1}:0] {wire}_{index};")
                use(wire, f"{width_of(kind, 0, identity, 0)}'({value})")

    def slow(self, index, bus, net, values, shape):
        """A port on a slower clock: the chip's channels are taken at its edges."""
        edge = self.edge(bus.clock)
        channels = {
            c: {w: v for w, v in values.items() if channel(w) == c and not w.endswith("valid")}
            for c in ("ar", "aw", "w")
        }
        extra = {}
        self.extras(index, bus, shape[1], extra.__setitem__)
        for c, wires in channels.items():
            widths = {w: width_of(MEMORY[w], *shape) for w in wires}
            inside = [f"{widths[w]}'({value})" for w, value in wires.items()]
            outside = [f"{net}{w}" for w in wires]
            for w, value in extra.items():
                if channel(w) == c:
                    widths[w] = width_of(self.EXTRAS[w], *shape)
                    inside.append(value)
                    outside.append(f"{w}_{index}")
            self.add(f"logic {c}{index}_ready;\npresil_port_slow #(.BITS({sum(widths.values())})) u_slow_{c}{index} (")
            self.add(f"  .clk(clk), .rst(reset), .edge_coming({edge}), .valid({values[c + 'valid']}),")
            self.add(f"  .ready({c}{index}_ready), .up_valid({net}{c}valid), .up_ready({net}{c}ready),")
            self.add(f"  .payload({{{', '.join(inside)}}}),\n  .up_payload({{{', '.join(outside)}}}));")
        for wire in ("rready", "bready"):
            self.add(f"assign {net}{wire} = {values[wire]} && {edge};")

    def axi3(self, index, bus, net, identity):
        clock = self.connections[bus.clock] if bus.settings["sram"] else "clk"
        nets = {"awid": f"{net}awid", "wid": f"wid_{index}" if bus.has("wid") else f"{net}awid", "wlast": f"{net}wlast"}
        if not bus.has("wid"):
            nets["wid"] = nets["awid"] = "'0"
        nets |= {wire: f"{wire}_{index}" for wire in ("awlock", "arlock")}
        taken = {c: f"{net}{c}valid && {net}{c}ready" for c in ("aw", "w", "ar")}
        self.add(f"presil_port_axi3 #(.ID({identity})) u_axi3_{index} (.clk({clock}), .rst(reset),")
        self.add("  " + ", ".join(f".{c}taken({net})" for c, net in taken.items()) + ",")
        self.add("  " + ", ".join(f".{w}({net})" for w, net in nets.items()) + ");")

    def sram(self, index, bus, data, identity, address):
        s = bus.settings["sram"]
        self.add(f"presil_port_sram #(.WORD({data // 8}), .ID({identity}), .ADDR({address}), .BASE(64'd{s['base']}),")
        self.add(f"  .BYTES({s['bytes']})) u_sram{index} (.clk({self.connections[bus.clock]}), .rst(reset),")
        self.add("  " + ", ".join(f".{wire}(m{index}_{wire})" for wire in MEMORY) + ");")

    def join(self, outer, shapes, data, identity, address):
        """Several ports on one bus: each as wide as the widest, and one after the other."""
        for i in outer:
            self.add(f"logic w{i}_arvalid, w{i}_arready, w{i}_awvalid, w{i}_awready, w{i}_wvalid, w{i}_wready;")
            self.add(f"logic [{data - 1}:0] w{i}_wdata;\nlogic [{data // 8 - 1}:0] w{i}_wstrb;")
            self.widen(i, shapes[i][0], data, shapes[i][1])
        self.add(f"localparam int unsigned PORT = {(len(outer) - 1).bit_length()};")
        self.add("logic [PORT-1:0] ar_port, aw_port;")

        def all_ports(text):
            return "{" + ", ".join(text.replace("#", str(i)) for i in reversed(outer)) + "}"

        def request(c):
            return f"{{{identity}'(m#_{c}id), {address}'(m#_{c}addr), m#_{c}len, m#_{c}size, m#_{c}burst}}"

        pins = {"clk": "clk", "rst": "reset"}
        for c in ("ar", "aw"):
            pins |= {
                c: all_ports(request(c)),
                f"{c}valid": all_ports(f"w#_{c}valid"),
                f"{c}ready": all_ports(f"w#_{c}ready"),
            }
            pins |= {
                f"up_{c}": f"{{m_axi_{c}id[{identity - 1}:0], " + ", ".join(f"m_axi_{c}{w}" for w in REQUEST) + "}"
            }
            pins |= {f"up_{c}_port": f"{c}_port", f"up_{c}valid": f"m_axi_{c}valid", f"up_{c}ready": f"m_axi_{c}ready"}
            self.add(f"assign m_axi_{c}id[{identity} +: PORT] = {c}_port;")
        pins |= {
            w: all_ports(f"{'m' if w == 'wlast' else 'w'}#_{w}")
            for w in ("wdata", "wstrb", "wlast", "wvalid", "wready")
        }
        pins |= {f"up_{w}": f"m_axi_{w}" for w in ("wdata", "wstrb", "wlast", "wvalid", "wready")}
        for c in ("r", "b"):
            pins |= {f"{c}_port": f"m_axi_{c}id[{identity} +: PORT]", f"up_{c}valid": f"m_axi_{c}valid"}
            pins |= {
                f"{c}valid": all_ports(f"m#_{c}valid"),
                f"{c}ready": all_ports(f"m#_{c}ready"),
                f"up_{c}ready": f"m_axi_{c}ready",
            }
        self.add(
            f"presil_port_mux #(.PORTS({len(outer)}), .WORD({data // 8}), .ID({identity}), .ADDR({address})) u_mux ("
        )
        self.add(",\n".join(f"  .{pin}({net})" for pin, net in pins.items()) + ");")
        for i in outer:
            own = shapes[i][1]
            self.add(f"assign m{i}_rid = m_axi_rid[{own - 1}:0];\nassign m{i}_bid = m_axi_bid[{own - 1}:0];")
            for wire in ("rresp", "rlast", "bresp"):
                self.add(f"assign m{i}_{wire} = m_axi_{wire};")

    def widen(self, i, own, data, identity):
        if own == data:
            for wire in ("arvalid", "awvalid", "wdata", "wstrb", "wvalid"):
                self.add(f"assign w{i}_{wire} = m{i}_{wire};")
            for wire in ("arready", "awready", "wready"):
                self.add(f"assign m{i}_{wire} = w{i}_{wire};")
            self.add(f"assign m{i}_rdata = m_axi_rdata;")
            return
        self.add(f"presil_port_widen #(.IN({own // 8}), .OUT({data // 8}), .ID({identity})) u_widen{i} (")
        pins = {"clk": "clk", "rst": "reset", "rtaken": f"m{i}_rvalid && m{i}_rready", "up_rdata": "m_axi_rdata"}
        for c in ("ar", "aw"):
            pins[c] = f"{{m{i}_{c}addr[11:0], m{i}_{c}len, m{i}_{c}size, m{i}_{c}burst}}"
        both = ("arvalid", "arready", "awvalid", "awready", "wdata", "wstrb", "wvalid", "wready")
        pins |= {w: f"m{i}_{w}" for w in ("arid", "rid", "rlast", "rdata", "wlast", *both)}
        pins |= {f"up_{w}": f"w{i}_{w}" for w in both}
        self.add(",\n".join(f"  .{pin}({net})" for pin, net in pins.items()) + ");")

    # ---- the chip itself

    def chip(self):
        for name, value in self.map.ties.items():
            width = next(p.width for p in self.ports if p.name == name)
            self.connections[name] = f"{width}'d{value}"
        nets = [
            f"logic [{p.width - 1}:0] c_{p.name};" for p in self.ports if self.connections.get(p.name) == f"c_{p.name}"
        ]
        self.lines[:0] = ["  " + net for net in nets]
        parameters = ", ".join(f".{name}({value})" for name, value in self.parameters.items())
        # Named as its module: waveforms have names of instances, and views look for the top's.
        self.add(f"{self.top} {f'#({parameters}) ' if parameters else ''}{self.top} (")
        self.add(",\n".join(f"  .{p.name}({self.connections.get(p.name, '')})" for p in self.ports))
        self.add(");")


def channel(wire):
    return wire[:2] if wire[:2] in ("aw", "ar") else wire[0]


def width_of(kind, data, identity, address):
    kind = kind[2:].strip() or "1" if kind.startswith("in") else kind
    return {"ID": identity, "ADDR": address, "DATA": data, "STRB": data // 8}.get(kind) or int(kind)


def outer_memory(data, identity, address):
    lines = []
    for wire, kind in MEMORY.items():
        inner = kind.startswith("in")
        width = width_of(kind, data, identity, address)
        lines.append(f"  {'input ' if inner else 'output'} logic [{width - 1}:0] m_axi_{wire}")
    return ",\n".join(lines) + "\n"
