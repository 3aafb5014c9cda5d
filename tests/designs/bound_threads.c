// Prints where threads may run: the main thread before and after it creates others; threads with
// default and with own attributes; a child process; and a thread and a child process of a thread
// that chose one processor, the argument, itself.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void say(const char* who) {
  cpu_set_t set;
  sched_getaffinity(0, sizeof set, &set);
  printf("%s:", who);
  for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
    if (CPU_ISSET(cpu, &set)) printf(" %d", cpu);
  }
  printf("\n");
  fflush(stdout);
}

static sem_t said;

static void* run(void* who) {
  say(who);
  sem_post(&said);
  free(malloc(100));
  return who;
}

static void say_as_child(const char* who) {
  const pid_t child = fork();
  if (child == 0) {
    say(who);
    _exit(0);
  }
  waitpid(child, NULL, 0);
}

static void create(const char* who, const pthread_attr_t* attributes, int joined) {
  pthread_t thread;
  void* result = NULL;
  if (pthread_create(&thread, attributes, run, (void*)who) != 0) exit(1);
  struct timespec limit;
  clock_gettime(CLOCK_REALTIME, &limit);
  limit.tv_sec += 30;
  if (sem_timedwait(&said, &limit) != 0) exit(4);
  if (!joined) return;
  pthread_join(thread, &result);
  if (result != who) exit(2);
}

int main(int count, char** arguments) {
  sem_init(&said, 0, 0);
  cpu_set_t everywhere;
  sched_getaffinity(0, sizeof everywhere, &everywhere);
  say("main before");
  create("thread", NULL, 1);
  say("main after");
  create("thread", NULL, 1);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  create("detached", &attributes, 0);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_JOINABLE);
  pthread_attr_setaffinity_np(&attributes, sizeof everywhere, &everywhere);
  create("own", &attributes, 1);
  pthread_attr_destroy(&attributes);
  say_as_child("child");
  if (count < 2) return 0;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(atoi(arguments[1]), &one);
  if (sched_setaffinity(0, sizeof one, &one) != 0) return 3;
  create("thread of one that chose", NULL, 1);
  say_as_child("its child");
  return 0;
}
