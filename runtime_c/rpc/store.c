#define _XOPEN_SOURCE 700
#if defined(__APPLE__)
#define _DARWIN_C_SOURCE
#define st_mtim st_mtimespec
#endif

#include "store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

enum { MOST_PATH = 1024, HEX = 2 * SHA256_BYTES };

/* Folders of the store. */
static const char *const WHOLE = "files", *const PARTS = "parts", *const MODELS = "models";

static bool lacks_room(int why) { return why == ENOSPC || why == EDQUOT; }

static int32_t refused(rpc_store *store, const char *what) {
  bool full = lacks_room(errno);
  (void)snprintf(store->message, sizeof store->message, full ? "the disk of the device is full (%s): %s" : "%s: %s", what,
                 strerror(errno));
  return full ? RPC_FULL : RPC_SYSTEM;
}

static void path_of(char path[MOST_PATH], const rpc_store *store, const char *kind, const uint8_t hash[SHA256_BYTES]) {
  int used = snprintf(path, MOST_PATH - HEX - 1, "%s/%s/", store->folder, kind);
  for (int i = 0; i < SHA256_BYTES; i++) (void)snprintf(path + used + 2 * i, 3, "%02x", hash[i]);
}

/* Calls `each` for every file of a folder. */
static void walk(const char *folder, void (*each)(void *, const char *, const struct stat *), void *context) {
  DIR *list = opendir(folder);
  struct dirent *entry;
  while (list != NULL && (entry = readdir(list)) != NULL) {
    char path[MOST_PATH];
    struct stat info;
    int used = snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
    if (entry->d_name[0] != '.' && used > 0 && used < MOST_PATH && lstat(path, &info) == 0) each(context, path, &info);
  }
  if (list != NULL) (void)closedir(list);
}

static void remove_one(void *context, const char *path, const struct stat *info) {
  (void)context, (void)info;
  (void)unlink(path);
}

void rpc_store_drop_model(const char *path) {
  walk(path, remove_one, NULL);
  (void)rmdir(path);
}

static void drop_one(void *context, const char *path, const struct stat *info) {
  (void)context;
  if (S_ISDIR(info->st_mode)) rpc_store_drop_model(path);
}

