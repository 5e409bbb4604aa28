/* A test is a function; CHECK says where it failed and goes on. */
#ifndef STERNA_CHECK_H
#define STERNA_CHECK_H

#include <stdio.h>

static int failures;

#define CHECK(condition) \
  ((condition) ? (void)0 : (void)(printf("%s:%d: CHECK(%s) failed\n", __FILE__, __LINE__, #condition), failures++))

#endif
