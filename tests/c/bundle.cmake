# SPDX-License-Identifier: Apache-2.0
# Bundles (driver/bundle): the C library, its files torn and damaged, and the tool. tests/bundle has Python's reader.
set(BUNDLE_GOLDEN ${CMAKE_CURRENT_LIST_DIR}/../bundle/version1.presil)
presil_c_test(bundle "test_bundle.c;bundle_fixture.c" presil_bundle_static)
presil_c_test(bundle_torn "test_bundle_torn.c;bundle_fixture.c" presil_bundle_static ${BUNDLE_GOLDEN})
presil_c_test(fuzz_bundle "test_fuzz_bundle.c;bundle_fixture.c" "presil_bundle_static;presil_fuzz")

add_executable(bench_bundle bench_bundle.c)
set_target_properties(bench_bundle PROPERTIES C_STANDARD 11)
target_link_libraries(bench_bundle PRIVATE presil_bundle_static)
