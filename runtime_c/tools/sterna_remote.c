/* Runs a bundle for another process, which talks to it through standard input and output: sterna_remote DIRECTORY THREADS
 *
 * `sterna run --on qemu:TARGET` starts it in an emulator. After loading it writes a reply; then it reads requests and
 * answers each, until its input ends. A request is two words of 32 bits, what to do and the number of an input, output or
 * value, then a word of 64 bits, the bytes that follow, then those. Of RUN and PROFILE the number is that of runs, whose times
 * follow one another; 0 is one. A reply is a status of 32 bits, a word of 64 bits, the bytes that follow, then those; of a
 * status that is not 0 they are the message. Words are as the processor has them, which must be as the other side has them,
 * too. A text is its bytes behind a word of 32 bits with their number.
 *
 * sterna_remote --cpu-has FEATURE writes the number that sterna_cpu_has returns. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../rpc/model.h"
#include "sterna.h"

enum { SET_INPUT = 1, SET_DIMS, RUN, PROFILE, RESET, GET_OUTPUT, GET_VALUE, INPUTS, OUTPUTS, VALUES, DIMS, NODES, MEMORY };

/* Kinds and tables of docs/rpc.md, by what is asked for: the answers to a model are those of runtime_c/rpc/. */
static const uint16_t kinds[] = {0, 0, RPC_DIMS, RPC_RUN, RPC_PROFILE, RPC_RESET, RPC_GET, RPC_VALUE};

static sterna_status set_input(sterna_model *model, uint32_t number, const rpc_buffer *given) {
  sterna_tensor tensor;
  sterna_status status = sterna_input_info(model, number, &tensor);
  if (status == STERNA_OK && tensor.bytes != given->used) return STERNA_BAD_ARGUMENT;
  if (status == STERNA_OK && given->used > 0) memcpy(sterna_input_buffer(model, number), given->bytes, given->used);
  return status;
}

/* The request as that of a device, whose payload begins with the number where its kind has one. */
static int32_t answer(sterna_model *model, uint32_t what, uint32_t number, const rpc_buffer *given, rpc_asked *asked) {
  rpc_buffer payload = {NULL, 0, 0, false};
  if (what == SET_INPUT) return set_input(model, number, given);
  if (what == 0 || what > MEMORY) return STERNA_BAD_ARGUMENT;
  asked->kind = what >= INPUTS ? RPC_TABLE : kinds[what];
  if (what >= INPUTS) rpc_put_u32(&payload, what - INPUTS);
  else if (what == SET_DIMS || what == GET_OUTPUT || what == GET_VALUE) rpc_put_u32(&payload, number);
  if (what == SET_DIMS) rpc_put(&payload, given->bytes, given->used);
  asked->payload.at = payload.bytes;
  asked->payload.left = payload.used;
  int32_t status = payload.bad ? STERNA_RESOURCES : rpc_answer(model, asked);
  if (what == RUN || what == PROFILE)
    for (uint32_t run = 1; run < number && status == STERNA_OK; run++) status = rpc_answer(model, asked);
  free(payload.bytes);
  return status > 0 ? STERNA_BAD_ARGUMENT : status;
}

static int reply(int32_t status, const void *bytes, size_t count) {
  uint64_t length = count;
  int good = fwrite(&status, sizeof status, 1, stdout) == 1 && fwrite(&length, sizeof length, 1, stdout) == 1;
  return good && fwrite(bytes, 1, count, stdout) == count && fflush(stdout) == 0;
}

/* The next request; 0 at the end. */
static int ask(uint32_t *what, uint32_t *number, rpc_buffer *given) {
  uint64_t bytes;
  if (fread(what, sizeof *what, 1, stdin) != 1 || fread(number, sizeof *number, 1, stdin) != 1) return 0;
  if (fread(&bytes, sizeof bytes, 1, stdin) != 1 || bytes > SIZE_MAX / 4) return 0;
  if (bytes > given->size || given->bytes == NULL) {
    void *more = realloc(given->bytes, (size_t)bytes + 1);
    if (more == NULL) return 0;
    given->bytes = more;
    given->size = (size_t)bytes;
  }
  given->used = (size_t)bytes;
  return fread(given->bytes, 1, given->used, stdin) == given->used;
}

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  if (strcmp(argv[1], "--cpu-has") == 0) return printf("%d\n", sterna_cpu_has(argv[2])) < 0;
  sterna_options options;
  sterna_error error;
  sterna_model *model = NULL;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.threads = (uint32_t)strtoul(argv[2], NULL, 10);
  sterna_status status = sterna_load(argv[1], &options, &model, &error);
  if (status != STERNA_OK) return !reply(status, error.message, strlen(error.message));
  rpc_buffer given, made;
  memset(&given, 0, sizeof given);
  memset(&made, 0, sizeof made);
  uint32_t what, number;
  int good = reply(STERNA_OK, "", 0);
  while (good && ask(&what, &number, &given)) {
    rpc_asked asked = {0, {NULL, 0, false}, &made, NULL, 0, NULL};
    made.used = 0;
    made.bad = false;
    int32_t found = answer(model, what, number, &given, &asked);
    const char *message = asked.message != NULL ? asked.message : "the program in the emulator refused the request";
    if (found != STERNA_OK) good = reply(found, message, strlen(message));
    else if (asked.bytes != NULL) good = reply(found, asked.bytes, asked.count);
    else good = reply(found, made.bytes != NULL ? made.bytes : (const uint8_t *)"", made.used);
  }
  sterna_unload(model);
  free(given.bytes);
  free(made.bytes);
  return !good;
}
