/* Loads every bundle whose directory it reads from standard input, and answers a line: the status and its message.
 *
 * What a damaged graph asks of a kernel is not the kernel's fault, so the kernels are replaced by one that does nothing. All
 * tensors are copied out, which reads the first and the last element of every buffer, at the sizes of loading and at others.
 * Build it with sanitizers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz_check.h"
#include "internal.h"

static int32_t nothing(const sterna_call *call, uint32_t first, uint32_t last) {
  volatile uint8_t sum = 0;
  if (call->scratch != NULL) sum = (uint8_t)(sum + call->scratch[0]);
  if (call->params != NULL) sum = (uint8_t)(sum + call->params[0]);
  (void)sum;
  return first <= last ? 0 : -1;
}

static void look_at(sterna_model *model) {
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

static void resize(sterna_model *model) {
  uint64_t random = 88172645463325252u;
  for (int round = 0; round < 12 && model->n_dims > 0; round++) {
    int64_t sizes[256];
    for (uint32_t i = 0; i < model->n_dims; i++) {
      const sterna_dim *dim = &model->dims[i];
      random ^= random << 13, random ^= random >> 7, random ^= random << 17;
      uint64_t span = (uint64_t)(dim->hi - dim->lo) + 1;
      sizes[i] = round == 0 ? dim->lo : round == 1 ? dim->hi : dim->lo + (int64_t)(random % span);
    }
    uint64_t before = digest(model);
    sterna_status status = sterna_set_dims(model, sizes, model->n_dims);
    if (status == STERNA_OK)
      look_at(model);
    else if (model->error.message[0] == 0 || digest(model) != before)
      abort();
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
    if (model != NULL) {
      for (uint32_t i = 0; i < model->n_nodes; i++) model->nodes[i].function = nothing;
      look_at(model);
      resize(model);
    }
    sterna_unload(model);
    printf("%s %s\n", sterna_status_name(status), error.message);
    (void)fflush(stdout);
  }
  return 0;
}
