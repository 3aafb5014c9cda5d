// Threads insert and erase uniform keys of a set whose nodes are allocated and retired. It measures
// how a concurrent tree loads its allocator through memory reclamation. Options choose structure,
// scheme, policy, and a disturbance: a reader that stops inside an operation, or between two.
// Source: [Kim23 §3.1]: half insertions, half erasures of keys in [0, 2 x 10^7), from the steady
// size, by 6 to 192 threads for 5 s; here the work is fixed. The structures are the library's: the
// (a,b)-tree, Bronson's tree, a skip list, a list, a hash map.
#include "set_updates.h"

int main(int argc, char** argv) {
  return set_updates::run_program("set_updates", argc, argv, nullptr);
}
