#include "json.h"

static bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/* What a backslash and that character stand for; 0 if they are no escape, which is so of "u" too. */
static char escaped(char c) {
  static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
  size_t i = 0;
  while (from[i] != c && from[i] != 0) i++;
  return to[i];
}

/* ---- The one pass over text that may be anything ---- */

typedef struct scanner {
  const char *text;
  size_t at, end;
} scanner;

/* The character at hand; 0, which no rule accepts, at the end. */
static char peek(const scanner *s) { return s->at < s->end ? s->text[s->at] : '\0'; }

static void skip_spaces(scanner *s) {
  while (s->at < s->end && is_space(s->text[s->at])) s->at++;
}

static bool scan_word(scanner *s, const char *word) {
  for (; *word != 0; word++, s->at++)
    if (peek(s) != *word) return false;
  return true;
}

static bool scan_digits(scanner *s) {
  if (!is_digit(peek(s))) return false;
  while (is_digit(peek(s))) s->at++;
  return true;
}

static bool scan_number(scanner *s) {
  if (peek(s) == '-') s->at++;
  if (peek(s) == '0')
    s->at++;
  else if (!scan_digits(s))
    return false;
  if (peek(s) == '.') {
    s->at++;
    if (!scan_digits(s)) return false;
  }
  if (peek(s) == 'e' || peek(s) == 'E') {
    s->at++;
    if (peek(s) == '+' || peek(s) == '-') s->at++;
    if (!scan_digits(s)) return false;
  }
  return true;
}

static bool scan_string(scanner *s) {
  if (peek(s) != '"') return false;
  s->at++;
  for (;;) {
    char c = peek(s);
    if ((unsigned char)c < 0x20) return false; /* also the end */
    s->at++;
    if (c == '"') return true;
    if (c != '\\') continue;
    c = peek(s);
    if (c == 'u') {
      for (int i = 0; i < 4; i++) {
        s->at++;
        if (hex_digit(peek(s)) < 0) return false;
      }
    } else if (escaped(c) == 0) {
      return false;
    }
    s->at++;
  }
}

static bool scan_key(scanner *s) {
  skip_spaces(s);
  if (!scan_string(s)) return false;
  skip_spaces(s);
  if (peek(s) != ':') return false;
  s->at++;
  return true;
}

static bool check(scanner *s) {
  char open[JSON_MAX_DEPTH]; /* the brackets we are in */
  int depth = 0;
  for (;;) {
    /* A value is due. */
    skip_spaces(s);
    char c = peek(s);
    if (c == '{' || c == '[') {
      if (depth == JSON_MAX_DEPTH) return false;
      open[depth++] = c;
      s->at++;
      skip_spaces(s);
      if (peek(s) != (c == '{' ? '}' : ']')) {
        if (c == '{' && !scan_key(s)) return false;
        continue;
      }
    } else if (c == '"') {
      if (!scan_string(s)) return false;
    } else if (c == 't' || c == 'f' || c == 'n') {
      if (!scan_word(s, c == 't' ? "true" : c == 'f' ? "false" : "null")) return false;
    } else if (!scan_number(s)) {
      return false;
    }
    /* A value is done: close what ends here, until another value is due. */
    for (;;) {
      skip_spaces(s);
      if (depth == 0) return s->at == s->end;
      c = peek(s);
      if (c == ',') break;
      if (c != (open[depth - 1] == '{' ? '}' : ']')) return false;
      s->at++;
      depth--;
    }
    s->at++;
    if (open[depth - 1] == '{' && !scan_key(s)) return false;
  }
}

bool json_check(const char *text, size_t bytes, size_t *at) {
  scanner s = {text, 0, bytes};
  bool good = check(&s);
  *at = s.at;
  return good;
}

/* ---- Walking over checked text ---- */

static size_t after_spaces(const char *text, size_t at) {
  while (is_space(text[at])) at++;
  return at;
}

static size_t after_string(const char *text, size_t at) {
  for (at++; text[at] != '"'; at++)
    if (text[at] == '\\') at++;
  return at + 1;
}

static size_t after_value(const char *text, size_t at) {
  size_t depth = 0;
  do {
    char c = text[at];
    if (c == '"') {
      at = after_string(text, at);
    } else if (c == '{' || c == '[') {
      depth++;
      at++;
    } else if (c == '}' || c == ']') {
      depth--;
      at++;
    } else if (depth > 0) {
      at++; /* commas, colons, spaces and the characters of numbers and words */
    } else {
      while (c != ',' && c != '}' && c != ']' && !is_space(c)) c = text[++at];
    }
  } while (depth > 0);
  return at;
}

static size_t decode(const char *text, size_t at, char *out, const char *expected, bool *good);

/* Whether a string is that one, however it is written: "a" and "\\u0061" are the same name to every reader. */
static bool key_is(const char *text, size_t at, const char *key) {
  size_t n = 1;
  while (key[n - 1] != 0 && text[at + n] == key[n - 1]) n++;
  if (text[at + n] != '\\') return key[n - 1] == 0 && text[at + n] == '"';
  bool same;
  n = decode(text, at, NULL, key, &same);
  return same && key[n] == 0;
}

