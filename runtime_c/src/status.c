#include <stdarg.h>
#include <stdio.h>

#include "internal.h"

const char *sterna_status_name(sterna_status status) {
  switch (status) {
#define CASE(name, value, code, meaning) \
  case STERNA_##name:                    \
    return #name;
    STERNA_STATUSES(CASE)
#undef CASE
    default:
      return "UNKNOWN";
  }
}

const char *sterna_status_code(sterna_status status) {
  switch (status) {
#define CASE(name, value, code, meaning) \
  case STERNA_##name:                    \
    return code;
    STERNA_STATUSES(CASE)
#undef CASE
    default:
      return "E0901";
  }
}

const char *sterna_status_meaning(sterna_status status) {
  switch (status) {
#define CASE(name, value, code, meaning) \
  case STERNA_##name:                    \
    return meaning;
    STERNA_STATUSES(CASE)
#undef CASE
    default:
      return "not a status of this runtime";
  }
}

const char *sterna_version(void) { return STERNA_VERSION; }

sterna_status fail(sterna_error *error, sterna_status status, const char *format, ...) {
  if (error == NULL) return status;
  error->status = status;
#ifdef STERNA_NO_MESSAGES /* keeps printf out of small programs */
  (void)format;
  error->message[0] = 0;
#else
  va_list arguments;
  va_start(arguments, format);
  (void)vsnprintf(error->message, sizeof error->message, format, arguments);
  va_end(arguments);
  /* Names in a message come from a file: keep it one line, and free of terminal escapes. */
  for (char *c = error->message; *c != 0; c++)
    if ((unsigned char)*c < 0x20 || *c == 0x7f) *c = '?';
#endif
  return status;
}
