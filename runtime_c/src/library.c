/* Whether the file of a library is whole. The system maps the parts that its headers name; where the file ends before
 * them, the first touch of a page that is not there kills the process: dlopen of half a library does that. A build knows the
 * format of its own system, and with STERNA_EVERY_FORMAT all of them, as tests want. */
#include <stdio.h>
#include <string.h>

#include "internal.h"

#if defined(_WIN32) || defined(STERNA_EVERY_FORMAT)
#define READS_PE 1
#endif
#if defined(__APPLE__) || defined(STERNA_EVERY_FORMAT)
#define READS_MACH_O 1
#endif
#if !(defined(_WIN32) || defined(__APPLE__)) || defined(STERNA_EVERY_FORMAT)
#define READS_ELF 1
#endif

/* A little-endian number of a file; past its end it is 0. */
static uint64_t number(const port_file *file, uint64_t at, uint32_t bytes) {
  uint64_t value = 0;
  if (range_fits(at, bytes, file->bytes))
    for (uint32_t i = bytes; i-- > 0;) value = value << 8 | file->data[at + i];
  return value;
}

/* Whether `count` rows of a table lie in the file, and the parts that they name: at `first` of a row stands where a part
 * begins, at `size` how long it is, each in `width` bytes. No rows: a part is not named. */
static bool parts_fit(const port_file *file, uint64_t table, uint64_t count, uint64_t row, uint32_t first, uint32_t size,
                      uint32_t width) {
  if (!range_fits(table, count * row, file->bytes)) return false; /* both have 16 bits, or count is 1 */
  for (; count > 0; count--, table += row)
    if (width > 0 && !range_fits(number(file, table + first, width), number(file, table + size, width), file->bytes)) return false;
  return true;
}

#ifdef READS_ELF
static bool elf_fits(const port_file *file) {
  uint32_t wide = number(file, 4, 1) == 2, word = wide ? 8 : 4, sizes = wide ? 54 : 42;
  if (number(file, 5, 1) != 1) return true; /* big-endian: another machine's, which the system refuses */
  uint64_t programs = number(file, wide ? 32 : 28, word), sections = number(file, wide ? 40 : 32, word);
  return parts_fit(file, programs, number(file, sizes + 2, 2), number(file, sizes, 2), wide ? 8 : 4, wide ? 32 : 16, word) &&
         parts_fit(file, sections, number(file, sizes + 6, 2), number(file, sizes + 4, 2), 0, 0, 0);
}
#endif

#ifdef READS_MACH_O
static bool mach_o_fits(const port_file *file) {
  uint64_t at = 32, commands = number(file, 16, 4), bytes;
  for (; commands > 0; commands--, at += bytes) {
    bytes = number(file, at + 4, 4);
    bool segment = number(file, at, 4) == 0x19; /* LC_SEGMENT_64 */
    if (bytes < 8 || !parts_fit(file, at, 1, bytes, 40, 48, segment ? 8 : 0)) return false;
  }
  return true;
}
#endif

#ifdef READS_PE
static bool pe_fits(const port_file *file) {
  uint64_t at = number(file, 60, 4); /* "PE", the file's header, the optional one, the sections */
  return parts_fit(file, at + 24 + number(file, at + 20, 2), number(file, at + 6, 2), 40, 20, 16, 4);
}
#endif

bool library_is_whole(const port_file *file) {
  if (file->bytes < 64) return false;
#ifdef READS_ELF
  if (number(file, 0, 4) == 0x464c457f) return elf_fits(file);
#endif
#ifdef READS_MACH_O
  if (number(file, 0, 4) == 0xfeedfacf) return mach_o_fits(file);
#endif
#ifdef READS_PE
  if (number(file, 0, 2) == 0x5a4d) return pe_fits(file); /* "MZ" */
#endif
  return true; /* of other files the system knows what to say */
}

#ifndef STERNA_PORT_NONE
#define MAX_PATH_BYTES 4096u

sterna_status map_file(const char *directory, const char *name, port_file *file, sterna_error *error) {
  char path[MAX_PATH_BYTES], reason[128];
  int used = snprintf(path, sizeof path, "%s/%s", directory[0] != 0 ? directory : ".", name);
  if (used < 0 || (size_t)used >= sizeof path) return fail(error, STERNA_UNREADABLE, "%s: the path is too long", name);
  if (port_map(path, file, reason, sizeof reason)) return STERNA_OK;
  return fail(error, STERNA_UNREADABLE, "%s: cannot be opened: %s", name, reason);
}
#endif
