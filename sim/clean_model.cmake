# SPDX-License-Identifier: Apache-2.0
# cmake -DDIR=dir -P clean_model.cmake: removes what the compiler made of a verilated model, so that it is compiled
# anew with other flags.
# cmake -DFROM=a -DTO=b -P clean_model.cmake: renames a to b.
if(DIR)
  file(GLOB made ${DIR}/*.o ${DIR}/*.gch ${DIR}/libVchip.a)
  if(made)
    file(REMOVE ${made})
  endif()
elseif(NOT FROM STREQUAL TO)
  file(RENAME ${FROM} ${TO})
endif()
