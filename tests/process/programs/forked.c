/* Forks many children, each of which holds blocks of a size of its own and ends in another way: by
 * exit, by another program that it executes, by SIGKILL, by _exit, or by exit after a child of its
 * own. Prints for each process its number, that size, how many blocks it holds, and the way.
 * tests/process/forked.py reads their profiles. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common.h"

enum { kChildren = 100, kAtOnce = 20, kSize = 3000 };
static void* held[2 * kChildren + 2];

static void hold(int size, int blocks, const char* way) {
  for (int i = 0; i < blocks; i++) {
    held[i] = malloc((size_t)size);
    CHECK(held[i] != NULL);
    memset(held[i], 1, (size_t)size);
  }
  char line[100];
  const int length = snprintf(line, sizeof line, "%d %d %d %s\n", getpid(), size, blocks, way);
  CHECK(write(1, line, (size_t)length) == length);
}

static void execute(const char* self, int number) {
  char word[20];
  snprintf(word, sizeof word, "%d", number);
  execl(self, self, word, (char*)NULL);
  CHECK(0);
}

static void be_child(const char* self, int number) {
  const int size = kSize + number, blocks = number + 1;
  switch (number % 5) {
    case 0:
      hold(size, blocks, "exit");
      exit(0);
    case 1:
      hold(size, blocks, "exec");
      execute(self, number);
      break;
    case 2:
      hold(size, blocks, "kill");
      kill(getpid(), SIGKILL);
      break;
    case 3:
      hold(size, blocks, "_exit");
      _exit(0);
    default:
      if (fork() == 0) {
        hold(size + kChildren, blocks, "exit");
        exit(0);
      }
      CHECK(wait(NULL) > 0);
      hold(size, blocks, "exit");
      exit(0);
  }
}

int main(int count, char** words) {
  if (count > 1) { /* what a child executes */
    const int number = atoi(words[1]);
    hold(kSize + number + 2 * kChildren, 2 * (number + 1), "exit");
    return 0;
  }
  for (int number = 0; number < kChildren; number++) {
    if (number >= kAtOnce) CHECK(wait(NULL) > 0);
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) be_child(words[0], number);
  }
  while (wait(NULL) > 0) {
  }
  hold(kSize - 1, 1, "exit");
  return 0;
}
