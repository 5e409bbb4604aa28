/* Loads every bundle whose directory it reads from standard input, and answers a line: the status and its message.
 *
 * What a damaged graph asks of a kernel is not the kernel's fault, so the kernels are replaced by one that does nothing. All
 * tensors are copied out, which reads the first and the last element of every buffer. Build it with sanitizers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

static int32_t nothing(const sterna_call *call, uint32_t first, uint32_t last) {
  volatile uint8_t sum = 0;
  if (call->scratch != NULL) sum = (uint8_t)(sum + call->scratch[0]);
  if (call->params != NULL) sum = (uint8_t)(sum + call->params[0]);
  (void)sum;
  return first <= last ? 0 : -1;
}

static void look_at(sterna_model *model) {
  for (uint32_t i = 0; i < model->n_nodes; i++) model->nodes[i].function = nothing;
  if (sterna_run(model) != STERNA_OK) abort();
  for (uint32_t i = 0; i < model->n_inputs; i++) {
    sterna_tensor tensor;
    if (sterna_input_info(model, i, &tensor) != STERNA_OK) abort();
    memset(sterna_input_buffer(model, i), 1, tensor.bytes);
  }
  for (uint32_t i = 0; i < model->n_values; i++) {
    sterna_tensor tensor;
    if (sterna_value_info(model, i, &tensor) != STERNA_OK) abort();
    void *copy = malloc(tensor.bytes + (tensor.bytes == 0));
    if (copy != NULL) (void)sterna_value_copy(model, i, copy, tensor.bytes);
    free(copy);
  }
}

int main(void) {
  char directory[4096];
  while (fgets(directory, sizeof directory, stdin) != NULL) {
    directory[strcspn(directory, "\n")] = 0;
    sterna_options options;
    sterna_error error;
    sterna_model *model;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.threads = 2;
    sterna_status status = sterna_load(directory, &options, &model, &error);
    if ((status == STERNA_OK) != (model != NULL) || (status != STERNA_OK && error.message[0] == 0)) abort();
    if (model != NULL) look_at(model);
    sterna_unload(model);
    printf("%s %s\n", sterna_status_name(status), error.message);
    (void)fflush(stdout);
  }
  return 0;
}
