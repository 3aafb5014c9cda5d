// Counts the memory calls of a program and of all its descendants: a seccomp filter with user
// notification makes the kernel ask the launcher before each one. No process is traced.
//
// Invariant: every call of kCounted that a process of the tree began is counted once; other calls
// pass the filter at once. A counted call takes some microseconds more, so the run should not be
// timed; a signal whose handler forbids restarts (no SA_RESTART) can interrupt it.
// Thread-safety: only launch.c, one thread. Source: seccomp_unotify(2).
#pragma once

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
static const unsigned kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
static const unsigned kArchitecture = AUDIT_ARCH_AARCH64;
#endif

struct counted_call {
  const char* name;
  unsigned number;
};
static const struct counted_call kCounted[] = {
    {"mmap", SYS_mmap},     {"munmap", SYS_munmap},     {"madvise", SYS_madvise},
    {"mremap", SYS_mremap}, {"mprotect", SYS_mprotect}, {"brk", SYS_brk},
};
enum { kCountedCalls = sizeof kCounted / sizeof kCounted[0] };

struct calls {
  int listener;  // -1: nothing is counted
  int refused;   // the kernel's reason, an errno; 0: none
  long counts[kCountedCalls];
};

// Called by the child just before exec: from here on its counted calls wait for the launcher.
// Returns the listener, or -1 with errno.
static int install_filter(void) {
  struct sock_filter code[kCountedCalls + 5];
  unsigned at = 0;
  code[at++] =
      (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch));
  code[at++] =
      (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kArchitecture, 0, kCountedCalls + 1);
  code[at++] =
      (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
  for (unsigned i = 0; i < kCountedCalls; ++i) {
    const unsigned char ahead = (unsigned char)(kCountedCalls - i);  // to the last instruction
    code[at++] =
        (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kCounted[i].number, ahead, 0);
  }
  code[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  code[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF);
  const struct sock_fprog program = {(unsigned short)at, code};
  // With WAIT_KILLABLE_RECV the kernel does not ask twice after a signal handler.
  static const unsigned kFlags[] = {
      SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV,
      SECCOMP_FILTER_FLAG_NEW_LISTENER};
  int listener = -1;
  for (int i = 0; i < 4 && listener < 0; ++i) {
    if (i == 2) prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);  // lets an unprivileged user set a filter
    listener = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, kFlags[i % 2], &program);
  }
  return listener;
}

union control {
  char bytes[CMSG_SPACE(sizeof(int))];
  struct cmsghdr aligned;
};

// Called by the child: sends the listener to the launcher, or the reason why there is none.
static void hand_over_listener(int socket) {
  const int listener = install_filter();
  int reason = listener < 0 ? errno : 0;
  struct iovec word = {&reason, sizeof reason};
  union control control = {{0}};
  struct msghdr message = {.msg_iov = &word, .msg_iovlen = 1};
  if (listener >= 0) {
    message.msg_control = control.bytes;
    message.msg_controllen = sizeof control.bytes;
    struct cmsghdr* const head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof listener);
    memcpy(CMSG_DATA(head), &listener, sizeof listener);
  }
  // If the launcher does not listen, the first counted call would wait forever.
  if (sendmsg(socket, &message, 0) != sizeof reason) _exit(126);
}

static void receive_listener(struct calls* calls, int socket) {
  int reason = 0;
  struct iovec word = {&reason, sizeof reason};
  union control control = {{0}};
  struct msghdr message = {.msg_iov = &word,
                           .msg_iovlen = 1,
                           .msg_control = control.bytes,
                           .msg_controllen = sizeof control.bytes};
  if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != sizeof reason) reason = EPIPE;
  calls->refused = reason;
  const struct cmsghdr* const head = CMSG_FIRSTHDR(&message);
  if (reason == 0 && head != NULL) memcpy(&calls->listener, CMSG_DATA(head), sizeof(int));
}

// Counts one waiting call and lets it continue. False when none waits.
static bool count_waiting(struct calls* calls) {
  struct pollfd ready = {.fd = calls->listener, .events = POLLIN};
  if (calls->listener < 0 || poll(&ready, 1, 0) <= 0 || (ready.revents & POLLIN) == 0) return false;
  struct seccomp_notif call = {0};
  if (ioctl(calls->listener, SECCOMP_IOCTL_NOTIF_RECV, &call) != 0)
    return errno == ENOENT || errno == EINTR;  // the calling process was killed
  for (int i = 0; i < kCountedCalls; ++i)
    calls->counts[i] += kCounted[i].number == (unsigned)call.data.nr;
  struct seccomp_notif_resp answer = {.id = call.id, .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};
  ioctl(calls->listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
  return true;
}

// Prints `calls NAME=COUNT ...`, or `calls refused REASON`.
static void print_calls(const struct calls* calls, FILE* out) {
  fprintf(out, "calls");
  for (int i = 0; i < kCountedCalls && calls->refused == 0; ++i)
    fprintf(out, " %s=%ld", kCounted[i].name, calls->counts[i]);
  if (calls->refused != 0) fprintf(out, " refused %s", strerror(calls->refused));
  fprintf(out, "\n");
}
