// SPDX-License-Identifier: Apache-2.0
`ifndef PORTS_BITS
`define PORTS_BITS 64
`endif
