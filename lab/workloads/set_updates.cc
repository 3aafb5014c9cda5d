// Threads insert and erase uniform keys of a set whose nodes are allocated and retired: what a
// concurrent tree asks of its allocator through its memory reclamation. Options choose structure,
// scheme, policy, and what goes wrong: a reader that sleeps inside an operation, one between two.
// Source: [Kim23 §3.1]: half insertions, half erasures of keys in [0, 2 x 10^7), from the size that
// they lead to, by 6 to 192 threads for 5 s; here the work is fixed. The structures are the
// library's: the (a,b)-tree, Bronson's tree, a list, a hash map.
#include "set_updates.h"

int main(int argc, char** argv) {
  return set_updates::run_program("set_updates", argc, argv, nullptr);
}
