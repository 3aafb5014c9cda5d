// Calls of the C library that no other object can interpose; only the shared libraries have it.
//
// A program, a preloaded tool or the runtime of a sanitizer may define any public name of the C
// library, with a meaning of its own or before it is ready to be called. So each function of
// shim/libc_names.h has a hidden definition here, to which the linker binds the library's calls. A
// definition jumps through a slot. The first jump finds the function in the C library's own table
// of symbols; the others go straight to it. The archives call the C library by name: they are a
// part of the program.
// Docs: docs/decisions/0015-interposition.md.
// Invariant: nothing that `near_bind_slot` calls is found by `near_bind_slot`, apart from getauxval
// for the choice of an implementation.
// Thread-safety: any thread, also in a handler; all threads store the same function.
#include <link.h>

#include <cstddef>

#include "base/atomic.h"
#include "base/compiler.h"
#include "platform/loaded.h"
#include "shim/libc_names.h"

namespace near {
namespace {

// The loader's list of objects, for debuggers. From glibc 2.35 on a namespace of dlmopen has one of
// its own, which `next` leads to if the version is 2 or more.
struct Namespace {
  r_debug list;
  const Namespace* next;
};

struct Slot {
  Atomic<void*> function;  // at first the code that leads to near_bind
  const char* name;
};
static_assert(offsetof(Slot, name) == 8);

bool has_own_object(const link_map* objects) {
  for (const link_map* object = objects; object != nullptr; object = object->l_next) {
    if (object->l_ld == _DYNAMIC) return true;
  }
  return false;
}

// The objects of the namespace in which this library is.
const link_map* own_namespace() {
  const auto* each = reinterpret_cast<const Namespace*>(&_r_debug);
  const bool is_only = each->list.r_version < 2;
  while (each != nullptr && !has_own_object(each->list.r_map))
    each = is_only ? nullptr : each->next;
  return each == nullptr ? _r_debug.r_map : each->list.r_map;
}

const link_map* find_libc() {
  for (const link_map* object = own_namespace(); object != nullptr; object = object->l_next) {
    if (LoadedObject(object->l_addr, object->l_ld).is_named("libc.so.6")) return object;
  }
  return nullptr;
}

// Null if the C library does not define the function.
void* find_in_libc(const char* name) {
  static constinit Atomic<const link_map*> found{nullptr};
  const link_map* libc = found.load(kRelaxed);  // relaxed: all threads find the same
  if (libc == nullptr) {
    libc = find_libc();
    if (libc == nullptr) return nullptr;
    found.store(libc, kRelaxed);  // relaxed: as above
  }
  return LoadedObject(libc->l_addr, libc->l_ld).symbol(name);
}

}  // namespace
}  // namespace near

extern "C" NEAR_HIDDEN __attribute__((used)) void near_bind_slot(near::Slot* slot) {
  void* const function = near::find_in_libc(slot->name);
  if (function == nullptr) __builtin_trap();       // glibc has them all
  slot->function.store(function, near::kRelaxed);  // relaxed: all threads find the same
}

// near_bind keeps the registers of arguments, calls near_bind_slot, and jumps to the function.
#if defined(__x86_64__)
#define NEAR_BIND_SLOT_AND_JUMP                       \
  "sub $200, %rsp\n.cfi_adjust_cfa_offset 200\n"      \
  "mov %rax, 128(%rsp)\nmov %rdi, 136(%rsp)\n"        \
  "mov %rsi, 144(%rsp)\nmov %rdx, 152(%rsp)\n"        \
  "mov %rcx, 160(%rsp)\nmov %r8, 168(%rsp)\n"         \
  "mov %r9, 176(%rsp)\nmov %r11, 184(%rsp)\n"         \
  "movups %xmm0, (%rsp)\nmovups %xmm1, 16(%rsp)\n"    \
  "movups %xmm2, 32(%rsp)\nmovups %xmm3, 48(%rsp)\n"  \
  "movups %xmm4, 64(%rsp)\nmovups %xmm5, 80(%rsp)\n"  \
  "movups %xmm6, 96(%rsp)\nmovups %xmm7, 112(%rsp)\n" \
  "mov %r11, %rdi\ncall near_bind_slot\n"             \
  "mov 128(%rsp), %rax\nmov 136(%rsp), %rdi\n"        \
  "mov 144(%rsp), %rsi\nmov 152(%rsp), %rdx\n"        \
  "mov 160(%rsp), %rcx\nmov 168(%rsp), %r8\n"         \
  "mov 176(%rsp), %r9\nmov 184(%rsp), %r11\n"         \
  "movups (%rsp), %xmm0\nmovups 16(%rsp), %xmm1\n"    \
  "movups 32(%rsp), %xmm2\nmovups 48(%rsp), %xmm3\n"  \
  "movups 64(%rsp), %xmm4\nmovups 80(%rsp), %xmm5\n"  \
  "movups 96(%rsp), %xmm6\nmovups 112(%rsp), %xmm7\n" \
  "add $200, %rsp\n.cfi_adjust_cfa_offset -200\n"     \
  "jmp *(%r11)\n"
