// libnearbind.so: only the binding, for any allocator. [Yang23 §4.4.1]
// NEARBIND_OPTIONS=binding=interleave|saturate|file:PATH|off
#include <pthread.h>

#include <cstdlib>

#include "designs/numalloc/binding/binding.h"
#include "designs/shared/machine.h"
#include "designs/shared/switches.h"
#include "platform/message.h"
#include "platform/options.h"

namespace near::design::numalloc::binding {
namespace {

design::Switch table[] = {{"binding", "interleave|saturate|file:|off", 0, 0, 3,
                           "which node a new thread is bound to [Yang23 §3.2]"}};

void before_fork() { lock_for_fork(); }
void after_fork_in_parent() { unlock_after_fork(false); }
void after_fork_in_child() { unlock_after_fork(true); }

void print_counts() {
  const Counts now = counts();
  print("nearbind: %lu threads bound, %lu left alone, %lu refused\n", now.bound, now.left_alone,
        now.refused);
}

__attribute__((constructor)) void begin(int, char**, char** environment) {
  TextOption of_designs{"design_options", nullptr};  // they may be preloaded, too
  read_options(environment, &of_designs);
  design::read_switches("nearbind", getenv("NEARBIND_OPTIONS"), table);
  design::read_machine();
  pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
  start(static_cast<Policy>(table[0].value), table[0].text);
  if (option(Option::stats) != 0) atexit(print_counts);
}

}  // namespace
}  // namespace near::design::numalloc::binding
