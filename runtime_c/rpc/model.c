#include "model.h"

#include <stdlib.h>
#include <string.h>

#include "../port/port.h"
#include "device.h"

static void put_tensor(rpc_buffer *b, const sterna_tensor *t) {
  rpc_put_text(b, t->name);
  rpc_put_text(b, t->dtype);
  rpc_put_u32(b, t->rank);
  for (uint32_t i = 0; i < t->rank; i++) rpc_put_u64(b, (uint64_t)t->dims[i]);
  rpc_put_u64(b, t->bytes);
  rpc_put_u32(b, t->n_scales);
  rpc_put_u32(b, t->axis);
  for (uint32_t i = 0; i < t->n_scales; i++) {
    uint32_t bits;
    memcpy(&bits, t->scales + i, sizeof bits);
    rpc_put_u32(b, bits);
  }
  for (uint32_t i = 0; i < t->n_scales; i++) rpc_put_u32(b, (uint32_t)t->zero_points[i]);
  rpc_put_u32(b, t->n_labels);
  for (uint32_t i = 0; i < t->n_labels; i++) rpc_put_text(b, t->labels[i]);
}

typedef sterna_status (*tensor_info)(const sterna_model *, uint32_t, sterna_tensor *);

static sterna_status put_tensors(rpc_buffer *b, const sterna_model *model, uint32_t count, tensor_info info) {
  sterna_status status = STERNA_OK;
  rpc_put_u32(b, count);
  for (uint32_t i = 0; i < count && status == STERNA_OK; i++) {
    sterna_tensor tensor;
    if ((status = info(model, i, &tensor)) == STERNA_OK) put_tensor(b, &tensor);
  }
  return status;
}

static sterna_status put_dims(rpc_buffer *b, const sterna_model *model) {
  sterna_status status = STERNA_OK;
  rpc_put_u32(b, sterna_dim_count(model));
  for (uint32_t i = 0; i < sterna_dim_count(model) && status == STERNA_OK; i++) {
    sterna_dim dim;
    if ((status = sterna_dim_info(model, i, &dim)) != STERNA_OK) break;
    rpc_put_text(b, dim.name);
    rpc_put_u64(b, (uint64_t)dim.lo);
    rpc_put_u64(b, (uint64_t)dim.hi);
    rpc_put_u64(b, (uint64_t)dim.size);
    rpc_put_u32(b, dim.computed != 0);
  }
  return status;
}

static sterna_status put_nodes(rpc_buffer *b, const sterna_model *model) {
  sterna_status status = STERNA_OK;
  rpc_put_u32(b, sterna_node_count(model));
  for (uint32_t i = 0; i < sterna_node_count(model) && status == STERNA_OK; i++) {
    sterna_node node;
    if ((status = sterna_node_info(model, i, &node)) != STERNA_OK) break;
    rpc_put_text(b, node.name);
    rpc_put_text(b, node.kernel);
    rpc_put_u32(b, node.tasks);
  }
  return status;
}

static sterna_status put_memory(rpc_buffer *b, const sterna_model *model) {
  sterna_memory memory;
  sterna_status status = sterna_memory_info(model, &memory);
  if (status != STERNA_OK) return status;
  rpc_put_u64(b, memory.arena);
  rpc_put_u64(b, memory.scratch);
  rpc_put_u64(b, memory.signature);
  rpc_put_u64(b, memory.params);
  return status;
}

static int32_t put_table(rpc_asked *asked, const sterna_model *model, uint32_t which) {
  switch (which) {
    case 0: return put_tensors(asked->made, model, sterna_input_count(model), sterna_input_info);
    case 1: return put_tensors(asked->made, model, sterna_output_count(model), sterna_output_info);
    case 2: return put_tensors(asked->made, model, sterna_value_count(model), sterna_value_info);
    case 3: return put_dims(asked->made, model);
    case 4: return put_nodes(asked->made, model);
    case 5: return put_memory(asked->made, model);
    default: asked->message = "TABLE asks for one that there is not"; return RPC_MALFORMED;
  }
}

static void note_node(void *user, uint32_t node, const char *name, uint64_t nanoseconds) {
  (void)name;
  rpc_put_u32(user, node);
  rpc_put_u64(user, nanoseconds);
}

static int32_t copy_value(rpc_asked *asked, sterna_model *model, uint32_t number) {
  sterna_tensor tensor;
  sterna_status status = sterna_value_info(model, number, &tensor);
  if (status != STERNA_OK) return status;
  if (!rpc_room(asked->made, tensor.bytes)) return STERNA_RESOURCES;
  status = sterna_value_copy(model, number, asked->made->bytes, tensor.bytes);
  if (status == STERNA_OK) asked->made->used = tensor.bytes;
  return status;
}

static int32_t get_output(rpc_asked *asked, sterna_model *model, uint32_t number) {
  sterna_tensor tensor;
  sterna_status status = sterna_output_info(model, number, &tensor);
  if (status != STERNA_OK) return status;
  asked->bytes = sterna_output_buffer(model, number);
  asked->count = tensor.bytes;
  return STERNA_OK;
}