#define NEAR_JUMP(slot) "endbr64\njmp *" slot "(%rip)\n"
#define NEAR_TO_BIND(slot) "endbr64\nlea " slot "(%rip), %r11\njmp near_bind\n"
#elif defined(__aarch64__)
#define NEAR_BIND_SLOT_AND_JUMP                             \
  "stp x29, x30, [sp, -224]!\n.cfi_adjust_cfa_offset 224\n" \
  ".cfi_rel_offset x29, 0\n.cfi_rel_offset x30, 8\n"        \
  "mov x29, sp\n"                                           \
  "stp x0, x1, [sp, 16]\nstp x2, x3, [sp, 32]\n"            \
  "stp x4, x5, [sp, 48]\nstp x6, x7, [sp, 64]\n"            \
  "stp x8, x17, [sp, 80]\n"                                 \
  "stp q0, q1, [sp, 96]\nstp q2, q3, [sp, 128]\n"           \
  "stp q4, q5, [sp, 160]\nstp q6, q7, [sp, 192]\n"          \
  "mov x0, x17\nbl near_bind_slot\n"                        \
  "ldp x0, x1, [sp, 16]\nldp x2, x3, [sp, 32]\n"            \
  "ldp x4, x5, [sp, 48]\nldp x6, x7, [sp, 64]\n"            \
  "ldp x8, x17, [sp, 80]\n"                                 \
  "ldp q0, q1, [sp, 96]\nldp q2, q3, [sp, 128]\n"           \
  "ldp q4, q5, [sp, 160]\nldp q6, q7, [sp, 192]\n"          \
  "ldp x29, x30, [sp], 224\n.cfi_adjust_cfa_offset -224\n"  \
  ".cfi_restore x29\n.cfi_restore x30\n"                    \
  "ldr x16, [x17]\nbr x16\n"
#define NEAR_JUMP(slot) "hint 34\nadrp x16, " slot "\nldr x16, [x16, :lo12:" slot "]\nbr x16\n"
#define NEAR_TO_BIND(slot) \
  "hint 34\nadrp x17, " slot "\nadd x17, x17, :lo12:" slot "\nb near_bind\n"
#endif

asm(".text\n"
    ".type near_bind, %function\n"
    "near_bind:\n.cfi_startproc\n" NEAR_BIND_SLOT_AND_JUMP
    ".cfi_endproc\n"
    ".size near_bind, . - near_bind\n");

// Defines `label`, which is the function `name` of the C library.
#define NEAR_LIBC_AS(label, name) \
  asm(".text\n"                                                                       \
      ".balign 16\n"                                                                  \
      ".globl " label "\n.hidden " label "\n.type " label ", %function\n"             \
      label ":\n.cfi_startproc\n" NEAR_JUMP(".Lslot_" label) ".cfi_endproc\n"         \
      ".size " label ", . - " label "\n"                                              \
      ".Lbind_" label ":\n.cfi_startproc\n" NEAR_TO_BIND(".Lslot_" label) ".cfi_endproc\n" \
      ".section .rodata.str1.1, \"aMS\", %progbits, 1\n"                              \
      ".Lname_" label ": .asciz \"" name "\"\n"                                       \
      ".section .data.rel.local, \"aw\"\n"                                            \
      ".balign 16\n"                                                                  \
      ".Lslot_" label ": .8byte .Lbind_" label ", .Lname_" label "\n"                 \
      ".text\n");
#define NEAR_LIBC(name) NEAR_LIBC_AS(#name, #name)

NEAR_LIBC_NAMES(NEAR_LIBC)
// The overriding library has a pthread_create of its own.
NEAR_LIBC_AS("libc_pthread_create", "pthread_create")
