# SPDX-License-Identifier: Apache-2.0
# The timing store (driver/store). SQLite by itself makes the files that the store must refuse.
presil_c_test(store test_store.c "presil_store;${PRESIL_SQLITE};${CMAKE_DL_LIBS};m")
add_dependencies(test_store presil-store)
presil_c_test(store_estimate test_store_estimate.c "presil_store;${PRESIL_SQLITE};${CMAKE_DL_LIBS};m")
