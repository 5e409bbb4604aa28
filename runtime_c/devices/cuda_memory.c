/* Memory of a CUDA device: what models allocate, what programs give them, and what was let go. */
#include <stdlib.h>

#include "cuda.h"
#include "system.h"

#define shared sterna_cuda_shared

/* How much that was let go is kept. */
#define MOST_SPARE 32u

static cuda_block *take_out(cuda_block **list, const cuda_block *block) {
  for (cuda_block **at = list; *at != NULL; at = &(*at)->next) {
    if (*at != block) continue;
    cuda_block *found = *at;
    *at = found->next;
    return found;
  }
  return NULL;
}

static void put(cuda_block **list, cuda_block *block) {
  block->next = *list;
  *list = block;
}

/* Memory that is let go others may still read: the driver frees it when all the work of the device is done. */
static void free_list(cuda_block **list) {
  while (*list != NULL) {
    cuda_block *block = *list;
    *list = block->next;
    if (block->is_own) (void)shared.cu.MemFree(block->address);
    free(block);
  }
}

/* What was let go of just this size, once all the work of the device is done, which may still read it. Of several it is the one
 * at the lowest address, so that outputs of one size change places with those of the run before and not among themselves: each
 * order of places is a graph of its own. */
static cuda_block *again(cuda_blocks *blocks, uint64_t bytes) {
  cuda_block *found = NULL;
  for (cuda_block *block = blocks->spare; block != NULL; block = block->next)
    if (block->bytes == bytes && (found == NULL || block->address < found->address)) found = block;
  if (found == NULL) return NULL;
  if (!found->is_idle) {
    if (shared.cu.CtxSynchronize() != CUDA_SUCCESS) return NULL;
    for (cuda_block *block = blocks->spare; block != NULL; block = block->next) block->is_idle = true;
  }
  blocks->n_spare--;
  return take_out(&blocks->spare, found);
}

static sterna_status no_room(uint64_t bytes, sterna_error *error) {
  size_t unused = 0, total = 0;
  (void)shared.cu.MemGetInfo(&unused, &total);
  return system_fail(error, STERNA_RESOURCES,
                          "CUDA (%.60s): a buffer of %llu bytes is needed, and %llu of %llu are free: take a smaller batch or model, or compile "
                          "with --target host",
                          shared.name, (unsigned long long)bytes, (unsigned long long)unused, (unsigned long long)total);
}

sterna_status sterna_cuda_take(cuda_blocks *blocks, uint64_t bytes, cuda_block **out, sterna_error *error) {
  cuda_block *block = again(blocks, bytes);
  if (block == NULL) {
    block = calloc(1, sizeof *block);
    if (block == NULL) return system_fail(error, STERNA_RESOURCES, "out of memory for a buffer");
    block->bytes = bytes;
    block->is_own = true;
    cuda_result code = bytes > SIZE_MAX ? CUDA_OUT_OF_MEMORY : shared.cu.MemAlloc(&block->address, (size_t)bytes);
    if (code == CUDA_OUT_OF_MEMORY && blocks->spare != NULL) {
      free_list(&blocks->spare);
      blocks->n_spare = 0;
      code = shared.cu.MemAlloc(&block->address, (size_t)bytes);
    }
    if (code != CUDA_SUCCESS) {
      free(block);
      return code == CUDA_OUT_OF_MEMORY ? no_room(bytes, error) : sterna_cuda_said(error, code, "cuMemAlloc", "");
    }
  }
  put(&blocks->used, block);
  *out = block;
  return STERNA_OK;
}

sterna_status sterna_cuda_adopt(cuda_blocks *blocks, cuda_memory address, uint64_t first, uint64_t bytes, cuda_block **out, sterna_error *error) {
  int number = -1;
  if ((address + first) % STERNA_DEVICE_ALIGNMENT != 0)
    return system_fail(error, STERNA_BAD_ARGUMENT, "CUDA (%.60s): the memory at 0x%llx is not aligned to %u bytes", shared.name,
                       (unsigned long long)(address + first), (unsigned)STERNA_DEVICE_ALIGNMENT);
  cuda_result code = shared.cu.PointerGetAttribute(&number, CUDA_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address + first);
  if (code != CUDA_SUCCESS || number != shared.device)
    return system_fail(error, STERNA_BAD_ARGUMENT, "CUDA (%.60s): the memory at 0x%llx is not of this device, number %d", shared.name,
                       (unsigned long long)(address + first), shared.device);
  cuda_block *block = calloc(1, sizeof *block);
  if (block == NULL) return system_fail(error, STERNA_RESOURCES, "out of memory for a buffer");
  block->address = address;
  block->bytes = bytes;
  put(&blocks->used, block);
  *out = block;
  return STERNA_OK;
}

void sterna_cuda_let_go(cuda_blocks *blocks, cuda_block *block) {
  cuda_block *found = take_out(&blocks->used, block);
  if (found == NULL) return;
  if (!found->is_own) {
    free(found);
    return;
  }
  if (blocks->n_spare == MOST_SPARE) {
    free_list(&blocks->spare);
    blocks->n_spare = 0;
  }
  found->is_idle = false;
  put(&blocks->spare, found);
  blocks->n_spare++;
}

void sterna_cuda_free(cuda_blocks *blocks) {
  free_list(&blocks->used);
  free_list(&blocks->spare);
}
