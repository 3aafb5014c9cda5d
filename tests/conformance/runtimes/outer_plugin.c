/* A plugin in C whose library is in C++: the loader opens that library for its
 * sake. Linked to failing_new.cc. */
int plugin_run(int round);
int outer_run(int round);
int outer_run(int round) { return plugin_run(round); }