static int32_t set_dims(rpc_asked *asked, sterna_model *model) {
  int64_t sizes[RPC_MOST_DIMS];
  uint32_t count = rpc_take_u32(&asked->payload);
  if (count > RPC_MOST_DIMS || asked->payload.left != 8 * (size_t)count) {
    asked->message = "DIMS has not as many sizes as it says";
    return RPC_MALFORMED;
  }
  for (uint32_t i = 0; i < count; i++) sizes[i] = (int64_t)rpc_take_u64(&asked->payload);
  return sterna_set_dims(model, sizes, count);
}

static int32_t run(rpc_asked *asked, sterna_model *model) {
  uint64_t start = port_now();
  int32_t status = sterna_run(model);
  rpc_put_u64(asked->made, port_now() - start);
  return status;
}

/* Runs as often as is asked for. Samples lie behind the head of the reply, in which their number is written at the end. */
static int32_t time_runs(rpc_asked *asked, sterna_model *model) {
  uint32_t warm_up = rpc_take_u32(&asked->payload), least = rpc_take_u32(&asked->payload);
  uint32_t most = rpc_take_u32(&asked->payload);
  (void)rpc_take_u32(&asked->payload);
  uint64_t least_time = rpc_take_u64(&asked->payload), sum = 0;
  if (most == 0 || most > RPC_MOST_RUNS || least > most || warm_up > RPC_MOST_RUNS) {
    asked->message = "TIME asks for no run, more than 100,000, or more at least than at most";
    return RPC_MALFORMED;
  }
  uint64_t *samples = malloc(most * sizeof *samples);
  if (samples == NULL) return STERNA_RESOURCES;
  int32_t status = STERNA_OK;
  for (uint32_t i = 0; i < warm_up && status == STERNA_OK; i++) status = sterna_run(model);
  rpc_moment before = rpc_moment_now();
  uint32_t count = 0;
  while (status == STERNA_OK && count < most && (count < least || sum < least_time || count == 0)) {
    uint64_t start = port_now();
    status = sterna_run(model);
    samples[count] = port_now() - start;
    sum += samples[count++];
  }
  rpc_moment after = rpc_moment_now();
  rpc_put_u32(asked->made, count);
  rpc_put_u32(asked->made, before.kilohertz);
  rpc_put_u32(asked->made, after.kilohertz);
  rpc_put_u32(asked->made, (uint32_t)before.millidegrees);
  rpc_put_u32(asked->made, (uint32_t)after.millidegrees);
  rpc_put_u32(asked->made, (uint32_t)before.processor);
  rpc_put_u32(asked->made, (uint32_t)after.processor);
  rpc_put_u64(asked->made, 0); /* nanoseconds */
  for (uint32_t i = 0; i < count; i++) rpc_put_u64(asked->made, samples[i]);
  free(samples);
  return status;
}

static int32_t profile(rpc_asked *asked, sterna_model *model) {
  sterna_set_on_node(model, note_node, asked->made);
  int32_t status = sterna_run(model);
  sterna_set_on_node(model, NULL, NULL);
  return status;
}

static int32_t answer(sterna_model *model, rpc_asked *asked) {
  switch (asked->kind) {
    case RPC_TABLE: return put_table(asked, model, rpc_take_u32(&asked->payload));
    case RPC_DIMS: return set_dims(asked, model);
    case RPC_RUN: return run(asked, model);
    case RPC_TIME: return time_runs(asked, model);
    case RPC_PROFILE: return profile(asked, model);
    case RPC_RESET: return sterna_reset_state(model);
    case RPC_GET: return get_output(asked, model, rpc_take_u32(&asked->payload));
    case RPC_VALUE: return copy_value(asked, model, rpc_take_u32(&asked->payload));
    default: return RPC_UNKNOWN;
  }
}

int32_t rpc_answer(sterna_model *model, rpc_asked *asked) {
  size_t wanted = asked->kind == RPC_TIME ? 24 : asked->kind == RPC_TABLE || asked->kind == RPC_GET || asked->kind == RPC_VALUE ? 4 : 0;
  if (asked->kind != RPC_DIMS && asked->payload.left != wanted) {
    asked->message = "a request has other bytes than its kind has";
    return RPC_MALFORMED;
  }
  int32_t status = answer(model, asked);
  if (asked->made->bad) status = STERNA_RESOURCES;
  if (status < 0 && asked->message == NULL) { /* of an earlier call, where this one failed outside of it */
    const sterna_error *last = sterna_last_error(model);
    asked->message = last->status == status ? last->message : sterna_status_meaning((sterna_status)status);
  }
  return status;
}

uint64_t rpc_largest_input(const sterna_model *model) {
  uint64_t largest = 0;
  for (uint32_t i = 0; i < sterna_input_count(model); i++) {
    sterna_tensor tensor;
    if (sterna_input_info(model, i, &tensor) == STERNA_OK && tensor.bytes > largest) largest = tensor.bytes;
  }
  return largest;
}
