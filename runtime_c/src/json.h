/* A small reader of JSON text, without a tree and without recursion.
 *
 * json_check validates the whole text once. After that a value is the offset of its first character, and the other
 * functions walk over text which is known to be well formed: they check types, not syntax. */
#ifndef STERNA_JSON_H
#define STERNA_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "internal.h"

/* In a static library every external name is in the user's name space. */
#define json_check sterna_json_check
#define json_members sterna_json_members
#define json_first sterna_json_first
#define json_next sterna_json_next
#define json_is_list sterna_json_is_list
#define json_count sterna_json_count
#define json_uint64 sterna_json_uint64
#define json_uint32 sterna_json_uint32
#define json_number sterna_json_number
#define json_bool sterna_json_bool
#define json_string_bytes sterna_json_string_bytes
#define json_string sterna_json_string
#define json_string_is sterna_json_string_is
#define json_take_string sterna_json_take_string

#define JSON_MAX_DEPTH 32
#define JSON_NONE ((size_t)-1) /* no value: a missing member, the end of a list */

/* True if `text` is one JSON value; else *at is the offset of the first character that is wrong. Text that is UTF-8
 * or not passes alike. */
bool json_check(const char *text, size_t bytes, size_t *at);

/* Finds the members of an object whose keys are given: `n` of them, in one string "a\0b\0c", since a table of pointers is
 * several times as large. A missing one is JSON_NONE. False if `object` is no object, or if one of the keys occurs twice,
 * since two readers could then disagree on the meaning. */
bool json_members(const char *text, size_t object, const char *keys, size_t *values, size_t n);

/* First element of a list and the one after `element`: JSON_NONE at its end. */
size_t json_first(const char *text, size_t list);
size_t json_next(const char *text, size_t element);
bool json_is_list(const char *text, size_t value);
/* Number of elements; 0 if it is no list. */
uint32_t json_count(const char *text, size_t list);

/* A non-negative integer without fraction or exponent, that fits. */
bool json_uint64(const char *text, size_t value, uint64_t *number);
bool json_uint32(const char *text, size_t value, uint32_t *number);
/* Any number, with the digits that a float has and some more; infinite where it is too large. */
bool json_number(const char *text, size_t value, double *number);
/* true, or false; anything else is neither. */
bool json_bool(const char *text, size_t value, bool *truth);
/* Bytes that the string needs with its terminator; 0 if it is none, or if it has a zero character. */
size_t json_string_bytes(const char *text, size_t value);
/* Writes the string and its terminator. */
void json_string(const char *text, size_t value, char *out);
bool json_string_is(const char *text, size_t value, const char *expected);
/* A copy in `heap`; NULL if it is no string, or if there is no memory, which heap->refused tells. */
const char *json_take_string(heap *heap, const char *text, size_t value);

#endif
