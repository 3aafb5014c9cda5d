// Functions that are found at their first call, as code: each jumps through a slot of its own.
//
// A slot is two words: where the jump leads, and the name of the function. At first the jump leads
// to a routine that keeps the registers of arguments, calls a binder with the address of the slot,
// and jumps through the slot again. The binder stores the function in the slot.
// Thread-safety: any thread, if all binders of a slot store the same function.
#pragma once

// BIND: r11 or x17 has the address of the slot; the registers of arguments keep their values, those
// of floating-point numbers too, because a function may have any arguments.
#if defined(__x86_64__)
#define NEAR_BIND(binder)                             \
  "sub $200, %rsp\n.cfi_adjust_cfa_offset 200\n"      \
  "mov %rax, 128(%rsp)\nmov %rdi, 136(%rsp)\n"        \
  "mov %rsi, 144(%rsp)\nmov %rdx, 152(%rsp)\n"        \
  "mov %rcx, 160(%rsp)\nmov %r8, 168(%rsp)\n"         \
  "mov %r9, 176(%rsp)\nmov %r11, 184(%rsp)\n"         \
  "movups %xmm0, (%rsp)\nmovups %xmm1, 16(%rsp)\n"    \
  "movups %xmm2, 32(%rsp)\nmovups %xmm3, 48(%rsp)\n"  \
  "movups %xmm4, 64(%rsp)\nmovups %xmm5, 80(%rsp)\n"  \
  "movups %xmm6, 96(%rsp)\nmovups %xmm7, 112(%rsp)\n" \
  "mov %r11, %rdi\ncall " binder                      \
  "\n"                                                \
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
#define NEAR_JUMP_THROUGH(slot) "endbr64\njmp *" slot "(%rip)\n"
#define NEAR_JUMP_TO(routine, slot) "endbr64\nlea " slot "(%rip), %r11\njmp " routine "\n"
#elif defined(__aarch64__)
#define NEAR_BIND(binder)                                   \
  "stp x29, x30, [sp, -224]!\n.cfi_adjust_cfa_offset 224\n" \
  ".cfi_rel_offset x29, 0\n.cfi_rel_offset x30, 8\n"        \
  "mov x29, sp\n"                                           \
  "stp x0, x1, [sp, 16]\nstp x2, x3, [sp, 32]\n"            \
  "stp x4, x5, [sp, 48]\nstp x6, x7, [sp, 64]\n"            \
  "stp x8, x17, [sp, 80]\n"                                 \
  "stp q0, q1, [sp, 96]\nstp q2, q3, [sp, 128]\n"           \
  "stp q4, q5, [sp, 160]\nstp q6, q7, [sp, 192]\n"          \
  "mov x0, x17\nbl " binder                                 \
  "\n"                                                      \
  "ldp x0, x1, [sp, 16]\nldp x2, x3, [sp, 32]\n"            \
  "ldp x4, x5, [sp, 48]\nldp x6, x7, [sp, 64]\n"            \
  "ldp x8, x17, [sp, 80]\n"                                 \
  "ldp q0, q1, [sp, 96]\nldp q2, q3, [sp, 128]\n"           \
  "ldp q4, q5, [sp, 160]\nldp q6, q7, [sp, 192]\n"          \
  "ldp x29, x30, [sp], 224\n.cfi_adjust_cfa_offset -224\n"  \
  ".cfi_restore x29\n.cfi_restore x30\n"                    \
  "ldr x16, [x17]\nbr x16\n"
#define NEAR_JUMP_THROUGH(slot) \
  "hint 34\nadrp x16, " slot "\nldr x16, [x16, :lo12:" slot "]\nbr x16\n"
#define NEAR_JUMP_TO(routine, slot) \
  "hint 34\nadrp x17, " slot "\nadd x17, x17, :lo12:" slot "\nb " routine "\n"
#endif

// Defines the routine that calls the function `binder`.
#define NEAR_DEFINE_ROUTINE(routine, binder) \
  asm(".text\n"                                                               \
      ".type " routine ", %function\n" routine                                \
      ":\n.cfi_startproc\n" NEAR_BIND(binder) ".cfi_endproc\n"                \
      ".size " routine ", . - " routine "\n")

// Defines the hidden function `label`, which `routine` binds to what has the name `name`.
#define NEAR_DEFINE_BOUND(label, name, routine) \
  asm(".text\n"                                                               \
      ".balign 16\n"                                                          \
      ".globl " label "\n.hidden " label "\n.type " label ", %function\n"     \
      label ":\n.cfi_startproc\n" NEAR_JUMP_THROUGH(".Lslot_" label)          \
      ".cfi_endproc\n.size " label ", . - " label "\n"                        \
      ".Lfirst_" label ":\n.cfi_startproc\n"                                  \
      NEAR_JUMP_TO(routine, ".Lslot_" label) ".cfi_endproc\n"                 \
      ".section .rodata.str1.1, \"aMS\", %progbits, 1\n"                      \
      ".Lname_" label ": .asciz \"" name "\"\n"                               \
      ".section .data.rel.local, \"aw\"\n"                                    \
      ".balign 16\n"                                                          \
      ".Lslot_" label ": .8byte .Lfirst_" label ", .Lname_" label "\n"        \
      ".text\n")
