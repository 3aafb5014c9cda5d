// Forks while the fork handlers of a library allocate. Prints how often they ran.
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

extern int atfork_calls;

int main(void) {
  for (int i = 0; i < 20; i++) {
    const pid_t child = fork();
    if (child == 0) _exit(atfork_calls == 2 * i + 2 ? 0 : 1);
    int status = 1;
    if (waitpid(child, &status, 0) != child || status != 0) return 1;
  }
  printf("%d calls\n", atfork_calls);
  return 0;
}
