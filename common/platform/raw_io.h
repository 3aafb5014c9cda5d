// File access by system calls that are no cancellation points: a cancelled thread must not end
// inside malloc while it holds locks.
// Thread-safety: any thread; errno is set as by the POSIX functions.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>

namespace near::raw {

inline int open_to_read(const char* path) {
  return static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC));
}
inline void close(int file) { syscall(SYS_close, file); }

// Makes a new file for this process's user alone, and follows no link.
inline int create(const char* path, int access) {
  constexpr int kNew = O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  return static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, access | kNew, 0600));
}
// What has the name itself, be it a link. False if there is nothing.
inline bool look_at(const char* path, struct stat& found) {
  return syscall(SYS_newfstatat, AT_FDCWD, path, &found, AT_SYMLINK_NOFOLLOW) == 0;
}
inline bool is_own(const struct stat& found) {
  return static_cast<long>(found.st_uid) == syscall(SYS_geteuid);
}
// True of a file of this user without a second name, of a pipe of this user, and of a device.
inline bool may_write_over(const struct stat& found) {
  if (S_ISREG(found.st_mode)) return is_own(found) && found.st_nlink == 1;
  return S_ISCHR(found.st_mode) || (S_ISFIFO(found.st_mode) && is_own(found));
}
// Opens a new file, or empties an old one that may be written over. Others may write to the folder:
// so it follows no link, and leaves the files of other users alone.
inline int open_to_write(const char* path) {
  const int made = create(path, O_WRONLY);
  struct stat found{};
  if (made >= 0 || !look_at(path, found) || !may_write_over(found)) return made;
  const int file =
      static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_NOFOLLOW | O_CLOEXEC));
  if (file < 0) return file;
  // Another process may have put something else there meanwhile.
  const bool may = syscall(SYS_fstat, file, &found) == 0 && may_write_over(found);
  if (may && (!S_ISREG(found.st_mode) || syscall(SYS_ftruncate, file, off_t{0}) == 0)) return file;
  close(file);
  return -1;
}
// Connects to a Unix socket that accepts streams.
inline int connect_to(const char* path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (strlen(path) >= sizeof address.sun_path) return -1;
  strcpy(address.sun_path, path);
  const int file = static_cast<int>(syscall(SYS_socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (file < 0 || syscall(SYS_connect, file, &address, sizeof address) == 0) return file;
  syscall(SYS_close, file);
  return -1;
}
// Says that nothing more will be written to a socket.
inline void end_writing(int file) { syscall(SYS_shutdown, file, SHUT_WR); }
inline ssize_t read(int file, char* text, size_t room) {
  return syscall(SYS_read, file, text, room);
}
inline ssize_t read_at(int file, void* room, size_t bytes, off_t at) {
  return syscall(SYS_pread64, file, room, bytes, at);
}
inline long control(int file, unsigned long request, void* argument) {
  return syscall(SYS_ioctl, file, request, argument);
}
inline ssize_t write(int file, const char* text, size_t length) {
  return syscall(SYS_write, file, text, length);
}
// Maps the beginning of a file for this process and all others, and allocates its room first, so
// that writing to it cannot fail. Null if the system refuses.
inline void* map_shared(int file, size_t bytes) {
  if (syscall(SYS_fallocate, file, 0, off_t{0}, bytes) != 0) return nullptr;
  void* start = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  return start == MAP_FAILED ? nullptr : start;
}
inline void unmap(void* start, size_t bytes) { munmap(start, bytes); }
// A new file, which takes the name of a plain one of this user, or of root: a process that gave up
// root made that one before. A process that maps the old file keeps it.
inline int open_to_map(const char* path) {
  struct stat found{};
  if (look_at(path, found) && S_ISREG(found.st_mode) && (is_own(found) || found.st_uid == 0)) {
    syscall(SYS_unlinkat, AT_FDCWD, path, 0);
  }
  return create(path, O_RDWR);
}
inline int duplicate(int file, int least) {
  return static_cast<int>(syscall(SYS_fcntl, file, F_DUPFD_CLOEXEC, least));
}

}  // namespace near::raw
