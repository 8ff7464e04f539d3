// SPDX-License-Identifier: Apache-2.0
// Whole chip: AXI4-Lite registers, command processor, four engines, scratchpad, one AXI4 master.
// Reset: synchronous, active high, at least two cycles. Ports: docs/rtl.md "Top ports". Errors:
// registers, docs/isa.md section 1.
module presil_top import presil_config_pkg::*, presil_desc_pkg::*, presil_engine_pkg::*; #(
  localparam int unsigned LW = $clog2(WORD)
) (
  input  logic              clk,
  input  logic              rst,
  output logic              irq,             /// level: (IRQ_STATUS & IRQ_ENABLE) != 0
  /// AXI4-Lite slave, the registers (docs/registers.md): byte address of a write
  input  logic [11:0]       s_axil_awaddr,
  input  logic [2:0]        s_axil_awprot,   /// not looked at
  input  logic              s_axil_awvalid,  /// address is there; stays until awready
  output logic              s_axil_awready,  /// address is taken in this cycle
  input  logic [31:0]       s_axil_wdata,    /// one register of 32 bits
  input  logic [3:0]        s_axil_wstrb,    /// bytes of wdata that are written
  input  logic              s_axil_wvalid,   /// data are there; stay until wready
  output logic              s_axil_wready,   /// data are taken in this cycle
  output logic [1:0]        s_axil_bresp,    /// always OKAY, unknown registers too
  output logic              s_axil_bvalid,   /// write is done; stays until bready
  input  logic              s_axil_bready,   /// software's side takes the response
  input  logic [11:0]       s_axil_araddr,   /// byte address of a read
  input  logic [2:0]        s_axil_arprot,   /// not looked at
  input  logic              s_axil_arvalid,  /// address is there; stays until arready
  output logic              s_axil_arready,  /// address is taken in this cycle
  output logic [31:0]       s_axil_rdata,    /// the register, with rvalid; 0 where there is none
  output logic [1:0]        s_axil_rresp,    /// always OKAY, unknown registers too
  output logic              s_axil_rvalid,   /// data are there; stay until rready
  input  logic              s_axil_rready,   /// software's side takes the data
  /// AXI4 master, the memory: ID of a write's address, always 0 (STORE)
  output logic [3:0]        m_axi_awid,
  output logic [39:0]       m_axi_awaddr,    /// byte address, WORD-aligned; within 4 KiB
  output logic [7:0]        m_axi_awlen,     /// beats of the burst - 1
  output logic [2:0]        m_axi_awsize,    /// log2(WORD): all beats are whole
  output logic [1:0]        m_axi_awburst,   /// 1: INCR
  output logic              m_axi_awlock,    /// 0: normal
  output logic [3:0]        m_axi_awcache,   /// register BUS_ATTRIBUTES, as the two below
  output logic [2:0]        m_axi_awprot,    /// the same as arprot
  output logic [3:0]        m_axi_awqos,     /// the same as arqos
  output logic              m_axi_awvalid,   /// stays with its address until awready
  input  logic              m_axi_awready,   /// address is taken in this cycle
  output logic [8*WORD-1:0] m_axi_wdata,     /// one beat: byte i is of address + i
  output logic [WORD-1:0]   m_axi_wstrb,     /// bytes to write; none while a stopped launch drains
  output logic              m_axi_wlast,     /// last beat of its burst
  output logic              m_axi_wvalid,    /// with its burst's address or after it, never before
  input  logic              m_axi_wready,    /// beat is taken in this cycle
  input  logic [3:0]        m_axi_bid,       /// not looked at: all writes have one ID
  input  logic [1:0]        m_axi_bresp,     /// bit 1: SLVERR or DECERR; bit 0 is not looked at
  input  logic              m_axi_bvalid,    /// the oldest burst outstanding is answered
  output logic              m_axi_bready,    /// always 1
  output logic [3:0]        m_axi_arid,      /// 0 LOAD, 1 descriptor fetch
  output logic [39:0]       m_axi_araddr,    /// byte address, WORD-aligned; within 4 KiB
  output logic [7:0]        m_axi_arlen,     /// beats of the burst - 1
  output logic [2:0]        m_axi_arsize,    /// log2(WORD): all beats are whole
  output logic [1:0]        m_axi_arburst,   /// 1: INCR
  output logic              m_axi_arlock,    /// 0: normal
  output logic [3:0]        m_axi_arcache,   /// register BUS_ATTRIBUTES, as the two below
  output logic [2:0]        m_axi_arprot,    /// of fetches and LOAD alike
  output logic [3:0]        m_axi_arqos,     /// of fetches and LOAD alike
  output logic              m_axi_arvalid,   /// stays with its address until arready
  input  logic              m_axi_arready,   /// address is taken in this cycle
  input  logic [3:0]        m_axi_rid,       /// bit 0 as arid; the others are not looked at
  input  logic [8*WORD-1:0] m_axi_rdata,     /// one beat: byte i is of address + i
  input  logic [1:0]        m_axi_rresp,     /// bit 1: SLVERR or DECERR; bit 0 is not looked at
  input  logic              m_axi_rlast,     /// last beat of its burst
  input  logic              m_axi_rvalid,    /// IDs in any order, one ID in request order
  output logic              m_axi_rready     /// LOAD has room, whatever the ID of the beat is
);
  // ---- parameters ---------------------------------------------------------------------------
  if (LANES % 8 != 0 || LANES < 8 || LANES > 128) begin : g_lanes
    $fatal(1, "LANES = %0d: a multiple of 8, from 8 to 128, is needed", LANES);
  end
  if (CELLS % 4 != 0 || CELLS < 4 || CELLS > 256) begin : g_cells
    $fatal(1, "CELLS = %0d: a multiple of 4, from 4 to 256, is needed", CELLS);
  end
  if (WORD < 16 || WORD > 128 || (WORD & (WORD - 1)) != 0) begin : g_word
    $fatal(1, "WORD = %0d: 16, 32, 64 or 128 is needed", WORD);
  end
  if (WORD < LANES) begin : g_lanes_in_word
    $fatal(1, "WORD = %0d: an activation of LANES = %0d bytes has to fit a word", WORD, LANES);
  end
  if (BANKS < 2) begin : g_banks
    $fatal(1, "BANKS = %0d: two or more are needed", BANKS);
  end
  if (BANK_WORDS < 2 || BANKS * BANK_WORDS > 65536) begin : g_words
    $fatal(1,
    "BANKS * BANK_WORDS = %0d * %0d: two words a bank or more, 65536 in all at most, are needed",
    BANKS,
      BANK_WORDS);
  end
  if (ACC_ROWS < 2 || ACC_ROWS > 65535) begin : g_rows
    $fatal(1, "ACC_ROWS = %0d: from 2 to 65535 are needed", ACC_ROWS);
  end

  // ---- registers ----------------------------------------------------------------------------
  presil_regs_pkg::presil_regs__in_t  hw_in;
  presil_regs_pkg::presil_regs__out_t hw_out;
  // The register block has its clock while software is at it, and LINGER cycles longer: no access
  // goes that long without one of its handshakes.
  localparam logic [2:0] LINGER = 3'd7;
  logic       regs_clk, regs_wake, asked, queue_clear;
  logic [2:0] linger;
  assign asked = s_axil_awvalid || s_axil_wvalid || s_axil_arvalid || s_axil_bvalid
      || s_axil_rvalid;
  assign regs_wake = rst || asked || linger != 3'd0 || queue_clear;
  always_ff @(posedge clk)
    if (rst || asked) linger <= LINGER;
    else if (linger != 3'd0) linger <= linger - 3'd1;
  presil_clock_gate u_regs_gate (.clk, .en(regs_wake), .gclk(regs_clk));
  presil_regs u_regs (.clk(regs_clk), .rst, .s_axil_awready, .s_axil_awvalid, .s_axil_awaddr,
      .s_axil_awprot, .s_axil_wready, .s_axil_wvalid, .s_axil_wdata, .s_axil_wstrb, .s_axil_bready,
      .s_axil_bvalid, .s_axil_bresp, .s_axil_arready, .s_axil_arvalid, .s_axil_araddr,
      .s_axil_arprot, .s_axil_rready, .s_axil_rvalid, .s_axil_rdata, .s_axil_rresp, .hwif_in(hw_in),
      .hwif_out(hw_out));

  // what lies behind the register block answers one cycle after the request; writes are ignored
  logic        status_req, counter_req, ack_ident, ack_state, ack_error, ack_cause, ack_lo, ack_hi,
      ack_counters, ack_bus, ack_wr;
  logic [11:0] status_addr;
  logic [31:0] status_data, counter_data, bus_data, window_data, ring_head;
  logic [31:0] parity_data, record_data;
  logic        engine_rst, doorbell;
  assign status_req  = hw_out.IDENT.req || hw_out.STATE.req || hw_out.ERROR.req
      || hw_out.WAIT_CAUSE.req
    || hw_out.WAIT_LO.req || hw_out.WAIT_HI.req;
  assign counter_req = hw_out.COUNTERS.req;
  always_comb begin
    status_addr = {7'd0, hw_out.IDENT.addr};
    if (hw_out.STATE.req)      status_addr = 12'h038 + {9'd0, hw_out.STATE.addr};
    if (hw_out.ERROR.req)      status_addr = 12'h040 + {8'd0, hw_out.ERROR.addr};
    if (hw_out.WAIT_CAUSE.req) status_addr = 12'h058;
    if (hw_out.WAIT_LO.req)    status_addr = 12'h060 + {7'd0, hw_out.WAIT_LO.addr};
    if (hw_out.WAIT_HI.req)    status_addr = 12'h080 + {7'd0, hw_out.WAIT_HI.addr};
  end
  always_ff @(posedge regs_clk) begin
    doorbell     <= hw_out.RING_TAIL.value.swmod && !rst;
    ack_ident    <= hw_out.IDENT.req && !rst;
    ack_state    <= hw_out.STATE.req && !rst;
    ack_error    <= hw_out.ERROR.req && !rst;
    ack_cause    <= hw_out.WAIT_CAUSE.req && !rst;
    ack_lo       <= hw_out.WAIT_LO.req && !rst;
    ack_hi       <= hw_out.WAIT_HI.req && !rst;
    ack_counters <= hw_out.COUNTERS.req && !rst;
    ack_bus      <= hw_out.BUS.req && !rst;
    ack_wr       <= hw_out.IDENT.req_is_wr;
  end
  assign hw_in.IDENT.rd_ack      = ack_ident && !ack_wr;
  assign hw_in.IDENT.wr_ack      = ack_ident && ack_wr;
  assign hw_in.IDENT.rd_data     = status_data;
  assign hw_in.STATE.rd_ack      = ack_state && !ack_wr;
  assign hw_in.STATE.wr_ack      = ack_state && ack_wr;
  assign hw_in.STATE.rd_data     = status_data;
  assign hw_in.ERROR.rd_ack      = ack_error && !ack_wr;
  assign hw_in.ERROR.wr_ack      = ack_error && ack_wr;
  assign hw_in.ERROR.rd_data     = status_data;
  assign hw_in.WAIT_CAUSE.rd_ack = ack_cause;
  assign hw_in.WAIT_CAUSE.rd_data._reserved_31_20 = 12'd0;
  assign hw_in.WAIT_CAUSE.rd_data.cause = status_data[19:0];
  assign hw_in.WAIT_LO.rd_ack    = ack_lo && !ack_wr;
  assign hw_in.WAIT_LO.wr_ack    = ack_lo && ack_wr;
  assign hw_in.WAIT_LO.rd_data   = status_data;
  assign hw_in.WAIT_HI.rd_ack    = ack_hi && !ack_wr;
  assign hw_in.WAIT_HI.wr_ack    = ack_hi && ack_wr;
  assign hw_in.WAIT_HI.rd_data   = status_data;
  assign hw_in.COUNTERS.rd_ack   = ack_counters && !ack_wr;
  assign hw_in.COUNTERS.wr_ack   = ack_counters && ack_wr;
  assign hw_in.COUNTERS.rd_data  = counter_data;
  assign hw_in.BUS.rd_ack        = ack_bus && !ack_wr;
  assign hw_in.BUS.wr_ack        = ack_bus && ack_wr;
  assign hw_in.BUS.rd_data       = bus_data | window_data | parity_data | record_data;
  assign hw_in.RING_HEAD.value.next = ring_head;
  assign hw_in.RING_TAIL.value.hwclr = queue_clear;   // a write in the same cycle wins

  // ---- command processor --------------------------------------------------------------------
  logic        fetch_out, fetch_overdue, fetch_refused, read_overdue, write_overdue, read_late,
      write_late, unanswered, read_refused, write_refused;
  logic        busy, error, halt, launch, decoded, fetch_valid, fetch_ready, fetch_rvalid,
      pulse_done, pulse_error, all_empty, all_idle, record, apart, recording, record_done,
      counting;
  logic [3:0]  error_code, fail_code;
  logic [31:0] error_index, fail_index, push_index;
  logic [39:0] error_addr, fail_addr;
  logic [39-LW:0] fetch_beat;
  logic [7:0]  fetch_len;
  logic [ENGINES-1:0] push, room, empty;
  desc_t       push_desc;
  presil_command u_command (.clk, .rst,
      .ring_base({hw_out.RING_BASE_HI.value.value, hw_out.RING_BASE_LO.value.value[31:12]}),
      .ring_log2(hw_out.RING_LOG2.value.value), .ring_tail(hw_out.RING_TAIL.value.value), .doorbell,
      .queue_reset(hw_out.CONTROL.queue_reset.value), .ring_head, .busy, .error, .error_code,
      .error_index, .error_addr, .irq_done(pulse_done), .irq_error(pulse_error), .record,
      .apart, .recording, .counting, .record_done, .fetch_valid,
      .fetch_ready, .fetch_beat, .fetch_len, .fetch_rvalid, .fetch_rdata(m_axi_rdata),
      .fetch_rerror(m_axi_rresp[1]), .fetch_out, .fetch_refused, .fetch_overdue,
      .overdue(read_overdue || write_overdue), .halt, .clear(queue_clear), .engine_rst, .launch,
      .decoded, .push, .push_desc, .push_index, .room, .all_empty, .all_idle, .fail_code,
      .fail_index, .fail_addr);

  // ---- issue: an engine more is one in presil_desc_pkg, and its instance below ---------------
  logic               clean;                       // reset of engines and queues
  logic [ENGINES-1:0] ask, grant, start_valid, done, active, idle, overflow;
  logic [19:0]        want [ENGINES], have;
  logic [31:0]        want_index [ENGINES], done_index [ENGINES], counts [5];
  logic [3:0]         give [ENGINES], cause [ENGINES];
  assign clean = rst || engine_rst;
  logic [4*ENGINES-1:0] gives;
  assign all_empty = &empty;
  presil_tokens u_tokens (.clk, .rst(clean), .clear(launch), .want, .asks(ask), .grant, .have,
    .give(gives), .overflow, .counts);
  for (genvar e = 0; e < ENGINES; e++) begin : g_issue
    command_t command;
    status_t  status;
    assign start_valid[e] = command.valid;
    assign done[e]        = status.done;
    assign active[e]      = status.active;
    assign idle[e]        = status.idle;
    assign gives[4*e +: 4] = give[e];
    presil_issue u_issue (.clk, .rst(clean), .halt, .push(push[e]), .push_desc, .push_index,
        .room(room[e]), .empty(empty[e]), .ask(ask[e]), .want(want[e]), .want_index(want_index[e]),
        .grant(grant[e]), .have, .command, .status, .give(give[e]), .done_index(done_index[e]),
        .cause(cause[e]));
  end

  // ---- engines and scratchpad ---------------------------------------------------------------
  // later: what reaches an engine that has no descriptor
  logic [ENGINES-1:0] wake, later;
  logic        act_valid, act_ready, act_rvalid, wgt_valid, wgt_ready, wgt_rvalid, st_valid,
      st_ready, st_rvalid, res_valid, res_ready, res_rvalid;
  logic [15:0] act_addr, wgt_addr, st_addr, ld_addr;
  logic [32-LW:0] res_addr, epi_addr;
  logic [31:0] act_index, wgt_index, res_index, epi_index;
  logic [8*WORD-1:0] act_rdata, wgt_rdata, st_rdata, res_rdata, ld_data, epi_data;
  logic        ld_valid, ld_ready, ld_full, epi_valid, epi_ready, epi_full;
  logic [WORD-1:0] ld_mask, epi_mask;
  logic        range_valid, acc_re, acc_half;
  logic [31:0] range_index, range_addr;
  logic [$clog2(ACC_ROWS)-1:0] acc_row;
  logic [31:0] acc_q [CELLS];
  logic [1:0]  acc_taken;
  logic        load_err, store_err, read_err, write_err;
  logic [31:0] load_err_index, load_err_addr, store_err_index, store_err_addr, read_err_index,
      write_err_index;
  logic [39:0] read_err_addr, write_err_addr;
  logic        spad_bad, spad_bad_store, acc_bad, acc_bad_epilogue, line_bad, parity_err, acc_was;
  logic [31:0] spad_bad_index, spad_bad_addr, acc_bad_row, line_bad_at, parity_err_index;
  logic [39:0] parity_err_addr;
  logic        w_ready, w_beat_ready, rec_burst, rec_valid;
  logic [39-LW:0] rec_beat;
  logic [7:0]  rec_len;
  logic        rec_put;
  logic [8*WORD-1:0] rec_data;
  logic [6:0]  rec_counter;
  logic [63:0] rec_count;
  logic        lb_valid, lb_ready, load_rvalid, load_rready, sb_valid, sb_ready, beat_valid,
      beat_ready, response, read_idle, write_idle;
  logic [39-LW:0] lb_beat, sb_beat;
  logic [7:0]  lb_len, sb_len;
  logic [31:0] lb_index, sb_index;
  logic [WORD-1:0] beat_strb;
  logic [LW:0] beat_bytes;

  // An engine has its clock while anything of it may change.
  assign wake = {ENGINES{clean}} | start_valid | active | ~idle | later;
  always_comb begin
    later = '0;
    later[LOAD]   = load_err || lb_valid || !read_idle;       // beats that no word needs
    later[MATRIX] = acc_re || acc_was;
    later[STORE]  = store_err || !write_idle || recording;
  end
  for (genvar e = 0; e < ENGINES; e++) begin : g_clock
    logic gclk;
    presil_clock_gate u_gate (.clk, .en(wake[e]), .gclk);
  end

  presil_load u_load (.clk(g_clock[LOAD].gclk), .rst(clean), .command(g_issue[LOAD].command),
      .status(g_issue[LOAD].status), .halt, .err_valid(load_err), .err_index(load_err_index),
      .err_addr(load_err_addr), .burst_valid(lb_valid), .burst_ready(lb_ready),
      .burst_beat(lb_beat), .burst_len(lb_len), .burst_index(lb_index), .rvalid(load_rvalid),
      .rready(load_rready), .rdata(m_axi_rdata), .ld_valid, .ld_addr, .ld_data, .ld_mask, .ld_full,
      .ld_ready);
  presil_matrix u_matrix (.clk(g_clock[MATRIX].gclk), .rst(clean),
      .command(g_issue[MATRIX].command), .status(g_issue[MATRIX].status), .halt, .acc_bad,
      .acc_bad_epilogue, .acc_bad_row, .line_bad, .line_bad_at, .act_valid, .act_addr, .act_index,
      .act_ready, .act_rvalid, .act_rdata, .wgt_valid, .wgt_addr, .wgt_index, .wgt_ready,
      .wgt_rvalid, .wgt_rdata, .acc_re, .acc_half, .acc_row, .acc_q, .acc_taken);
  presil_epilogue u_epilogue (.clk(g_clock[EPILOGUE].gclk), .rst(clean),
      .command(g_issue[EPILOGUE].command), .status(g_issue[EPILOGUE].status), .halt, .acc_re,
      .acc_half, .acc_row, .acc_q, .acc_taken, .res_valid, .res_addr, .res_index, .res_ready,
      .res_rvalid, .res_rdata, .epi_valid, .epi_addr, .epi_index, .epi_data, .epi_mask, .epi_full,
      .epi_ready);
  presil_store u_store (.clk(g_clock[STORE].gclk), .rst(clean), .command(g_issue[STORE].command),
      .status(g_issue[STORE].status), .halt, .err_valid(store_err), .err_index(store_err_index),
      .err_addr(store_err_addr), .st_valid, .st_addr, .st_ready, .st_rvalid, .st_rdata,
      .burst_valid(sb_valid), .burst_ready(sb_ready), .burst_beat(sb_beat), .burst_len(sb_len),
      .burst_index(sb_index), .put(rec_put), .put_data(rec_data), .beat_valid, .beat_ready,
      .beat_data(m_axi_wdata), .beat_strb, .beat_bytes, .response(response && !recording));
  presil_scratchpad u_scratchpad (.clk, .rst, .act_valid, .wgt_valid, .st_valid, .res_valid,
      .act_addr, .wgt_addr, .spad_bad, .spad_bad_store, .spad_bad_index, .spad_bad_addr, .st_addr,
      .res_addr, .act_ready, .wgt_ready, .st_ready, .res_ready, .act_rvalid, .wgt_rvalid,
      .st_rvalid, .res_rvalid, .act_rdata, .wgt_rdata, .st_rdata, .res_rdata, .ep_valid(epi_valid),
      .ld_valid, .ep_addr(epi_addr), .ld_addr, .ep_data(epi_data), .ld_data, .ep_mask(epi_mask),
      .ld_mask, .ep_full(epi_full), .ld_full, .ep_ready(epi_ready), .ld_ready, .act_index,
      .wgt_index, .res_index, .ep_index(epi_index), .range_valid, .range_index, .range_addr);

  // ---- bus ----------------------------------------------------------------------------------
  assign m_axi_arsize  = 3'(LW);
  assign m_axi_arburst = 2'b01;
  assign m_axi_arlock  = 1'b0;
  assign m_axi_awsize  = 3'(LW);
  assign m_axi_awburst = 2'b01;
  assign m_axi_awlock  = 1'b0;
  assign m_axi_awid    = 4'd0;
  assign m_axi_bready  = 1'b1;
  assign m_axi_awprot  = m_axi_arprot;
  assign m_axi_awqos   = m_axi_arqos;
  // A beat that RREADY keeps waiting is no silence of the bus.
  presil_bus u_bus (.clk, .rst, .req(hw_out.BUS.req), .req_write(hw_out.BUS.req_is_wr),
      .req_addr(hw_out.BUS.addr), .req_data(hw_out.BUS.wr_data), .req_mask(hw_out.BUS.wr_biten),
      .rdata(bus_data), .busy, .prot(m_axi_arprot), .qos(m_axi_arqos), .arcache(m_axi_arcache),
      .awcache(m_axi_awcache), .asks({unanswered, m_axi_wvalid, m_axi_awvalid,
      fetch_out || !read_idle, m_axi_arvalid}),
      .served({m_axi_bvalid, m_axi_wready, m_axi_awready, m_axi_rvalid, m_axi_arready}),
      .read_overdue, .write_overdue);
  logic        guarded;                            // DMA windows
  logic [31:0] window_first [4], window_last [4];
  presil_windows u_windows (.clk, .rst, .req(hw_out.BUS.req), .req_write(hw_out.BUS.req_is_wr),
      .req_addr(hw_out.BUS.addr), .req_data(hw_out.BUS.wr_data), .req_mask(hw_out.BUS.wr_biten),
      .rdata(window_data), .busy, .guarded, .first(window_first), .last(window_last));
  presil_axi_read u_axi_read (.clk, .rst(clean), .halt, .load_idle(read_idle),
      .load_valid(lb_valid), .load_ready(lb_ready), .load_beat(lb_beat), .load_len(lb_len),
      .load_index(lb_index), .load_rvalid, .load_rready, .fetch_valid, .fetch_ready, .fetch_beat,
      .fetch_len, .fetch_rvalid, .overdue(read_overdue), .late_valid(read_late), .fetch_overdue,
      .guarded, .first(window_first), .last(window_last), .load_refused(read_refused),
      .fetch_refused, .err_valid(read_err), .err_index(read_err_index), .err_addr(read_err_addr),
      .arid(m_axi_arid), .araddr(m_axi_araddr), .arlen(m_axi_arlen), .arvalid(m_axi_arvalid),
      .arready(m_axi_arready), .rid(m_axi_rid[0]), .rresp(m_axi_rresp[1]), .rlast(m_axi_rlast),
      .rvalid(m_axi_rvalid), .rready(m_axi_rready));
  // A launch that is over leaves the write side to its record, halted or not.
  assign sb_ready    = w_ready && !recording;
  assign beat_ready  = w_beat_ready && !recording;
  presil_axi_write u_axi_write (.clk, .rst(clean), .halt(halt && !recording), .idle(write_idle),
      .burst_valid(recording ? rec_burst : sb_valid),
      .burst_ready(w_ready), .burst_beat(recording ? rec_beat : sb_beat),
      .burst_len(recording ? rec_len : sb_len), .burst_index(recording ? ring_head : sb_index),
      .beat_valid(recording ? rec_valid : beat_valid), .beat_ready(w_beat_ready),
      .beat_strb(recording ? '1 : beat_strb), .response, .unanswered, .overdue(write_overdue),
      .late_valid(write_late), .guarded, .first(window_first), .last(window_last),
      .refused(write_refused), .err_valid(write_err), .err_index(write_err_index),
      .err_addr(write_err_addr), .awaddr(m_axi_awaddr), .awlen(m_axi_awlen),
      .awvalid(m_axi_awvalid), .awready(m_axi_awready), .wstrb(m_axi_wstrb), .wlast(m_axi_wlast),
      .wvalid(m_axi_wvalid), .wready(m_axi_wready), .bresp(m_axi_bresp[1]), .bvalid(m_axi_bvalid));
  assign all_idle = (&idle) && read_idle && write_idle;

  // ---- parity of the memories ---------------------------------------------------------------
  if (PARITY) begin : g_parity
    presil_parity u_parity (.clk, .rst, .spad_bad, .spad_bad_store, .spad_bad_index, .spad_bad_addr,
        .acc_bad, .acc_bad_epilogue, .acc_bad_row, .line_bad, .line_bad_at,
        .oldest_matrix(done_index[MATRIX]), .oldest_epilogue(done_index[EPILOGUE]),
        .oldest_store(done_index[STORE]), .err_valid(parity_err), .err_index(parity_err_index),
        .err_addr(parity_err_addr), .req(hw_out.BUS.req), .req_write(hw_out.BUS.req_is_wr),
        .req_addr(hw_out.BUS.addr), .rdata(parity_data));
    // a clock more, behind which acc_bad is over
    always_ff @(posedge clk) acc_was <= acc_re;
  end else begin : g_plain
    logic unused_bad;
    assign unused_bad = &{spad_bad, spad_bad_store, spad_bad_index, spad_bad_addr, acc_bad,
        acc_bad_epilogue,
      acc_bad_row, line_bad, line_bad_at};
    assign parity_err       = 1'b0;
    assign parity_err_index = 32'd0;
    assign parity_err_addr  = 40'd0;
    assign parity_data      = 32'd0;
    assign acc_was          = 1'b0;
  end

  // ---- errors, counters, interrupt ----------------------------------------------------------
  logic fail;
  assign fail = overflow != '0 || store_err || load_err || range_valid || write_err || read_err
      || read_late
    || write_late || read_refused || write_refused
    || parity_err;
  always_comb begin
    fail_code = ERROR_NONE;  fail_index = 32'd0;  fail_addr = 40'd0;
    if (fail) begin
      if (read_err) begin
        fail_code = ERROR_READ_BUS;  fail_index = read_err_index;  fail_addr = read_err_addr;
      end else if (write_err) begin
        fail_code = ERROR_WRITE_BUS;  fail_index = write_err_index;  fail_addr = write_err_addr;
      end else if (read_late) begin
        fail_code = ERROR_BUS_TIMEOUT;  fail_index = read_err_index;  fail_addr = read_err_addr;
      end else if (write_late) begin
        fail_code = ERROR_BUS_TIMEOUT;  fail_index = write_err_index;  fail_addr = write_err_addr;
      end else if (read_refused) begin
        fail_code = ERROR_WINDOW;  fail_index = read_err_index;  fail_addr = read_err_addr;
      end else if (write_refused) begin
        fail_code = ERROR_WINDOW;  fail_index = write_err_index;  fail_addr = write_err_addr;
      end else if (parity_err) begin
        fail_code = ERROR_PARITY;  fail_index = parity_err_index;  fail_addr = parity_err_addr;
      end else if (range_valid) begin
        fail_code = ERROR_SPAD_RANGE;  fail_index = range_index;  fail_addr = {8'd0, range_addr};
      end else if (load_err) begin
        fail_code = ERROR_SPAD_RANGE;  fail_index = load_err_index;
        fail_addr = {8'd0, load_err_addr};
      end else if (store_err) begin
        fail_code = ERROR_SPAD_RANGE;  fail_index = store_err_index;
        fail_addr = {8'd0, store_err_addr};
      end else begin
        fail_code = ERROR_TOKEN_OVERFLOW;
        for (int unsigned e = ENGINES; e > 0; e--)
          if (overflow[e-1]) fail_index = done_index[e-1];
      end
    end
  end
  presil_record u_record (.clk, .rst, .clean, .req(hw_out.BUS.req),
      .req_write(hw_out.BUS.req_is_wr), .req_addr(hw_out.BUS.addr), .req_data(hw_out.BUS.wr_data),
      .req_mask(hw_out.BUS.wr_biten), .rdata(record_data), .busy, .enabled(record), .apart,
      .recording,
      .done(record_done), .ring_head, .error_code, .error_index, .error_addr,
      .counter(rec_counter), .count(rec_count), .burst_valid(rec_burst), .burst_ready(w_ready),
      .burst_beat(rec_beat), .burst_len(rec_len), .beat_valid(rec_valid),
      .beat_ready(w_beat_ready), .put(rec_put), .beat(rec_data), .response, .bad(m_axi_bresp[1]),
      .refused(write_refused));
  presil_counters u_counters (.clk, .rst, .busy(counting), .launch, .cause,
      .descriptor(decoded), .read_beat(load_rvalid && load_rready), .fetch_beat(fetch_rvalid),
      .write_beat(m_axi_wvalid && m_axi_wready && counting), .write_bytes(halt ? '0 : beat_bytes),
      .snapshot(hw_out.CONTROL.counter_snapshot.value),
      .clear(hw_out.CONTROL.counter_clear.value || (apart && record_done)),
      .req(counter_req), .req_word(hw_out.COUNTERS.addr[9:2]), .rdata(counter_data),
      .live(recording), .live_n(rec_counter), .live_count(rec_count));
  logic irq_done, irq_error, unused;
  assign unused = &{m_axi_bid, m_axi_bresp[0], m_axi_rid[3:1], m_axi_rresp[0]};
  presil_status u_status (.clk, .rst(clean), .req(status_req), .req_addr(status_addr),
      .rdata(status_data), .busy, .error, .error_code, .error_index, .error_addr,
      .set_done(pulse_done), .set_error(pulse_error), .clear_done(hw_out.IRQ_CLEAR.done.value),
      .clear_error(hw_out.IRQ_CLEAR.error.value), .irq_done, .irq_error, .active, .cause, .counts,
      .want, .want_index);
  assign irq = (irq_done && hw_out.IRQ_ENABLE.done.value)
      || (irq_error && hw_out.IRQ_ENABLE.error.value);

`ifndef SYNTHESIS
  a_silent: assert property (@(posedge clk) disable iff (rst)
    !busy |-> !m_axi_arvalid && !m_axi_awvalid && !m_axi_wvalid && write_idle && read_idle);
  a_idle: assert property (@(posedge clk) disable iff (rst) !(all_idle && !halt && (|active)));
  // no pulse stays behind in an engine whose clock stands
  a_asleep: assert property (@(posedge clk) disable iff (rst) (done & ~wake) == '0);
  a_regs_asleep: assert property (@(posedge clk) disable iff (rst) !regs_wake |=>
    $stable({doorbell, ack_ident, ack_state, ack_error, ack_cause, ack_lo, ack_hi, ack_counters,
        ack_bus, s_axil_awready, s_axil_wready, s_axil_arready, hw_out.RING_TAIL.value.value,
        hw_out.CONTROL.queue_reset.value, hw_out.CONTROL.counter_snapshot.value,
        hw_out.CONTROL.counter_clear.value, hw_out.IRQ_CLEAR.done.value}));
  c_regs_asleep: cover property (@(posedge clk) disable iff (rst) busy && !regs_wake);
  c_asleep: cover property (@(posedge clk) disable iff (rst) busy && wake == '0);
  c_some_asleep: cover property (@(posedge clk) disable iff (rst) wake != '0 && wake != '1);
  c_load_matrix: cover property (@(posedge clk) disable iff (rst) active[0] && active[1]);
  c_load_epilogue: cover property (@(posedge clk) disable iff (rst) active[0] && active[2]);
  c_load_store: cover property (@(posedge clk) disable iff (rst) active[0] && active[3]);
  c_matrix_epilogue: cover property (@(posedge clk) disable iff (rst) active[1] && active[2]);
  c_matrix_store: cover property (@(posedge clk) disable iff (rst) active[1] && active[3]);
  c_epilogue_store: cover property (@(posedge clk) disable iff (rst) active[2] && active[3]);
  c_all: cover property (@(posedge clk) disable iff (rst) &active);
  c_error_read: cover property (@(posedge clk) disable iff (rst) read_err);
  c_error_write: cover property (@(posedge clk) disable iff (rst) write_err);
  c_error_window: cover property (@(posedge clk) disable iff (rst) read_refused || write_refused);
  c_error_range: cover property (@(posedge clk) disable iff (rst) range_valid);
  c_error_load: cover property (@(posedge clk) disable iff (rst) load_err);
  c_error_store: cover property (@(posedge clk) disable iff (rst) store_err);
  c_irq: cover property (@(posedge clk) disable iff (rst) irq);
  c_irq_masked: cover property (@(posedge clk) disable iff (rst) !irq && (irq_done || irq_error));
`endif
endmodule
