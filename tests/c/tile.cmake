# SPDX-License-Identifier: Apache-2.0
# The chip's half of the driver on the twin: plans against plain loops, the plan checker, weight packing. Every plan
# is checked (PRESIL_CHECK_PLANS).
set(driver ${CMAKE_CURRENT_LIST_DIR}/../../driver)
set(chip_sources)
if(NOT PRESIL_CHECK_PLANS) # else the driver's own objects do
  file(GLOB chip_sources CONFIGURE_DEPENDS ${driver}/chip/*.c ${driver}/chip/*/*.c)
endif()
add_library(presil_tile_fixture STATIC ${chip_sources} ${CMAKE_CURRENT_LIST_DIR}/tile_fixture.c)
set_target_properties(presil_tile_fixture PROPERTIES C_STANDARD 11 C_STANDARD_REQUIRED ON)
target_compile_definitions(presil_tile_fixture PRIVATE _GNU_SOURCE PRESIL_CHECK_PLANS)
target_compile_options(presil_tile_fixture PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wconversion)
if(PRESIL_SANITIZE)
  target_compile_options(presil_tile_fixture PRIVATE -O2) # its plain loops are a third of the time
endif()
target_include_directories(presil_tile_fixture PUBLIC ${driver}/include ${driver}/chip ${driver}/chip/asked
    ${driver}/chip/problem ${driver}/chip/plan ${driver}/chip/tiling
    ${driver}/chip/performance ${driver}/chip/descriptors ${driver}/chip/registers
    ${CMAKE_CURRENT_LIST_DIR})
find_package(Threads REQUIRED)
target_link_libraries(presil_tile_fixture PUBLIC $<$<BOOL:${PRESIL_CHECK_PLANS}>:presil_chip_static> presil_twin
  presil_generated Threads::Threads m)

# In parts: under a sanitizer all of it takes minutes.
set(parts 6)
presil_c_test(tile_conv "test_tile_conv.c" presil_tile_fixture 0 ${parts})
math(EXPR last "${parts} - 1")
foreach(part RANGE 1 ${last})
  add_test(NAME c_tile_conv_${part} COMMAND test_tile_conv ${part} ${parts})
  set_tests_properties(c_tile_conv_${part} PROPERTIES LABELS c TIMEOUT 300)
endforeach()
presil_c_test(tile_matmul "test_tile_matmul.c" presil_tile_fixture)
presil_c_test(tile_grad "test_tile_grad.c" presil_tile_fixture)
presil_c_test(tile_check "test_tile_check.c" presil_tile_fixture)
presil_c_test(tile_footprint "test_tile_footprint.c" presil_tile_fixture)
presil_c_test(tile_share "test_tile_share.c" presil_tile_fixture)
presil_c_test(tile_prove "test_tile_prove.c" presil_tile_fixture)
presil_c_test(tile_merge "test_tile_merge.c" presil_tile_fixture)
presil_c_test(tile_usage "test_tile_usage.c" presil_tile_fixture)
presil_c_test(tile_moved "test_tile_moved.c" presil_tile_fixture)
