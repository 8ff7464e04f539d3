# SPDX-License-Identifier: Apache-2.0
# Launches on several processes, on the soft transport. Under ThreadSanitizer its threads take a while.
presil_c_test(jobs "test_jobs.c;core_fixture.c;${CMAKE_CURRENT_LIST_DIR}/../../driver/jobs/processors.c"
    "presil_jobs;presil")
set_target_properties(test_jobs PROPERTIES ENABLE_EXPORTS ON) # its posix_fallocate is the library's, too
target_include_directories(test_jobs PRIVATE ${CMAKE_CURRENT_LIST_DIR}/../../driver/jobs)
add_dependencies(test_jobs presil-job presil_sim_tiny_soft presil_chip_presil)
set_tests_properties(c_jobs PROPERTIES ENVIRONMENT
    "PRESIL_LIBRARY_PATH=${core_libraries}:${CMAKE_BINARY_DIR}/lib;PRESIL_MEMORY=")
if(PRESIL_SANITIZE STREQUAL thread)
  set_property(TEST c_jobs APPEND PROPERTY ENVIRONMENT "PRESIL_JOBS_SECONDS=10;\
TSAN_OPTIONS=suppressions=${CMAKE_CURRENT_LIST_DIR}/tsan.supp:halt_on_error=0:second_deadlock_stack=1")
  set_property(TEST c_jobs PROPERTY LABELS threads)
endif()
