#include <string.h>

#include "json.h"

#ifndef STERNA_CHUNK_BYTES /* tests make it small: then every request is one of the allocator */
#define STERNA_CHUNK_BYTES 16384u
#endif
#define HEADER_BYTES 32u /* of a chunk; keeps what follows aligned to 16 */

struct heap_chunk {
  heap_chunk *next;
  size_t bytes;
};

static void *default_allocate(void *context, size_t bytes) {
  (void)context;
  return port_pages(bytes);
}

static void default_release(void *context, void *memory, size_t bytes) {
  (void)context;
  port_release_pages(memory, bytes);
}

void heap_open(heap *heap, const sterna_allocator *allocator) {
  memset(heap, 0, sizeof *heap);
  if (allocator != NULL) {
    heap->allocator = *allocator;
  } else {
    heap->allocator.allocate = default_allocate;
    heap->allocator.release = default_release;
  }
}

/* Whoever asked may take NULL for a fault of the file: whether it was memory that was lacking is known here. */
static void *refuse(heap *heap, uint64_t bytes) {
  heap->refused = bytes > 0 ? bytes : 1;
  return NULL;
}

static unsigned char *new_chunk(heap *heap, uint64_t bytes) {
  uint64_t total;
  bool fits = add_fits(bytes, HEADER_BYTES, &total) && total <= PTRDIFF_MAX;
  heap_chunk *chunk = fits ? heap->allocator.allocate(heap->allocator.context, (size_t)total) : NULL;
  if (chunk == NULL) return refuse(heap, bytes);
  if (heap->allocator.allocate != default_allocate) memset(chunk, 0, (size_t)total);
  chunk->next = heap->chunks;
  chunk->bytes = (size_t)total;
  heap->chunks = chunk;
  return (unsigned char *)chunk + HEADER_BYTES;
}

void *heap_take(heap *heap, uint64_t count, uint64_t bytes) {
  uint64_t wanted;
  if (!multiply_fits(count, bytes, &wanted) || !add_fits(wanted, 15, &wanted)) return refuse(heap, UINT64_MAX);
  wanted &= ~(uint64_t)15;
  if (wanted == 0) wanted = 16; /* an empty list is not a failure */
  if (wanted > heap->left) {
    if (wanted >= STERNA_CHUNK_BYTES / 2) return new_chunk(heap, wanted);
    unsigned char *fresh = new_chunk(heap, STERNA_CHUNK_BYTES);
    if (fresh == NULL) return NULL;
    heap->next = fresh;
    heap->left = STERNA_CHUNK_BYTES;
  }
  void *taken = heap->next;
  heap->next += wanted;
  heap->left -= (size_t)wanted;
  return taken;
}

void *heap_take_aligned(heap *heap, uint64_t bytes) {
  uint64_t wanted;
  if (!add_fits(bytes, ALIGNMENT - 1, &wanted)) return refuse(heap, UINT64_MAX);
  unsigned char *memory = new_chunk(heap, wanted);
  if (memory == NULL) return NULL;
  return memory + (ALIGNMENT - (uintptr_t)memory % ALIGNMENT) % ALIGNMENT;
}

void heap_close(heap *heap) {
  heap_chunk *chunk = heap->chunks;
  while (chunk != NULL) {
    heap_chunk *next = chunk->next;
    heap->allocator.release(heap->allocator.context, chunk, chunk->bytes);
    chunk = next;
  }
  heap->chunks = NULL;
  heap->left = 0;
}

const char *json_take_string(heap *heap, const char *text, size_t value) {
  size_t bytes = json_string_bytes(text, value);
  char *string = bytes > 0 ? heap_take(heap, bytes, 1) : NULL;
  if (string != NULL) json_string(text, value, string);
  return string;
}
