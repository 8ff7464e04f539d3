/* SPDX-License-Identifier: Apache-2.0 */
/* The driver alone, in C: opens the twin and closes it. Status 0: it said what chip it is. */
#include <presil.h>
#include <stdio.h>

int main(void) {
  presil_device_options options = {.size = sizeof options, .mode = PRESIL_MODE_MODEL};
  presil_device* device = NULL;
  presil_device_info info = {.size = sizeof info};
  if (presil_device_open(&options, &device) != PRESIL_OK || presil_device_get_info(device, &info) != PRESIL_OK) {
    fprintf(stderr, "driver_only: %s\n", presil_error_text());
    return 1;
  }
  printf("%s %u lanes\n", info.config, info.lanes);
  presil_device_close(device);
  return 0;
}
