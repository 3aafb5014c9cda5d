/* Uses a library whose constructor creates a thread before any other constructor runs. */
#include <stdio.h>

extern int early_threads;

int main(void) { return puts(early_threads == 1 ? "ok" : "no thread") < 0; }
