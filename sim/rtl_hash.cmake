# SPDX-License-Identifier: Apache-2.0
# cmake -DOUT=HEADER -DSALT=TEXT -DSOURCES=FILE;... -P rtl_hash.cmake: one SHA-256 over names and contents of a chip's
# sources, and over SALT (its top and parameters), as a header. The same wherever the sources lie, in whatever order.
set(lines)
foreach(source IN LISTS SOURCES)
  if("${source}" STREQUAL "" OR IS_DIRECTORY "${source}")
    continue()
  endif()
  file(SHA256 "${source}" hash)
  get_filename_component(name ${source} NAME)
  list(APPEND lines "${name} ${hash}")
endforeach()
list(SORT lines)
string(SHA256 hash "${SALT};${lines}")
file(CONFIGURE OUTPUT ${OUT} CONTENT "#define PRESIL_SIM_RTL_HASH \"${hash}\"\n")
