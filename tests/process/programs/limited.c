/* What a limit set inside the process leaves to the rest of it: argv[1] names the case.
 * Prints what it found where a test compares it, and nothing where it checks by itself.
 * Invariant: under every limit threads, mappings and small blocks work, and what is freed counts
 * no more. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>

#include "common.h"

#define MIB ((size_t)1 << 20)

/* As much, or what there is already if that is less. */
static void limit(int which, size_t bytes) {
  struct rlimit value;
  CHECK(getrlimit(which, &value) == 0);
  if (value.rlim_max < bytes) bytes = value.rlim_max;
  value.rlim_cur = value.rlim_max = bytes;
  CHECK(setrlimit(which, &value) == 0);
}

static void* allocate_some(void* nothing) {
  free(take(10000));
  return nothing;
}

static void expect_a_thread(size_t stack) {
  pthread_attr_t attributes;
  pthread_t thread;
  CHECK(pthread_attr_init(&attributes) == 0);
  CHECK(pthread_attr_setstacksize(&attributes, stack) == 0);
  CHECK(pthread_create(&thread, &attributes, allocate_some, NULL) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
}

static void expect_a_mapping(size_t bytes) {
  void* mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(mapped != MAP_FAILED);
  CHECK(munmap(mapped, bytes) == 0);
}

static void expect_refusal(size_t bytes) {
  errno = 0;
  CHECK(malloc(bytes) == NULL && errno == ENOMEM);
}

/* The sum of a field of /proc/self/status, in KiB. */
static long status_of(const char* field) {
  char line[256];
  long value = -1;
  FILE* file = fopen("/proc/self/status", "r");
  CHECK(file != NULL);
  while (fgets(line, sizeof line, file) != NULL) {
    if (strncmp(line, field, strlen(field)) == 0) value = atol(line + strlen(field) + 1);
  }
  fclose(file);
  return value;
}

static void address_space(void) {
  churn(1, 1000);
  limit(RLIMIT_AS, 1024 * MIB);
  expect_a_thread(MIB);
  expect_a_mapping(100 * MIB);
  CHECK(dlopen("libm.so.6", RTLD_NOW) != NULL);
  free(take(100 * MIB));
  expect_refusal(3072 * MIB);
  expect_a_mapping(500 * MIB);
}

/* What is given back, at once or by a trim, is the process's again. */
static void data(void) {
  churn(1, 1000);
  limit(RLIMIT_DATA, 1024 * MIB);
  free(take(800 * MIB));
  expect_a_mapping(700 * MIB);
  expect_a_thread(300 * MIB);
  unsigned char* small[4000];
  for (int i = 0; i < 4000; ++i) small[i] = take(200000);
  for (int i = 0; i < 4000; ++i) free(small[i]);
  malloc_trim(0);
  expect_a_mapping(900 * MIB);
  expect_refusal(1200 * MIB);
}

/* As another user: root may lock any amount. */
static void locked(void) {
  free(take(10));
  limit(RLIMIT_MEMLOCK, 64 * MIB);
  CHECK(setresuid(65534, 65534, 65534) == 0);
  CHECK(mlockall(MCL_CURRENT) == 0);
  CHECK(mlockall(MCL_CURRENT | MCL_FUTURE) == 0);
  free(take(MIB / 2));
  expect_a_thread(MIB / 16);
  expect_refusal(128 * MIB);
}

/* The kernel refuses to drop pages that are locked. */
static void locked_trim(void) {
  CHECK(mlockall(MCL_CURRENT | MCL_FUTURE) == 0);
  const long before = status_of("VmLck:");
  unsigned char* blocks[1000];
  for (int i = 0; i < 1000; ++i) blocks[i] = take(100000);
  CHECK(status_of("VmLck:") > before + 90 * 1024);
  for (int i = 0; i < 1000; ++i) free(blocks[i]);
  malloc_trim(0);
  CHECK(status_of("VmLck:") < before + 8 * 1024);
}

static void largest(void) {
  size_t low = 0;
  size_t high = (size_t)1 << 33;
  while (high - low > 65536) {
    const size_t middle = low + (high - low) / 2;
    void* block = malloc(middle);
    *(block == NULL ? &high : &low) = middle;
    free(block);
  }
  printf("%zu\n", low);
}

/* As some sandboxes and emulators do it: madvise answers 0 and does nothing. */
static void lying_advice(void) {
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const struct sock_fprog program = {sizeof code / sizeof *code, code};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    puts("refused");
    return;
  }
  for (size_t size = 100000; size < 10 * MIB; size = size * 3 / 2) {
    unsigned char* kept = take(70000);
    unsigned char* block = take(size);
    give_back(block, size);
    malloc_trim(0);
    unsigned char* zeroed = (unsigned char*)calloc(1, size);
    CHECK(zeroed != NULL);
    for (size_t i = 0; i < size; ++i) CHECK(zeroed[i] == 0);
    free(zeroed);
    give_back(kept, 70000);
  }
  puts("zero");
}

