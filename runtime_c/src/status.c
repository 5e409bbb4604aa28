#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "internal.h"

/* A part of what is said of a status: its name, code or meaning. The texts are one string, since a table of pointers is
 * several times as large; statuses count down from 0. */
static const char *text_of(sterna_status status, int part) {
#define TEXTS(name, value, code, meaning) #name "\0" code "\0" meaning "\0"
#define COUNT(name, value, code, meaning) +1
  static const char texts[] = STERNA_STATUSES(TEXTS) "UNKNOWN\0" "E0901\0" "not a status of this runtime";
  enum { N_STATUSES = 0 STERNA_STATUSES(COUNT) };
#undef TEXTS
#undef COUNT
  const char *text = texts;
  unsigned row = 0u - (unsigned)status;
  for (unsigned left = 3 * (row < N_STATUSES ? row : N_STATUSES) + (unsigned)part; left > 0; left--) text += strlen(text) + 1;
  return text;
}

const char *sterna_status_name(sterna_status status) { return text_of(status, 0); }
const char *sterna_status_code(sterna_status status) { return text_of(status, 1); }
const char *sterna_status_meaning(sterna_status status) { return text_of(status, 2); }

const char *sterna_version(void) { return STERNA_VERSION; }

#ifdef STERNA_NO_MESSAGES
sterna_status fail_silently(sterna_error *error, sterna_status status) {
  if (error == NULL) return status;
  error->status = status;
  error->message[0] = 0;
  return status;
}
#else
/* Appends to the message. */
static void say(sterna_error *error, const char *format, va_list arguments) {
  size_t used = strlen(error->message);
  (void)vsnprintf(error->message + used, sizeof error->message - used, format, arguments);
  /* Names in a message come from a file: keep it one line, and free of terminal escapes. */
  for (char *c = error->message; *c != 0; c++)
    if ((unsigned char)*c < 0x20 || *c == 0x7f) *c = '?';
}

sterna_status fail(sterna_error *error, sterna_status status, const char *format, ...) {
  if (error == NULL) return status;
  error->status = status;
  error->message[0] = 0;
  va_list arguments;
  va_start(arguments, format);
  say(error, format, arguments);
  va_end(arguments);
  return status;
}

sterna_status malformed(sterna_model *model, const char *format, ...) {
  const char *name = model->row_name;
  sterna_status status = fail(&model->error, STERNA_MALFORMED, "graph.json: ");
  if (model->rows != NULL)
    (void)fail(&model->error, status, "graph.json: %s %u%s%s%s: ", model->rows, (unsigned)model->row, name != NULL ? " (\"" : "",
               name != NULL ? name : "", name != NULL ? "\")" : "");
  va_list arguments;
  va_start(arguments, format);
  say(&model->error, format, arguments);
  va_end(arguments);
  return status;
}
#endif
