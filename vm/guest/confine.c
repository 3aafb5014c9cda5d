// Takes rights and memory from a program of the guest, then runs it:
//   confine [--refuse mbind|policies] [--no-sysfs] [--membind NODE,...] [--interleave NODE,...]
//     [--fill NODE:MIB] -- PROGRAM ARGUMENT...
// --refuse: mbind(2) fails with EPERM; for `policies`, so do get_mempolicy(2) and
// set_mempolicy(2), as in many containers. --no-sysfs: /sys is empty. --membind, --interleave: the
// memory policy that numactl sets by these names. --fill: another process takes all but MIB of the
// node's memory.
// Invariant: the program runs with all these limits, or not at all (status 125).
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/mempolicy.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { cannot = 125, node_bits = 8 * sizeof(long) };
static const size_t mib = (size_t)1 << 20;

static _Noreturn void fail(const char* what) {
  fprintf(stderr, "confine: %s: %s\n", what, strerror(errno));
  exit(cannot);
}

// The calls that --refuse refuses: `mbind` the first one, `policies` all.
static const unsigned calls[] = {SYS_mbind, SYS_get_mempolicy, SYS_set_mempolicy};
enum { all_calls = sizeof calls / sizeof calls[0] };

static void refuse(size_t count) {
  struct sock_filter rules[all_calls + 3];
  struct sock_filter* rule = rules;
  *rule++ =
      (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
  for (size_t i = 0; i < count; i++) {
    const unsigned char to_refusal = (unsigned char)(count - i);  // past the other calls
    *rule++ = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[i], to_refusal, 0);
  }
  *rule++ = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  *rule++ = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
  const struct sock_fprog program = {(unsigned short)(rule - rules), rules};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) fail("no_new_privs");
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) fail("seccomp");
}

static size_t calls_of(const char* text) {
  if (strcmp(text, "mbind") == 0) return 1;
  if (strcmp(text, "policies") == 0) return all_calls;
  errno = EINVAL;
  fail(text);
}

// The set of numbers in a text such as "0,2".
static unsigned long nodes_of(const char* text) {
  unsigned long nodes = 0;
  while (*text != '\0') {
    char* end = NULL;
    const unsigned long node = strtoul(text, &end, 10);
    errno = EINVAL;
    if (end == text || node >= node_bits || (*end != ',' && *end != '\0')) fail(text);
    nodes |= 1UL << node;
    text = *end == ',' ? end + 1 : end;
  }
  return nodes;
}

static void set_policy(int mode, const char* text) {
  const unsigned long nodes = nodes_of(text);
  if (syscall(SYS_set_mempolicy, mode, &nodes, node_bits + 1UL) != 0) fail("set_mempolicy");
}

// The free memory of a node, as the kernel reports it.
static size_t free_bytes(unsigned long node) {
  char path[80];
  snprintf(path, sizeof path, "/sys/devices/system/node/node%lu/meminfo", node);
  FILE* const file = fopen(path, "r");
  if (file == NULL) fail(path);
  char line[160];
  size_t kib = 0;
  while (fgets(line, sizeof line, file) != NULL) {
    const char* const found = strstr(line, "MemFree:");
    if (found != NULL) kib = strtoul(found + strlen("MemFree:"), NULL, 10);
  }
  fclose(file);
  return kib * 1024;
}

// Takes memory of the node, a piece at a time, until `left` bytes of it are free.
static void take(unsigned long node, size_t left) {
  const unsigned long nodes = 1UL << node;
  while (free_bytes(node) > left + mib) {
    char* const piece = mmap(NULL, mib, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (piece == MAP_FAILED) fail("mmap");
    if (syscall(SYS_mbind, piece, mib, MPOL_BIND, &nodes, node_bits + 1UL, 0U) != 0) fail("mbind");
    memset(piece, 1, mib);
  }
}

// If memory runs out, the kernel kills this process before others.
static void go_first(void) {
  FILE* const file = fopen("/proc/self/oom_score_adj", "w");
  if (file == NULL || fputs("1000", file) < 0 || fclose(file) != 0) fail("oom_score_adj");
}

// Starts the process that holds the node's memory until this one ends.
static void fill(const char* text) {
  char* end = NULL;
  const unsigned long node = strtoul(text, &end, 10);
  errno = EINVAL;
  if (end == text || *end != ':' || node >= node_bits) fail(text);
  const size_t left = strtoul(end + 1, NULL, 10) * mib;
  int ready[2];
  if (pipe(ready) != 0) fail("pipe");
  const pid_t child = fork();
  if (child < 0) fail("fork");
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    go_first();
    take(node, left);
    if (write(ready[1], "", 1) != 1) fail("write");
    for (;;) pause();
  }
  close(ready[1]);
  char byte;
  if (read(ready[0], &byte, 1) != 1) exit(cannot);  // the child printed the reason
  close(ready[0]);
}

// The policy holds for this process and the program that it runs.
static void unmount_sysfs(void) {
  if (unshare(CLONE_NEWNS) != 0) fail("unshare");
  if (umount2("/sys", MNT_DETACH) != 0) fail("/sys");
}

int main(int argc, char** argv) {
  int at = 1;
  size_t refused = 0;
  int hide_sysfs = 0;
  for (; at < argc && strcmp(argv[at], "--") != 0; at++) {
    const int has_value = at + 1 < argc;
    if (has_value && strcmp(argv[at], "--refuse") == 0) {
      refused = calls_of(argv[++at]);
    } else if (strcmp(argv[at], "--no-sysfs") == 0) {
      hide_sysfs = 1;
    } else if (has_value && strcmp(argv[at], "--membind") == 0) {
      set_policy(MPOL_BIND, argv[++at]);
    } else if (has_value && strcmp(argv[at], "--interleave") == 0) {
      set_policy(MPOL_INTERLEAVE, argv[++at]);
    } else if (has_value && strcmp(argv[at], "--fill") == 0) {
      fill(argv[++at]);
    } else {
      errno = EINVAL;
      fail(argv[at]);
    }
  }
  if (at + 1 >= argc) {
    errno = EINVAL;
    fail("-- PROGRAM");
  }
  // This is last because --fill reads /sys and binds memory.
  if (hide_sysfs) unmount_sysfs();
  if (refused > 0) refuse(refused);
  execvp(argv[at + 1], argv + at + 1);
  fail(argv[at + 1]);
}