static void use_every_size(void) {
  for (size_t size = 16; size < 200 * MIB; size = size * 5 / 3) {
    give_back(take(size), size);
    void* zeroed = calloc(1, size);
    CHECK(zeroed != NULL);
    zeroed = realloc(zeroed, size * 2);
    CHECK(zeroed != NULL);
    free(zeroed);
  }
}

/* The calls of a process's memory are allowed, as the C library's malloc makes them (OpenSSH's
 * sandbox has such a list), and any other one kills. */
static void sandboxed(void) {
  static const int kAllowed[] = {
      SYS_brk,     SYS_mmap,           SYS_munmap, SYS_mremap,    SYS_mprotect,
      SYS_madvise, SYS_clock_gettime,  SYS_getpid, SYS_futex,     SYS_exit_group,
      SYS_write,   SYS_rt_sigprocmask, SYS_fstat,  SYS_newfstatat};
  enum { kCount = sizeof kAllowed / sizeof *kAllowed };
  struct sock_filter code[kCount + 3] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
  for (unsigned i = 0; i < kCount; ++i) {
    code[i + 1] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)kAllowed[i],
                                               (unsigned char)(kCount - i), 0);
  }
  code[kCount + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
  code[kCount + 2] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  const struct sock_fprog program = {sizeof code / sizeof *code, code};
  free(take(100));
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    puts("refused");
    return;
  }
  use_every_size();
  CHECK(malloc((size_t)1 << 46) == NULL);
  puts("used");
}

/* No search for a place that cannot exist. */
static void alignments(void) {
  struct timespec start, end;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &start);
  for (unsigned shift = 40; shift < 62; ++shift) {
    void* block = NULL;
    CHECK(posix_memalign(&block, (size_t)1 << shift, 100) == ENOMEM);
  }
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
  CHECK(end.tv_sec - start.tv_sec <= 1);
  puts("refused");
}

int main(int argc, char** argv) {
  static const struct {
    const char* name;
    void (*run)(void);
  } kCases[] = {{"address_space", address_space},
                {"data", data},
                {"locked", locked},
                {"locked_trim", locked_trim},
                {"largest", largest},
                {"advice", lying_advice},
                {"sandbox", sandboxed},
                {"alignments", alignments}};
  CHECK(argc == 2 || argc == 3);
  if (argc == 3) { /* "size BYTES": whether that is granted */
    void* block = malloc(strtoull(argv[2], NULL, 10));
    puts(block == NULL ? "refused" : "granted");
    return 0;
  }
  for (size_t i = 0; i < sizeof kCases / sizeof *kCases; ++i) {
    if (strcmp(argv[1], kCases[i].name) != 0) continue;
    kCases[i].run();
    return 0;
  }
  CHECK(!"a case that is known");
}
