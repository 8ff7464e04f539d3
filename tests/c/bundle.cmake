# SPDX-License-Identifier: Apache-2.0
# Bundles (driver/bundle): the C library, its files torn and damaged, and the tool. tests/bundle has Python's reader.
set(BUNDLE_GOLDEN ${CMAKE_CURRENT_LIST_DIR}/../bundle/version1.presil)
presil_c_test(bundle "test_bundle.c;bundle_fixture.c" presil_bundle_static)
presil_c_test(bundle_torn "test_bundle_torn.c;bundle_fixture.c" presil_bundle_static ${BUNDLE_GOLDEN})
presil_c_test(fuzz_bundle "test_fuzz_bundle.c;bundle_fixture.c;bundle_bend.c" "presil_bundle_static;presil_fuzz")

# presil-replay without its main(), in one process with what bends its bundles
set(replay ${CMAKE_CURRENT_LIST_DIR}/../../driver/replay)
set(replay_sources bisect compare_writes export_sv junit minimize operator print run_launch sizes smaller testbench way)
list(TRANSFORM replay_sources PREPEND ${replay}/)
list(TRANSFORM replay_sources APPEND .c)
presil_c_test(fuzz_replay "test_fuzz_replay.c;core_fixture.c;bundle_fixture.c;bundle_bend.c;${replay_sources}"
  "presil_capture_static;presil_static;presil_bundle_static;presil_generated;presil_fuzz")
target_include_directories(test_fuzz_replay PRIVATE ${replay})
add_dependencies(test_fuzz_replay presil_sim_tiny_soft presil_chip_presil)
set_tests_properties(c_fuzz_replay PROPERTIES ENVIRONMENT "PRESIL_LIBRARY_PATH=${core_libraries};PRESIL_MEMORY=")

add_executable(bench_bundle bench_bundle.c)
set_target_properties(bench_bundle PROPERTIES C_STANDARD 11)
target_link_libraries(bench_bundle PRIVATE presil_bundle_static)
