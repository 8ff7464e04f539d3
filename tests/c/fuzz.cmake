# SPDX-License-Identifier: Apache-2.0
# Fuzzers of what is read from elsewhere, with a budget of time and memory (fuzz.h). Seed 1 and few cases here; the
# nightly stage runs more of them with a seed of the day.
set(FUZZ_WRAP -Wl,--wrap=malloc -Wl,--wrap=calloc -Wl,--wrap=realloc -Wl,--wrap=free)
add_library(presil_fuzz STATIC ${CMAKE_CURRENT_LIST_DIR}/fuzz.c)
set_target_properties(presil_fuzz PROPERTIES C_STANDARD 11 C_STANDARD_REQUIRED ON)
target_compile_options(presil_fuzz PRIVATE -Wall -Wextra -Wshadow -Wconversion)
target_include_directories(presil_fuzz PUBLIC ${CMAKE_CURRENT_LIST_DIR})
target_link_options(presil_fuzz PUBLIC ${FUZZ_WRAP})

set(aot_sources ${CMAKE_CURRENT_LIST_DIR}/../../driver/aot)
set(program_sources ${aot_sources}/program.c ${aot_sources}/host_steps.c ${aot_sources}/placed.c ${aot_sources}/npy.c)
presil_c_test(fuzz_program "test_fuzz_program.c;core_fixture.c;${program_sources}"
  "presil_static;presil_generated;presil_fuzz")
target_include_directories(test_fuzz_program PRIVATE ${aot_sources})
add_dependencies(test_fuzz_program presil_sim_tiny_soft)
set_tests_properties(c_fuzz_program PROPERTIES ENVIRONMENT "PRESIL_LIBRARY_PATH=${core_libraries};PRESIL_MEMORY=")

set(vp_sources ${CMAKE_CURRENT_LIST_DIR}/../../sim)
add_executable(test_fuzz_config ${CMAKE_CURRENT_LIST_DIR}/test_fuzz_config.cpp ${vp_sources}/systemc/config.cpp
  ${vp_sources}/harness/transport_settings.cpp ${vp_sources}/common/dram_timing.cpp)
set_target_properties(test_fuzz_config PROPERTIES CXX_STANDARD 17 CXX_STANDARD_REQUIRED ON)
target_compile_options(test_fuzz_config PRIVATE -Wall -Wextra)
target_include_directories(test_fuzz_config PRIVATE ${vp_sources}/systemc ${vp_sources}/harness ${vp_sources}/common)
target_link_libraries(test_fuzz_config PRIVATE presil_fuzz)
add_test(NAME c_fuzz_config COMMAND test_fuzz_config ${CMAKE_CURRENT_LIST_DIR}/../systemc/vp_tiny.ini)
set_tests_properties(c_fuzz_config PROPERTIES LABELS c TIMEOUT 300)

target_link_libraries(test_socket_fuzz PRIVATE presil_fuzz)
