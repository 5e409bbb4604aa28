#include <stdarg.h>
#include <stdio.h>
#include <string.h>

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

#ifdef STERNA_NO_MESSAGES
sterna_status fail_silently(sterna_error *error, sterna_status status) {
  if (error == NULL) return status;
  error->status = status;
  error->message[0] = 0;
  return status;
}
#else
/* The message after what `subject` says. */
static void say(sterna_error *error, const char *subject, const char *format, va_list arguments) {
  size_t bytes = strlen(subject);
  memcpy(error->message, subject, bytes);
  (void)vsnprintf(error->message + bytes, sizeof error->message - bytes, format, arguments);
  /* Names in a message come from a file: keep it one line, and free of terminal escapes. */
  for (char *c = error->message; *c != 0; c++)
    if ((unsigned char)*c < 0x20 || *c == 0x7f) *c = '?';
}

sterna_status fail(sterna_error *error, sterna_status status, const char *format, ...) {
  if (error == NULL) return status;
  error->status = status;
  va_list arguments;
  va_start(arguments, format);
  say(error, "", format, arguments);
  va_end(arguments);
  return status;
}

sterna_status malformed(sterna_error *error, const char *format, ...) {
  if (error == NULL) return STERNA_MALFORMED;
  error->status = STERNA_MALFORMED;
  va_list arguments;
  va_start(arguments, format);
  say(error, "graph.json: ", format, arguments);
  va_end(arguments);
  return STERNA_MALFORMED;
}
#endif
