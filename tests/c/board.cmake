# SPDX-License-Identifier: Apache-2.0
# The transport `board`: by itself over plain files, and devices over software boards (tests/board).
add_executable(soft-board ${CMAKE_CURRENT_LIST_DIR}/../board/soft_board.c)
target_compile_options(soft-board PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wconversion)
set_target_properties(soft-board PROPERTIES C_STANDARD 11 C_STANDARD_REQUIRED ON)
target_include_directories(soft-board PRIVATE ${CMAKE_CURRENT_LIST_DIR}/../../driver/board
    ${CMAKE_CURRENT_LIST_DIR}/../../driver/include)
target_link_libraries(soft-board PRIVATE ${CMAKE_DL_LIBS})

presil_c_test(board_files test_board_files.c presil_static)
presil_c_test(board "test_board.c;board_fixture.c;core_fixture.c" presil_static)
add_dependencies(test_board soft-board presil_sim_tiny_soft)
set_tests_properties(c_board PROPERTIES ENVIRONMENT
    "PRESIL_LIBRARY_PATH=${core_libraries}:${CMAKE_BINARY_DIR}/lib;PRESIL_MEMORY=;\
PRESIL_SOFT_BOARD=$<TARGET_FILE:soft-board>;PRESIL_SOFT_LIBRARY=${core_libraries}/libpresil_sim_tiny_soft.so")
