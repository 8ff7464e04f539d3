# SPDX-License-Identifier: Apache-2.0
# presil_add_dpi_simulator: a chip in a testbench of the DPI module (docs/dpi.md), built by `verilator --timing`, which
# stands in for other SystemVerilog simulators. Needs presil_add_chip.cmake and the target presil_dpi.
#
#   presil_add_dpi_simulator(NAME CLOCK_MHZ SOURCES... [TOP file] [DEFINES NAME=VALUE...])
#   presil_add_dpi_simulator(NAME CLOCK_MHZ SOURCES... TOP my_top CHIP mychip PORTS map.toml MAP "key = value"...
#                            [INCLUDE dirs...] [PARAMETERS WORD=32 ...] [DEFINES NAME=VALUE...] [FILE_LISTS a.f...])
#
# The program presil-dpi-<NAME>, target presil_dpi_<NAME>. TOP: a testbench of one's own, its file named as its module
# (default: presil_dpi_top, around presil_top). With PORTS or MAP (docs/ports.md) TOP is the name of the chip's module,
# and the testbench is made around it.
include_guard(GLOBAL)

# What every testbench links of Verilator, compiled once: as `--timing` needs it.
function(_presil_add_dpi_runtime)
  if(TARGET presil_dpi_runtime)
    return()
  endif()
  set(v ${VERILATOR_ROOT}/include)
  add_library(presil_dpi_runtime OBJECT EXCLUDE_FROM_ALL ${v}/verilated.cpp ${v}/verilated_dpi.cpp
    ${v}/verilated_timing.cpp ${v}/verilated_threads.cpp)
  set_target_properties(presil_dpi_runtime PROPERTIES CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS ON)
  target_include_directories(presil_dpi_runtime SYSTEM PRIVATE ${v} ${v}/vltstd)
  target_compile_definitions(presil_dpi_runtime PRIVATE VERILATOR=1 VM_COVERAGE=0 VM_SC=0 VM_TIMING=1 VM_TRACE=0
    VM_TRACE_FST=0 VM_TRACE_VCD=0 VM_TRACE_SAIF=0 VL_TIME_CONTEXT)
  target_compile_options(presil_dpi_runtime PRIVATE -O3 -fcoroutines)
endfunction()

function(presil_add_dpi_simulator config clock_mhz)
  cmake_parse_arguments(D "" "TOP;VHDL_TOP;PORTS;CHIP" "MAP;INCLUDE;PARAMETERS;DEFINES;FILE_LISTS" ${ARGN})
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  _presil_find_verilator()
  _presil_add_dpi_runtime()
  set(chip)
  list(TRANSFORM D_DEFINES PREPEND -D OUTPUT_VARIABLE includes)
  _presil_absolute(D_UNPARSED_ARGUMENTS)
  set(A_SOURCES ${D_UNPARSED_ARGUMENTS})
  if(D_PORTS OR D_MAP)
    set(A_NAME ${config})
    foreach(argument TOP VHDL_TOP PORTS MAP INCLUDE PARAMETERS DEFINES FILE_LISTS)
      set(A_${argument} ${D_${argument}})
    endforeach()
    _presil_add_ports()
    set(D_UNPARSED_ARGUMENTS ${A_SOURCES})
    set(D_TOP ${A_PORTS_DIR}/presil_ports_dpi_top.sv)
    set(chip "-GCHIP=\"${D_CHIP}\"")
    set(includes ${A_FLAGS})
  endif()
  if(NOT D_TOP)
    set(D_TOP ${PRESIL_SIM_DIR}/dpi/presil_dpi_top.sv)
  endif()
  get_filename_component(D_TOP ${D_TOP} ABSOLUTE)
  get_filename_component(top ${D_TOP} NAME_WE)
  set(dir ${CMAKE_BINARY_DIR}/sim/dpi/${config}.dir)
  string(REPLACE ";" " " cflags "${PRESIL_MODEL_CXXFLAGS}")
  set(libraries $<TARGET_FILE_DIR:presil_dpi>)
  set(runtime "$<JOIN:$<TARGET_OBJECTS:presil_dpi_runtime>, >")
  set(programs ${CMAKE_RUNTIME_OUTPUT_DIRECTORY})
  if(NOT programs)
    set(programs ${CMAKE_CURRENT_BINARY_DIR})
  endif()
  set(program ${programs}/presil-dpi-${config})
  set(sources ${D_UNPARSED_ARGUMENTS} ${PRESIL_SIM_DIR}/dpi/presil_dpi.sv ${D_TOP})
  add_custom_command(OUTPUT ${dir}/Vchip.mk
    COMMAND ${CMAKE_COMMAND} -E rm -rf ${dir}
    COMMAND ${CMAKE_COMMAND} -E env VERILATOR_ROOT=${VERILATOR_ROOT} ${PRESIL_VERILATOR} --cc --exe --main --timing
            --prefix Vchip
            ${PRESIL_VERILATOR_SPEED_FLAGS} --no-assert --x-assign fast --x-initial fast ${PRESIL_VERILATOR_WARNINGS}
            -Wno-TIMESCALEMOD
            --quiet --Mdir ${dir} --top-module ${top} -GCLOCK_MHZ=${clock_mhz} "-GCONFIG=\"${config}\""
            ${chip} ${includes} -CFLAGS
            "-std=gnu++20 -fcoroutines ${cflags}"
            -LDFLAGS "${runtime} -L${libraries} -lpresil_dpi -Wl,-rpath,${libraries}"
            ${sources}
    COMMAND ${Python3_EXECUTABLE} ${PRESIL_SIM_DIR}/trim.py ${dir} > ${dir}/trim.log
    DEPENDS ${sources} ${PRESIL_SIM_DIR}/trim.py
    COMMENT "Verilating the DPI testbench of ${config}" VERBATIM)
  add_custom_command(OUTPUT ${program}
    COMMAND ${CMAKE_COMMAND} -E env --unset=MAKEFLAGS --unset=MFLAGS ${PRESIL_MAKE} -s -C ${dir} -f Vchip.mk
            -j${PRESIL_SIM_JOBS} VERILATOR_ROOT=${VERILATOR_ROOT}
            CXX=${CMAKE_CXX_COMPILER} AR=${CMAKE_AR} PYTHON3=${Python3_EXECUTABLE}
            OBJCACHE=$<$<BOOL:${PRESIL_CCACHE}>:${PRESIL_CCACHE}> OPT_FAST=-O3 OPT_GLOBAL=-O3
            CFG_CXXFLAGS_PCH_I=-include VK_GLOBAL_OBJS= > ${dir}/make.log
    COMMAND ${CMAKE_COMMAND} -E make_directory ${programs}
    COMMAND ${CMAKE_COMMAND} -E copy ${dir}/Vchip ${program}
    DEPENDS ${dir}/Vchip.mk $<TARGET_FILE:presil_dpi> presil_dpi_runtime $<TARGET_OBJECTS:presil_dpi_runtime>
    JOB_POOL presil_model
    COMMENT "Compiling presil-dpi-${config}" VERBATIM)
  add_custom_target(presil_dpi_${config} ALL DEPENDS ${program})
endfunction()