bool json_members(const char *text, size_t object, const char *keys, size_t *values, size_t n) {
  for (size_t i = 0; i < n; i++) values[i] = JSON_NONE;
  if (object == JSON_NONE || text[object] != '{') return false;
  size_t at = after_spaces(text, object + 1);
  while (text[at] == '"') {
    size_t key = at;
    at = after_spaces(text, after_string(text, at));
    at = after_spaces(text, at + 1);
    const char *wanted = keys;
    for (size_t i = 0; i < n; i++) {
      if (key_is(text, key, wanted)) {
        if (values[i] != JSON_NONE) return false;
        values[i] = at;
        break;
      }
      while (*wanted++ != 0) {
      }
    }
    at = after_spaces(text, after_value(text, at));
    if (text[at] == ',') at = after_spaces(text, at + 1);
  }
  return true;
}

bool json_is_list(const char *text, size_t value) { return value != JSON_NONE && text[value] == '['; }

size_t json_first(const char *text, size_t list) {
  if (!json_is_list(text, list)) return JSON_NONE;
  size_t at = after_spaces(text, list + 1);
  return text[at] == ']' ? JSON_NONE : at;
}

size_t json_next(const char *text, size_t element) {
  size_t at = after_spaces(text, after_value(text, element));
  return text[at] == ',' ? after_spaces(text, at + 1) : JSON_NONE;
}

uint32_t json_count(const char *text, size_t list) {
  uint32_t count = 0;
  for (size_t at = json_first(text, list); at != JSON_NONE; at = json_next(text, at)) count++;
  return count;
}

bool json_uint64(const char *text, size_t value, uint64_t *number) {
  *number = 0;
  if (value == JSON_NONE || !is_digit(text[value])) return false;
  size_t at = value;
  for (; is_digit(text[at]); at++) {
    uint64_t digit = (uint64_t)(text[at] - '0');
    if (*number > (UINT64_MAX - digit) / 10) return false;
    *number = *number * 10 + digit;
  }
  return text[at] != '.' && text[at] != 'e' && text[at] != 'E';
}

bool json_uint32(const char *text, size_t value, uint32_t *number) {
  uint64_t wide;
  bool good = json_uint64(text, value, &wide) && wide <= UINT32_MAX;
  *number = good ? (uint32_t)wide : 0;
  return good;
}

/* Not strtod, which reads what the user's locale says. */
bool json_number(const char *text, size_t value, double *number) {
  *number = 0;
  if (value == JSON_NONE) return false;
  bool negative = text[value] == '-', in_fraction = false;
  size_t at = negative ? value + 1 : value;
  if (!is_digit(text[at])) return false;
  int32_t exponent = 0, given = 0;
  for (; is_digit(text[at]) || text[at] == '.'; at++) {
    if (text[at] == '.') {
      in_fraction = true;
      continue;
    }
    *number = *number * 10 + (text[at] - '0');
    exponent -= in_fraction;
  }
  if (text[at] == 'e' || text[at] == 'E') {
    bool down = text[at + 1] == '-';
    for (at += down || text[at + 1] == '+' ? 2 : 1; is_digit(text[at]); at++)
      if (given < 1000) given = given * 10 + (text[at] - '0');
    exponent += down ? -given : given;
  }
  for (; exponent > 0; exponent--) *number *= 10;
  for (; exponent < 0; exponent++) *number /= 10;
  if (negative) *number = -*number;
  return true;
}

bool json_bool(const char *text, size_t value, bool *truth) {
  if (value == JSON_NONE) return false;
  *truth = text[value] == 't';
  return text[value] == 't' || text[value] == 'f';
}

static uint32_t hex4(const char *text) {
  uint32_t code = 0;
  for (int i = 0; i < 4; i++) code = code << 4 | (uint32_t)hex_digit(text[i]);
  return code;
}

static void put(char byte, char *out, const char *expected, size_t *n, bool *good) {
  if (out != NULL) out[*n] = byte;
  if (byte == 0 || (expected != NULL && *good && expected[*n] != byte)) *good = false;
  ++*n;
}

/* Decodes into `out` unless it is NULL; returns the number of bytes without the terminator. The string is good if it has no
 * zero character, and is how `expected` begins unless that is NULL. */
static size_t decode(const char *text, size_t at, char *out, const char *expected, bool *good) {
  size_t n = 0;
  *good = true;
#define PUT(byte) put((char)(byte), out, expected, &n, good)
  for (at++; text[at] != '"'; at++) {
    if (text[at] != '\\') {
      PUT(text[at]);
      continue;
    }
    at++;
    if (text[at] != 'u') {
      PUT(escaped(text[at]));
      continue;
    }
    uint32_t code = hex4(text + at + 1);
    at += 4;
    if (code >= 0xD800 && code < 0xDC00 && text[at + 1] == '\\' && text[at + 2] == 'u') {
      uint32_t low = hex4(text + at + 3);
      if (low >= 0xDC00 && low < 0xE000) {
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
        at += 6;
      }
    }
    if (code >= 0xD800 && code < 0xE000) code = 0xFFFD; /* half of a pair: the replacement character */
    static const uint8_t leading[] = {0, 0xC0, 0xE0, 0xF0}; /* by how many bytes follow */
    unsigned more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    PUT(leading[more] | code >> 6 * more);
    while (more-- > 0) PUT(0x80 | (code >> 6 * more & 63));
  }
#undef PUT
  return n;
}

size_t json_string_bytes(const char *text, size_t value) {
  bool good;
  if (value == JSON_NONE || text[value] != '"') return 0;
  size_t n = decode(text, value, NULL, NULL, &good);
  return good ? n + 1 : 0;
}

void json_string(const char *text, size_t value, char *out) {
  bool good;
  out[decode(text, value, out, NULL, &good)] = 0;
}

bool json_string_is(const char *text, size_t value, const char *expected) {
  return value != JSON_NONE && text[value] == '"' && key_is(text, value, expected);
}
