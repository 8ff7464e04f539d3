# SPDX-License-Identifier: Apache-2.0
# The driver's core: allocators against naive models, queue, events, errors, the three modes on a transport without a
# simulator, the stub chip on its RTL.
set(core_libraries ${CMAKE_CURRENT_BINARY_DIR}/libraries)
function(presil_test_library name source)
  add_library(${name} MODULE ${source})
  target_compile_options(${name} PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wconversion)
  set_target_properties(${name} PROPERTIES C_STANDARD 11 C_STANDARD_REQUIRED ON C_VISIBILITY_PRESET hidden
      LIBRARY_OUTPUT_DIRECTORY ${core_libraries})
  target_include_directories(${name} PRIVATE ${CMAKE_CURRENT_LIST_DIR}
      ${CMAKE_CURRENT_LIST_DIR}/../../driver/include ${CMAKE_CURRENT_LIST_DIR}/../../driver/chip
      ${CMAKE_CURRENT_LIST_DIR}/../../driver/chip/registers)
  target_link_libraries(${name} PRIVATE ${CMAKE_DL_LIBS} ${ARGN})
endfunction()
presil_test_library(presil_sim_tiny_soft ${CMAKE_CURRENT_LIST_DIR}/soft_transport.c presil_twin m)
presil_test_library(presil_sim_tiny_nomap ${CMAKE_CURRENT_LIST_DIR}/transport_nomap.c)
presil_test_library(presil_sim_tiny_iommu ${CMAKE_CURRENT_LIST_DIR}/transport_iommu.c)
presil_test_library(presil_sim_tiny_lacking ${CMAKE_CURRENT_LIST_DIR}/transport_lacking.c)
presil_test_library(presil_chip_stub ${CMAKE_CURRENT_LIST_DIR}/../chip_stub/chip_stub.c)
presil_test_library(presil_sim_paper_fast ${CMAKE_CURRENT_LIST_DIR}/paper_chip.c)
presil_test_library(presil_chip_paper ${CMAKE_CURRENT_LIST_DIR}/paper_chip.c)

# presil_core_test(NAME LIBRARIES...): test_core_NAME.c
function(presil_core_test name)
  presil_c_test(core_${name} "test_core_${name}.c;core_fixture.c" "presil_static;${ARGN}")
  add_dependencies(test_core_${name} presil_sim_tiny_soft presil_sim_tiny_nomap presil_chip_stub)
  set_tests_properties(c_core_${name} PROPERTIES ENVIRONMENT
    "PRESIL_LIBRARY_PATH=${core_libraries}:${CMAKE_BINARY_DIR}/lib;PRESIL_MEMORY=;\
PRESIL_NOMAP_LIBRARY=${core_libraries}/libpresil_sim_tiny_soft.so")
endfunction()
presil_core_test(spad presil_chip_static)
presil_core_test(heap)
presil_core_test(memory)
presil_core_test(queue)
presil_core_test(errors)
presil_core_test(verify)
presil_core_test(capture)
target_link_options(test_core_capture PRIVATE -Wl,--wrap=presil_tensors_new,--wrap=ranges_merge)
presil_core_test(submit presil_chip_static)
presil_core_test(image)
presil_core_test(moved)
presil_core_test(weights)
presil_core_test(lost)
presil_core_test(boxes)
presil_core_test(strides)
presil_core_test(overlap)
presil_core_test(seam)
presil_core_test(io_map)
add_dependencies(test_core_io_map presil_sim_tiny_iommu)
set_property(TEST c_core_io_map APPEND PROPERTY ENVIRONMENT
  "PRESIL_IO_LIBRARY=$<TARGET_FILE:presil_sim_tiny_iommu>")
foreach(name op layouts packed_lists scratch in_flight)
  presil_core_test(${name})
  add_dependencies(test_core_${name} presil_sim_paper_fast presil_chip_paper)
  set_property(TEST c_core_${name} APPEND PROPERTY ENVIRONMENT
    "PRESIL_PAPER_LIBRARY=$<TARGET_FILE:presil_sim_paper_fast>;\
PRESIL_PAPER_CHIP=$<TARGET_FILE:presil_chip_paper>;PRESIL_OUR_CHIP=$<TARGET_FILE:presil_chip_presil>")
endforeach()
add_dependencies(test_core_seam presil_sim_tiny_lacking)
if(TARGET presil_sim_stub_fast)
  presil_core_test(stub)
  add_dependencies(test_core_stub presil_sim_stub_fast presil_sim_stub_check)
endif()
if(TARGET presil_sim_tiny_fast)
  presil_core_test(rtl presil_chip_static)
  presil_core_test(why presil_chip_static)
  presil_core_test(windows presil_chip_static)
  presil_core_test(records presil_chip_static)
  add_dependencies(test_core_windows presil_sim_tiny_fast)
  add_dependencies(test_core_records presil_sim_tiny_fast)
  add_dependencies(test_core_why presil_sim_tiny_fast)
  add_dependencies(test_core_rtl presil_sim_tiny_fast)
  presil_c_test(performance test_performance.c "presil;m")
  add_dependencies(test_performance presil_sim_tiny_fast presil_chip_presil)
  set_tests_properties(c_performance PROPERTIES ENVIRONMENT
    "PRESIL_LIBRARY_PATH=${CMAKE_BINARY_DIR}/lib;PRESIL_MEMORY=;\
PRESIL_TINY_LIBRARY=$<TARGET_FILE:presil_sim_tiny_fast>")
  set_property(TEST c_core_rtl c_core_records APPEND PROPERTY
    ENVIRONMENT "PRESIL_TINY_LIBRARY=$<TARGET_FILE:presil_sim_tiny_fast>")
endif()

# Bundles from launches, and launches from bundles.
if(TARGET presil-replay)
  add_executable(test_capture test_capture.c core_fixture.c)
  set_target_properties(test_capture PROPERTIES C_STANDARD 11)
  target_compile_options(test_capture PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wconversion)
  target_link_libraries(test_capture PRIVATE presil_capture presil presil_bundle presil_generated cmocka)
  add_dependencies(test_capture presil-replay presil-replay-static presil_sim_tiny_soft presil_sim_tiny_nomap
    presil_sim_paper_fast presil_chip_paper)
  add_test(NAME c_capture COMMAND test_capture)
  set_tests_properties(c_capture PROPERTIES LABELS c TIMEOUT 120 ENVIRONMENT
    "PRESIL_LIBRARY_PATH=${core_libraries}:${CMAKE_BINARY_DIR}/lib;PRESIL_MEMORY=;\
PRESIL_REPLAY=$<TARGET_FILE:presil-replay>;\
PRESIL_REPLAY_STATIC=$<TARGET_FILE:presil-replay-static>;\
PRESIL_PAPER_LIBRARY=$<TARGET_FILE:presil_sim_paper_fast>;\
PRESIL_NOMAP_LIBRARY=${core_libraries}/libpresil_sim_tiny_soft.so")
  if(TARGET presil_sim_tiny_fast)
    add_dependencies(test_capture presil_sim_tiny_fast)
    set_property(TEST c_capture APPEND PROPERTY ENVIRONMENT "PRESIL_TINY_LIBRARY=$<TARGET_FILE:presil_sim_tiny_fast>")
  endif()
  presil_c_test(asked "test_asked.c;core_fixture.c" "presil_capture_static;presil_static;presil_bundle_static")
  add_dependencies(test_asked presil_sim_tiny_soft presil_chip_presil)
  set_tests_properties(c_asked PROPERTIES ENVIRONMENT "PRESIL_LIBRARY_PATH=${core_libraries};PRESIL_MEMORY=")
endif()