static bool own_folder(rpc_store *store, const char *path) {
  struct stat info;
  if (mkdir(path, 0700) != 0 && errno != EEXIST) {
    (void)refused(store, path);
    return false;
  }
  bool good = lstat(path, &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == geteuid() && (info.st_mode & 022) == 0;
  if (!good) (void)snprintf(store->message, sizeof store->message, "%.100s is not a folder of this user alone", path);
  return good;
}

void rpc_store_use(rpc_store *store, const char *folder, uint64_t quota) {
  memset(store, 0, sizeof *store);
  store->folder = folder;
  store->quota = quota;
}

bool rpc_store_open(rpc_store *store, const char *folder, uint64_t quota) {
  const char *const kinds[] = {WHOLE, PARTS, MODELS};
  char path[MOST_PATH];
  rpc_store_use(store, folder, quota);
  if (strlen(folder) > MOST_PATH - 256) {
    (void)snprintf(store->message, sizeof store->message, "the path of the scratch folder is too long");
    return false;
  }
  if (!own_folder(store, folder)) return false;
  for (int i = 0; i < 3; i++) {
    (void)snprintf(path, sizeof path, "%s/%s", folder, kinds[i]);
    if (!own_folder(store, path)) return false;
  }
  walk(path, drop_one, NULL);
  return true;
}

/* ---- What gives way ---- */

typedef struct oldest {
  uint64_t sum;
  int64_t since, when, newest;
  char path[MOST_PATH];
} oldest;

static void look(void *context, const char *path, const struct stat *info) {
  oldest *o = context;
  int64_t when = (int64_t)info->st_mtim.tv_sec;
  o->sum += (uint64_t)info->st_size;
  if (when > o->newest) o->newest = when;
  if (when >= o->since || (o->path[0] != 0 && when >= o->when)) return;
  o->when = when;
  (void)snprintf(o->path, sizeof o->path, "%s", path);
}

/* Counts what is stored and finds what was used longest ago. */
static void look_at_all(rpc_store *store, oldest *found) {
  char path[MOST_PATH];
  memset(found, 0, sizeof *found);
  found->since = store->since;
  (void)snprintf(path, sizeof path, "%s/%s", store->folder, WHOLE);
  walk(path, look, found);
  (void)snprintf(path, sizeof path, "%s/%s", store->folder, PARTS);
  walk(path, look, found);
  store->used = found->sum;
  store->counted = true;
}

/* Clients use the store one after the other, and the times of files say whose they are: each client's are the same, and
 * later than all that are there. The clock alone does not tell them apart: it has steps, also backwards, and some file
 * systems keep no more than two seconds. */
void rpc_store_begin(rpc_store *store) {
  oldest found;
  int64_t now = (int64_t)time(NULL);
  look_at_all(store, &found);
  store->since = ((now > found.newest ? now : found.newest) / 2 + 1) * 2;
}

static void touch(const rpc_store *store, const char *path) {
  struct timespec both[2];
  memset(both, 0, sizeof both);
  both[0].tv_sec = both[1].tv_sec = (time_t)store->since;
  (void)utimensat(AT_FDCWD, path, both, 0);
}

static bool remove_oldest(rpc_store *store) {
  oldest found;
  look_at_all(store, &found);
  store->counted = false;
  return found.path[0] != 0 && unlink(found.path) == 0;
}

/* Whether the disk was too full for what failed just now, and something has given way, so that it may be tried again.
 * That is never `own`, a file that has just been written to. */
static bool gives_way(rpc_store *store, const char *own) {
  int why = errno;
  if (own != NULL) touch(store, own);
  bool again = lacks_room(why) && remove_oldest(store);
  errno = why;
  return again;
}

uint64_t rpc_store_used(rpc_store *store) {
  oldest found;
  if (!store->counted) look_at_all(store, &found);
  return store->used;
}

uint64_t rpc_store_free(const rpc_store *store) {
  struct statvfs info;
  return statvfs(store->folder, &info) == 0 ? (uint64_t)info.f_bavail * info.f_frsize : 0;
}

/* Room for so many bytes more, if need be by removing what others have left. */
static bool make_room(rpc_store *store, uint64_t bytes) {
  while (bytes > store->quota || rpc_store_used(store) > store->quota - bytes) {
    if (bytes > store->quota || !remove_oldest(store)) return false;
  }
  return true;
}

/* ---- Files ---- */

uint64_t rpc_store_has(rpc_store *store, const uint8_t hash[SHA256_BYTES], bool *whole) {
  char path[MOST_PATH];
  struct stat info;
  path_of(path, store, WHOLE, hash);
  *whole = stat(path, &info) == 0;
  if (!*whole) path_of(path, store, PARTS, hash);
  if (!*whole && stat(path, &info) != 0) return 0;
  touch(store, path);
  return (uint64_t)info.st_size;
}

static bool hash_of(int file, uint8_t digest[SHA256_BYTES]) {
  static uint8_t block[1 << 16];
  sha256 hash;
  ssize_t got;
  uint64_t at = 0;
  sha256_open(&hash);
  while ((got = pread(file, block, sizeof block, (off_t)at)) > 0) {
    sha256_add(&hash, block, (size_t)got);
    at += (uint64_t)got;
  }
  sha256_close(&hash, digest);
  return got == 0;
}

/* Moves a file whose last byte has come to the whole ones. */
static int32_t finish(rpc_store *store, int file, const char *part, const uint8_t hash[SHA256_BYTES], uint64_t bytes) {
  char path[MOST_PATH];
  uint8_t digest[SHA256_BYTES];
  if (!hash_of(file, digest)) return refused(store, "a file that was sent cannot be read");
  if (!same_digest(digest, hash)) {
    (void)unlink(part);
    store->used -= bytes < store->used ? bytes : store->used;
    (void)snprintf(store->message, sizeof store->message, "what was sent has another hash; it was dropped");
    return RPC_HASH;
  }
  path_of(path, store, WHOLE, hash);
  return rename(part, path) == 0 ? RPC_OK : refused(store, "a file that was sent cannot be kept");
}

int32_t rpc_store_add(rpc_store *store, const uint8_t hash[SHA256_BYTES], uint64_t total, uint64_t offset,
                      const uint8_t *bytes, size_t count, uint64_t *held) {
  char path[MOST_PATH];
  bool whole;
  *held = rpc_store_has(store, hash, &whole);
  if (whole) return RPC_OK;
  if (offset != *held) {
    (void)snprintf(store->message, sizeof store->message, "PUT goes on at byte %llu; the device holds %llu",
                   (unsigned long long)offset, (unsigned long long)*held);
    return RPC_OFFSET;
  }
  if (offset > total || count > total - offset || (count == 0 && offset < total)) {
    (void)snprintf(store->message, sizeof store->message, "PUT has more bytes than the file, or none");
    return RPC_MALFORMED;
  }
  if (!make_room(store, total - offset)) {
    (void)snprintf(store->message, sizeof store->message, "a file of %llu bytes does not fit: the quota is %llu, in use %llu",
                   (unsigned long long)total, (unsigned long long)store->quota, (unsigned long long)store->used);
    return RPC_FULL;
  }
  path_of(path, store, PARTS, hash);
  int file;
  do file = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  while (file < 0 && gives_way(store, path));
  if (file < 0) return refused(store, "a file cannot be made");
  int32_t status = RPC_OK;
  for (size_t done = 0; done < count && status == RPC_OK;) {
    ssize_t wrote = write(file, bytes + done, count - done);
    if (wrote > 0) {
      done += (size_t)wrote;
      *held += (uint64_t)wrote;
      store->used += (uint64_t)wrote;
    } else if (wrote < 0 && errno != EINTR && !gives_way(store, path)) {
      status = refused(store, "a file cannot be written");
    }
  }
  touch(store, path);
  if (status == RPC_OK && *held == total) status = finish(store, file, path, hash, total);
  (void)close(file);
  return status;
}

/* ---- Models ---- */

int32_t rpc_store_new_model(rpc_store *store, char *path, size_t bytes) {
  int used;
  bool made;
  do {
    used = snprintf(path, bytes, "%s/%s/XXXXXX", store->folder, MODELS);
    made = used >= 0 && (size_t)used < bytes && mkdtemp(path) != NULL;
  } while (!made && gives_way(store, NULL));
  if (!made) {
    path[0] = 0;
    return refused(store, "a folder for the model cannot be made");
  }
  return RPC_OK;
}

int32_t rpc_store_put_in(rpc_store *store, const char *model, const char *name, const uint8_t hash[SHA256_BYTES]) {
  char from[MOST_PATH], to[MOST_PATH + 256];
  bool whole;
  (void)rpc_store_has(store, hash, &whole);
  if (!whole) {
    (void)snprintf(store->message, sizeof store->message, "the device does not have %s in whole: HAVE, PUT, then LOAD", name);
    return RPC_MISSING;
  }
  path_of(from, store, WHOLE, hash);
  (void)snprintf(to, sizeof to, "%s/%s", model, name);
  if (link(from, to) == 0) return RPC_OK;
  if (errno == EEXIST) {
    (void)snprintf(store->message, sizeof store->message, "LOAD names %s twice", name);
    return RPC_MALFORMED;
  }
  char *absolute = realpath(from, NULL); /* file systems without hard links */
  int32_t status = absolute != NULL && symlink(absolute, to) == 0 ? RPC_OK : refused(store, "a file of the model");
  free(absolute);
  return status;
}
