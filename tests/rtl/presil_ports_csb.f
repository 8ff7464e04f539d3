// SPDX-License-Identifier: Apache-2.0
+incdir+.
presil_ports_core.sv  // what it instantiates
presil_ports_csb_top.v
