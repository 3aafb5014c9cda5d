/* A server that is linked statically to the allocator: it holds a block for each request, and loses
 * one of another size. It listens on the Unix socket that its argument names, answers "answer N",
 * and ends by SIGTERM. tests/support/servers.py runs it. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common.h"

enum { kHeld = 20000, kLost = 3000, kMost = 1000 };
static char* volatile held[kMost];

__attribute__((noinline)) static char* plant_held(void) {
  char* block = malloc(kHeld);
  CHECK(block != NULL);
  return memset(block, 1, kHeld);
}

__attribute__((noinline)) static void plant_lost(void) {
  char* volatile block = malloc(kLost);
  CHECK(block != NULL);
  memset(block, 1, kLost);
  block = NULL;
}

static void end(int number) { exit(number != SIGTERM); }

int main(int count, char** words) {
  CHECK(count == 2);
  CHECK(signal(SIGTERM, end) != SIG_ERR);
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  CHECK(strlen(words[1]) < sizeof address.sun_path);
  memcpy(address.sun_path, words[1], strlen(words[1]));
  const int listener = socket(AF_UNIX, SOCK_STREAM, 0);
  CHECK(listener >= 0);
  CHECK(bind(listener, (struct sockaddr*)&address, sizeof address) == 0);
  CHECK(listen(listener, 16) == 0);
  for (int number = 0; number < kMost;) {
    const int stream = accept(listener, NULL, NULL);
    CHECK(stream >= 0);
    char request[512];
    if (read(stream, request, sizeof request) > 0) {
      held[number++] = plant_held();
      plant_lost();
      dprintf(stream, "HTTP/1.0 200 OK\r\n\r\nanswer %d", number);
    }
    close(stream);
  }
  return 0;
}
