// SPDX-License-Identifier: Apache-2.0
// Bytes of pieces come out in beats, each once, in its lane: one byte that the solver chooses is followed, and all are
// counted.
module presil_store_pack_properties import presil_config_pkg::*; #(
  localparam int unsigned LW = $clog2(WORD)
) (
  input logic              clk, rst, halt, piece, piece_end, room, idle, rvalid, put, beat_valid, beat_ready,
  input logic [LW-1:0]     piece_from, piece_at,
  input logic [LW:0]       piece_len, beat_bytes,
  input logic [8*WORD-1:0] rdata, beat_data,
  input logic [WORD-1:0]   beat_strb
);
  logic            started = 1'b0;
  logic            stalled, begun, pick, follow, read, crosses;
  logic [LW-1:0]   next_at, lane, j;         // j: byte of the piece
  logic [LW:0]     stop;
  logic [7:0]      beats, sent, wanted;      // beats that pieces have filled or begun, that were sent, of the byte
  logic [3:0]      reads, ahead;            // pieces whose data is awaited; before the chosen one's
  logic [LW-1:0]   at_word;
  logic [7:0]      value;
  logic [15:0]     bytes;                    // taken and not sent
  logic [8*WORD-1:0] was_data;
  logic [WORD-1:0] was_strb;
  logic [7:0]      ones;
  assign stop    = {1'b0, piece_at} + piece_len;
  assign crosses = stop[LW];
  always_comb begin
    ones = 8'd0;
    for (int unsigned i = 0; i < WORD; i++) ones = ones + 8'(beat_strb[i]);
  end

  always_ff @(posedge clk) begin
    started <= 1'b1;
    stalled <= beat_valid && !beat_ready && !rst;  was_data <= beat_data;  was_strb <= beat_strb;
    if (rst) begin
      begun <= 1'b0;  beats <= 8'd0;  sent <= 8'd0;  reads <= 4'd0;  bytes <= 16'd0;  follow <= 1'b0;  read <= 1'b0;
    end else begin
      reads <= reads + 4'(piece) - 4'(rvalid);
      bytes <= bytes + (piece ? 16'(piece_len) : 16'd0) - ((beat_valid && beat_ready) ? 16'(beat_bytes) : 16'd0);
      if (piece) begin
        begun <= !piece_end;
        next_at <= LW'(stop);
        beats <= beats + 8'(crosses) + 8'(piece_end && stop[LW-1:0] != '0);
      end
      if (beat_valid && beat_ready) sent <= sent + 8'd1;
      if (!follow && piece && pick && {1'b0, j} < piece_len) begin
        follow <= 1'b1;  read <= 1'b0;  ahead <= reads - 4'(rvalid);
        at_word <= piece_from + j;  lane <= LW'(piece_at + j);
        wanted <= beats + 8'(({1'b0, piece_at} + {1'b0, j}) >> LW);
      end else if (follow && !read && rvalid) begin
        ahead <= ahead - 4'd1;
        if (ahead == 4'd0) begin
          read <= 1'b1;  value <= rdata[8*at_word +: 8];
        end
      end
      if (follow && beat_valid && beat_ready && sent == wanted) follow <= 1'b0;
    end
    assume (started || rst);
    // presil_store; the scratchpad answers what was granted
    assume (!piece || (room && piece_len != '0 && piece_len <= (LW+1)'(WORD)
                       && {1'b0, piece_from} + piece_len <= (LW+1)'(WORD) && (!begun || piece_at == next_at)));
    assume (!rvalid || reads != 4'd0);
    assume (!halt);
    assume (!put || idle);                     // a completion record's beat, when STORE has none
    if (started && !rst) begin
      a_stable: assert (!stalled || (beat_valid && beat_data == was_data && beat_strb == was_strb));
      a_byte: assert (!(follow && beat_valid && sent == wanted)
                      || (read && beat_strb[lane] && beat_data[8*lane +: 8] == value));
      a_bytes: assert (!beat_valid || (beat_bytes != '0 && ones == 8'(beat_bytes) && bytes >= 16'(beat_bytes)));
      a_run: assert (!beat_valid || ((beat_strb | (beat_strb - WORD'(1))) + WORD'(1) & beat_strb) == '0);
      a_idle: assert (!idle || begun || bytes == 16'd0);
      c_crosses: cover (follow && beat_valid && sent == wanted && wanted == 8'd1 && lane == '0 && ones == 8'd3);
      c_flush: cover (beat_valid && beat_ready && sent == 8'd2 && ones == 8'd1);
      c_wait: cover (stalled && beat_valid && !room);
    end
  end
endmodule
bind presil_store_pack presil_store_pack_properties u_properties (.*);
