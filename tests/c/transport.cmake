# SPDX-License-Identifier: Apache-2.0
# The stub chip's simulator libraries, and the test of the transport on them.
if(DEFINED PRESIL_WITH_SIM AND NOT PRESIL_WITH_SIM)
  return()
endif()
include(${CMAKE_CURRENT_LIST_DIR}/../../sim/presil_add_chip.cmake)
presil_add_chip(NAME stub TOP presil_stub_top CHIP stub CLOCK_MHZ 500 BUILDS fast check trace SCRAMBLE __buffer$
                SOURCES ${CMAKE_CURRENT_LIST_DIR}/../rtl/presil_stub_top.sv)

# For presil conform, beside the libraries.
configure_file(${CMAKE_CURRENT_LIST_DIR}/../chip_stub/stub.conform.toml ${CMAKE_BINARY_DIR}/lib/stub.conform.toml
  COPYONLY)

# A master of any bursts, on buses and with IDs of several widths.
set(burst_top ${CMAKE_CURRENT_LIST_DIR}/../rtl/presil_burst_top.sv)
set(words 4 16 128)
set(ids 1 8 32)
foreach(word id IN ZIP_LISTS words ids)
  presil_add_chip(NAME burst${word} TOP presil_burst_top CHIP burst PARAMETERS WORD=${word} ID=${id}
    SOURCES ${burst_top})
endforeach()
presil_add_chip(NAME burst TOP presil_burst_top CHIP burst BUILDS check PARAMETERS ID=9 SOURCES ${burst_top})
set(bursts presil_sim_burst4_fast presil_sim_burst16_fast presil_sim_burst128_fast presil_sim_burst_check)

if(PRESIL_DPI_CONFIGS)
  presil_add_dpi_simulator(burst 1000 ${burst_top} TOP presil_burst_top CHIP burst MAP "clocks.clk = 1"
    PARAMETERS ID=32)
  presil_add_dpi_simulator(burst16 1000 ${burst_top} TOP presil_burst_top CHIP burst MAP "clocks.clk = 1"
    PARAMETERS WORD=16 ID=16)
endif()

# Chips with other ports than presil_top's (docs/ports.md, tests/transport/test_ports.py).
set(r ${CMAKE_CURRENT_LIST_DIR}/../rtl)
set(ports_apb TOP presil_ports_apb_top PORTS ${r}/presil_ports_apb.toml)
set(ports_csb TOP presil_ports_csb_top PORTS ${r}/presil_ports_csb.toml FILE_LISTS ${r}/presil_ports_csb.f DEFINES
  PORTS_BITS=128)
set(ports_many TOP presil_ports_many_top PORTS ${r}/presil_ports_many.toml)
set(ports_apb_sources ${r}/presil_ports_core.sv ${r}/presil_ports_apb_top.sv)
set(ports_many_sources ${r}/presil_ports_core.sv ${r}/presil_ports_many_top.sv)
foreach(chip apb csb many)
  presil_add_chip(NAME ports_${chip} ${ports_${chip}} CHIP ports BUILDS fast check SOURCES
    ${ports_${chip}_sources})
endforeach()
if(PRESIL_DPI_CONFIGS)
  presil_add_dpi_simulator(ports_many 1000 ${ports_many_sources} ${ports_many} CHIP ports)
endif()

if(PRESIL_SYSTEMC_CONFIGS)
  include(${CMAKE_CURRENT_LIST_DIR}/../../sim/presil_add_sc_chip.cmake)
  presil_add_sc_chip(NAME stub TOP presil_stub_top CHIP stub CLOCK_MHZ 500 BUILDS fast trace SOURCES
      ${CMAKE_CURRENT_LIST_DIR}/../rtl/presil_stub_top.sv)
  presil_add_sc_chip(NAME ports_many ${ports_many} CHIP ports BUILDS fast SOURCES ${ports_many_sources})
  presil_add_sc_chip(NAME burst TOP presil_burst_top CHIP burst BUILDS fast check PARAMETERS ID=32
    SOURCES ${burst_top})
endif()

add_executable(test_transport ${CMAKE_CURRENT_LIST_DIR}/test_transport.c)
set_target_properties(test_transport PROPERTIES C_STANDARD 11)
target_include_directories(test_transport PRIVATE ${CMAKE_CURRENT_LIST_DIR}/../../driver/include)
target_link_libraries(test_transport PRIVATE cmocka pthread ${CMAKE_DL_LIBS})
add_dependencies(test_transport presil_sim_stub_fast presil_sim_stub_check presil_sim_stub_trace)
add_test(NAME c_transport COMMAND test_transport $<TARGET_FILE:presil_sim_stub_fast>
    $<TARGET_FILE:presil_sim_stub_check> $<TARGET_FILE:presil_sim_stub_trace>)
set_tests_properties(c_transport PROPERTIES LABELS c TIMEOUT 120)

foreach(name bursts memory_model)
  list(TRANSFORM bursts REPLACE "(.+)" "$<TARGET_FILE:\\1>" OUTPUT_VARIABLE files)
  presil_c_test(${name} "test_${name}.c;burst_rig.c" presil_static ${files})
  add_dependencies(test_${name} ${bursts})
  foreach(build fast check)  # a process each: it has one SystemC kernel
    if(TARGET presil_sc_burst_${build})
      add_dependencies(test_${name} presil_sc_burst_${build})
      add_test(NAME c_${name}_systemc_${build} COMMAND test_${name} $<TARGET_FILE:presil_sc_burst_${build}>)
      set_tests_properties(c_${name}_systemc_${build} PROPERTIES LABELS c TIMEOUT 120)
    endif()
  endforeach()
endforeach()

add_executable(test_axi_monitor test_axi_monitor.cpp)
set_target_properties(test_axi_monitor PROPERTIES CXX_STANDARD 17 CXX_STANDARD_REQUIRED ON)
target_compile_options(test_axi_monitor PRIVATE -Wall -Wextra -Wshadow)
target_include_directories(test_axi_monitor PRIVATE ${PRESIL_SIM_DIR}/common ${PRESIL_SIM_DIR}/harness)
target_link_libraries(test_axi_monitor PRIVATE cmocka)
add_test(NAME c_axi_monitor COMMAND test_axi_monitor)
set_tests_properties(c_axi_monitor PROPERTIES LABELS c TIMEOUT 60)

add_executable(test_dram_timing test_dram_timing.cpp ${PRESIL_SIM_DIR}/common/dram_timing.cpp)
set_target_properties(test_dram_timing PROPERTIES CXX_STANDARD 17 CXX_STANDARD_REQUIRED ON)
target_compile_options(test_dram_timing PRIVATE -Wall -Wextra -Wshadow)
target_include_directories(test_dram_timing PRIVATE ${PRESIL_SIM_DIR}/common)
target_link_libraries(test_dram_timing PRIVATE cmocka)
add_test(NAME c_dram_timing COMMAND test_dram_timing)
set_tests_properties(c_dram_timing PROPERTIES LABELS c TIMEOUT 60)

# What a transport throws: the guard of sim/harness, and that both tables are made of it (tests/lint/test_tree.py).
add_executable(test_guard ${CMAKE_CURRENT_LIST_DIR}/test_guard.cpp)
target_include_directories(test_guard PRIVATE ${CMAKE_CURRENT_LIST_DIR}/../../driver/include
  ${CMAKE_CURRENT_LIST_DIR}/../../sim/harness)
add_test(NAME c_guard COMMAND test_guard)
set_tests_properties(c_guard PROPERTIES LABELS c TIMEOUT 60)
