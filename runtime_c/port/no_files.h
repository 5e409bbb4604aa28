/* Files and libraries of a port that has none: every one is refused. Bundles are loaded by sterna_load_table. A file of
 * port/ includes this, after port.h. */
#ifndef STERNA_PORT_NO_FILES_H
#define STERNA_PORT_NO_FILES_H

#include <string.h>

static void refuse(char *message, size_t message_bytes) {
  static const char reason[] = "this build of the runtime has no files or libraries";
  size_t bytes = sizeof reason < message_bytes ? sizeof reason : message_bytes;
  if (bytes == 0) return;
  memcpy(message, reason, bytes);
  message[bytes - 1] = 0;
}

bool port_map(const char *path, port_file *file, char *message, size_t message_bytes) {
  (void)path;
  memset(file, 0, sizeof *file);
  refuse(message, message_bytes);
  return false;
}

void port_unmap(port_file *file) { (void)file; }

void *port_open_library(const char *directory, const char *name, uint64_t hash, char *message, size_t message_bytes) {
  (void)directory;
  (void)name;
  (void)hash;
  refuse(message, message_bytes);
  return NULL;
}

void port_close_library(void *library) { (void)library; }

port_function port_symbol(void *library, const char *name) {
  (void)library;
  (void)name;
  return NULL;
}

#endif
