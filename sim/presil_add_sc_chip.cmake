# SPDX-License-Identifier: Apache-2.0
# presil_add_sc_chip: verilates a top module with the ports of presil_top (docs/rtl.md), or with a map of its own ones
# (docs/ports.md), as a SystemC module between TLM-2.0 bridges (docs/systemc.md).
#
#   presil_add_sc_chip(NAME mychip TOP my_top SOURCES a.sv b.sv ... [CONFIG base] [CHIP presil] [CLOCK_MHZ 1000]
#   [BUILDS fast check trace] [INCLUDE dirs...]
#                      [PARAMETERS WORD=32 ...] [SCRAMBLE regex] [TRAIN command...] [DEPENDS files...] [PORTS map.toml]
#                      [MAP "key = value"...])
#
# Arguments as of presil_add_chip. Each build becomes the target presil_sc_<NAME>_<build>:
# libpresil_sim_<NAME>_systemc.so (fast), _systemc_check, _systemc_trace.
# Such a library exports the chip (sim/systemc/chip_module.h), for presil-vp and presil_tlm.h, and
# presil_transport_entry: the default platform around it.
include_guard(GLOBAL)
include(${CMAKE_CURRENT_LIST_DIR}/presil_add_chip.cmake)

function(_presil_find_systemc)
  if(TARGET presil_systemc_kernel)
    return()
  endif()
  find_path(PRESIL_SYSTEMC_INCLUDE systemc.h)
  find_library(PRESIL_SYSTEMC systemc)
  if(NOT PRESIL_SYSTEMC_INCLUDE OR NOT PRESIL_SYSTEMC)
    message(FATAL_ERROR "SystemC not found: install libsystemc-dev, or configure without PRESIL_SYSTEMC_CONFIGS")
  endif()
  add_library(presil_systemc_kernel INTERFACE)
  target_include_directories(presil_systemc_kernel SYSTEM INTERFACE ${PRESIL_SYSTEMC_INCLUDE})
  target_compile_features(presil_systemc_kernel INTERFACE cxx_std_17)
  target_link_libraries(presil_systemc_kernel INTERFACE ${PRESIL_SYSTEMC} Threads::Threads)
endfunction()

function(_presil_add_sc_library build)
  set(target presil_sc_${A_NAME}_${build})
  set(mdir ${CMAKE_CURRENT_BINARY_DIR}/${target}.dir/model)
  _presil_add_runtime(presil_sc_runtime_${build} ${build} 1)
  target_include_directories(presil_sc_runtime_${build} PUBLIC ${PRESIL_SIM_DIR}/systemc)
  target_link_libraries(presil_sc_runtime_${build} PUBLIC presil_systemc_kernel)
  set(runtime presil_sc_runtime_${build} presil_systemc)
  _presil_verilator_flags(${build} flags)
  list(TRANSFORM flags REPLACE "^--cc$" "--sc")
  list(TRANSFORM A_PARAMETERS PREPEND -G OUTPUT_VARIABLE parameters)
  set(trim)
  if(PRESIL_SIM_TRIM AND NOT build STREQUAL "check")
    set(trim COMMAND ${Python3_EXECUTABLE} ${PRESIL_SIM_DIR}/trim.py ${mdir} > ${mdir}/trim.log)
  endif()
  string(REPLACE ";" " " cflags "-std=gnu++17 -fPIC -fvisibility=hidden -fno-gnu-unique ${PRESIL_MODEL_CXXFLAGS}")
  get_filename_component(systemc_library_dir ${PRESIL_SYSTEMC} DIRECTORY)
  add_custom_command(OUTPUT ${mdir}/Vchip.mk BYPRODUCTS ${mdir}/Vchip.h ${mdir}/Vchip___024root.h
    COMMAND ${CMAKE_COMMAND} -E rm -rf ${mdir}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${mdir}
    COMMAND ${CMAKE_COMMAND} -E env VERILATOR_ROOT=${VERILATOR_ROOT} SYSTEMC_INCLUDE=${PRESIL_SYSTEMC_INCLUDE}
            SYSTEMC_LIBDIR=${systemc_library_dir} ${PRESIL_VERILATOR} ${flags}
            --pins-bv 65 --quiet --Mdir ${mdir} --top-module ${A_TOP} -CFLAGS "${cflags}" ${A_FLAGS} ${parameters}
            ${A_SOURCES}
    ${trim}
    DEPENDS ${A_SOURCES} ${A_DEPENDS} ${PRESIL_SIM_DIR}/trim.py
    COMMENT "Verilating ${A_NAME} for SystemC (${build})" VERBATIM)
  add_custom_target(${target}_verilate DEPENDS ${mdir}/Vchip.mk)
  # The bridges, as objects: the library for training links them too.
  set(s ${PRESIL_SIM_DIR}/systemc)
  add_library(${target}_harness OBJECT EXCLUDE_FROM_ALL ${s}/rtl_chip.cpp ${s}/entry.cpp)
  add_dependencies(${target}_harness ${target}_verilate)
  _presil_use_ports()
  _presil_add_rtl_hash()
  if(build STREQUAL "fast" AND PRESIL_SIM_PGO AND A_TRAIN)
    _presil_train_model()
    set_target_properties(${target}_train PROPERTIES BUILD_RPATH ${CMAKE_LIBRARY_OUTPUT_DIRECTORY})
    _presil_compile_model("-fprofile-use=${mdir}/profile -fprofile-partial-training -Wno-missing-profile" libVchip.a
      "${mdir}/profile/trained" ", SystemC")
  else()
    _presil_compile_model("" libVchip.a "" ", SystemC")
  endif()
  add_custom_target(${target}_model DEPENDS ${mdir}/libVchip.a)
  add_library(${target} MODULE $<TARGET_OBJECTS:${target}_harness>)
  add_dependencies(${target} ${target}_model)
  set(suffix)
  if(NOT build STREQUAL "fast")
    set(suffix _${build})
  endif()
  set_target_properties(${target} PROPERTIES OUTPUT_NAME presil_sim_${A_NAME}_systemc${suffix} LINKER_LANGUAGE CXX
    LINK_DEPENDS "${mdir}/libVchip.a" BUILD_RPATH "$ORIGIN"
                        INSTALL_RPATH "$ORIGIN")
  set_target_properties(${target}_harness PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_STANDARD 17 CXX_STANDARD_REQUIRED
    ON CXX_EXTENSIONS ON)
  target_include_directories(${target}_harness SYSTEM PRIVATE ${mdir})
  target_compile_definitions(${target}_harness PRIVATE PRESIL_SIM_CHIP="${A_CHIP}" PRESIL_SIM_CONFIG="${A_CONFIG}"
    PRESIL_SIM_BUILD="systemc${suffix}" PRESIL_SIM_CLOCK_MHZ=${A_CLOCK_MHZ})
  target_compile_options(${target}_harness PRIVATE -O3 ${PRESIL_MODEL_CXXFLAGS} -fno-gnu-unique -Wall -Wextra)
  target_link_libraries(${target}_harness PRIVATE ${runtime})
  target_link_libraries(${target} PRIVATE ${mdir}/libVchip.a ${runtime})
  target_link_options(${target} PRIVATE -Wl,--no-undefined -Wl,--build-id=sha1 ${PRESIL_MODEL_LINK_OPTIONS})
  _presil_add_scramble()
endfunction()

function(presil_add_sc_chip)
  _presil_take_arguments(presil_add_sc_chip ${ARGN})
  _presil_find_systemc()
  _presil_add_ports()
  foreach(build IN LISTS A_BUILDS)
    _presil_add_sc_library(${build})
  endforeach()
endfunction()
