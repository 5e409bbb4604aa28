/* Files by the hash of their contents, in a folder with a quota; what is incomplete is kept, too. */
#ifndef RPC_STORE_H
#define RPC_STORE_H

#include "protocol.h"
#include "sha256.h"

typedef struct rpc_store {
  const char *folder;
  uint64_t quota, used; /* bytes; `used` as far as it was counted */
  bool counted;
  int64_t since; /* seconds: files of this time are this client's and stay, those of others have earlier ones */
  char message[160];
} rpc_store;

/* Makes the folders, with rights for this user alone, and removes what an earlier server has left of models. False, with a
 * message, where the folder is another user's or cannot be made. */
bool rpc_store_open(rpc_store *store, const char *folder, uint64_t quota);
/* The same of folders that are there. */
void rpc_store_use(rpc_store *store, const char *folder, uint64_t quota);

/* A client's turn begins: what was used before it gives way where the quota or the disk has no room. */
void rpc_store_begin(rpc_store *store);

/* How many bytes of a file are there, and whether that is all of it. It counts as used by this client. */
uint64_t rpc_store_has(rpc_store *store, const uint8_t hash[SHA256_BYTES], bool *whole);

/* Adds bytes to a file; a status. `held`: how many there are then. */
int32_t rpc_store_add(rpc_store *store, const uint8_t hash[SHA256_BYTES], uint64_t total, uint64_t offset,
                      const uint8_t *bytes, size_t count, uint64_t *held);

/* Makes an empty folder for a model, whose path is written to `path`, and puts a file of that hash into it. */
int32_t rpc_store_new_model(rpc_store *store, char *path, size_t bytes);
int32_t rpc_store_put_in(rpc_store *store, const char *model, const char *name, const uint8_t hash[SHA256_BYTES]);
/* Removes such a folder; no other. */
void rpc_store_drop_model(const char *path);

/* Bytes that are stored, and that the file system has left. */
uint64_t rpc_store_used(rpc_store *store);
uint64_t rpc_store_free(const rpc_store *store);

#endif
