// SPDX-License-Identifier: Apache-2.0
// Engine port: what presil_issue tells an engine and hears from it, a struct each way.
package presil_engine_pkg;
  import presil_desc_pkg::*;

  typedef struct packed {
    logic        valid;                  // a descriptor, its tokens taken; stays until ready
    logic [31:0] index;                  // its ring count, with valid
    desc_t       desc;                   // with valid; as decode lets it pass
  } command_t;

  typedef struct packed {
    logic        ready;                  // the descriptor is taken in this cycle; 0 under halt
    logic        done;                   // pulse for each that completes, in order
    logic        active;                 // one is not done
    logic        idle;                   // nothing on its way; may hold descriptors under halt
    logic [3:0]  cause;                  // CAUSE_* of its own, valid with active
  } status_t;
endpackage
