// SPDX-License-Identifier: Apache-2.0
// The end of the process.
#pragma once

namespace presil {

// Returns when autograd's device threads have let go of the graphs that they ran. A thread gives the last reference to
// a finished graph back after it has woken whoever called backward(); if the interpreter is gone by then, the Python
// objects in the graph end the process ("terminate called without an active exception"). So before the interpreter
// goes, one task without Python objects is sent through each thread: what was before it has been dropped then.
void drain_autograd();

}  // namespace presil
