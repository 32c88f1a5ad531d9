"""A library that shifts the clock of a process and its children, for drivers: LD_PRELOAD, made by the C compiler."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

_SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static long shift(void) {
  static long seconds, known;
  if (!known) {
    const char *given = getenv("CLOCK_SHIFT_S");
    seconds = given ? atol(given) : 0;
    known = 1;
  }
  return seconds;
}

int clock_gettime(clockid_t clock, struct timespec *into) {
  static int (*real)(clockid_t, struct timespec *);
  if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
  int answer = real(clock, into);
  if (!answer && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) into->tv_sec += shift();
  return answer;
}

int gettimeofday(struct timeval *into, void *zone) {
  struct timespec now;
  int answer = clock_gettime(CLOCK_REALTIME, &now);
  into->tv_sec = now.tv_sec;
  into->tv_usec = now.tv_nsec / 1000;
  return answer;
}

time_t time(time_t *into) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (into) *into = now.tv_sec;
  return now.tv_sec;
}
"""


class NoCompiler(LookupError):
    """No C compiler is installed, so no clock can be shifted."""


def shifted(seconds: int) -> Mapping[str, str]:
    """The environment of a process whose clock is ahead by so many seconds, or behind. Raises NoCompiler."""
    return {"LD_PRELOAD": str(_library()), "CLOCK_SHIFT_S": str(seconds)}


@cache
def _library() -> Path:
    compiler = shutil.which("cc")
    if compiler is None:
        raise NoCompiler("install a C compiler (cc) to run faults of the clock")
    folder = Path(mkdtemp(prefix="sluice-clock-"))
    source, library = folder / "clock.c", folder / "clock.so"
    source.write_text(_SOURCE)
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    return library
