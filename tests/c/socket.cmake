# SPDX-License-Identifier: Apache-2.0
# The socket transport: devices over a server in this process, scripted peers, and the fuzzers of both ends.
set(socket_sources ${CMAKE_CURRENT_LIST_DIR}/../../driver/socket)

add_library(presil_socket_fixture STATIC ${CMAKE_CURRENT_LIST_DIR}/socket_fixture.c)
set_target_properties(presil_socket_fixture PROPERTIES C_STANDARD 11 C_STANDARD_REQUIRED ON)
target_compile_options(presil_socket_fixture PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wconversion)
target_include_directories(presil_socket_fixture PUBLIC ${CMAKE_CURRENT_LIST_DIR} ${socket_sources}
    ${socket_sources}/serve)
target_link_libraries(presil_socket_fixture PUBLIC presil_static presil_serve_static cmocka)

function(presil_socket_test name sources)
  presil_c_test(${name} "${sources}" presil_socket_fixture)
  add_dependencies(test_${name} presil_sim_tiny_soft)
  set_tests_properties(c_${name} PROPERTIES ENVIRONMENT
      "PRESIL_LIBRARY_PATH=${core_libraries}:${CMAKE_BINARY_DIR}/lib;PRESIL_MEMORY=;\
PRESIL_SOFT_LIBRARY=${core_libraries}/libpresil_sim_tiny_soft.so")
endfunction()
presil_socket_test(socket "test_socket.c;core_fixture.c")
presil_socket_test(socket_peer test_socket_peer.c)
presil_socket_test(socket_fuzz test_socket_fuzz.c)

# Four threads on one device; under ThreadSanitizer (preset tsan) it is the point, and takes a minute.
presil_socket_test(threads "test_threads.c;core_fixture.c")
if(PRESIL_SANITIZE STREQUAL thread)
  set_property(TEST c_threads APPEND PROPERTY ENVIRONMENT
      "PRESIL_THREADS_SECONDS=60;\
TSAN_OPTIONS=suppressions=${CMAKE_CURRENT_LIST_DIR}/tsan.supp:halt_on_error=0:second_deadlock_stack=1")
  set_property(TEST c_threads PROPERTY LABELS threads)
endif()

# What moves where memory is not mapped, over nomap and over a socket.
presil_socket_test(core_residency "test_core_residency.c;core_fixture.c")
add_dependencies(test_core_residency presil_sim_tiny_nomap)
set_property(TEST c_core_residency APPEND PROPERTY ENVIRONMENT
    "PRESIL_NOMAP_LIBRARY=${core_libraries}/libpresil_sim_tiny_soft.so")
