// Contexts to switch between: one a CUDA thread, and the one that runs the block.
#pragma once

#include <stddef.h>
#include <stdint.h>

#if !defined(__x86_64__) || defined(EMULATION_UCONTEXT)
#include <ucontext.h>
#endif

namespace emulation {

#if defined(__x86_64__) && !defined(EMULATION_UCONTEXT)

struct Context {
    void* stack_pointer;
};

extern "C" __attribute__((visibility("hidden"))) void emulation_switch(Context* from, Context* to);
asm(R"(
    .text
    .p2align 4
    .hidden emulation_switch
    .globl emulation_switch
    .type emulation_switch, @function
emulation_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq (%rsi), %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
    .size emulation_switch, .-emulation_switch
)");

static inline void switch_context(Context& from, Context& to) { emulation_switch(&from, &to); }

static inline void make_context(Context& context, char* stack, size_t bytes, void (*entry)()) {
    void** top = reinterpret_cast<void**>(reinterpret_cast<uintptr_t>(stack + bytes) & ~uintptr_t{63});
    *--top = nullptr;  // where entry would return to
    *--top = reinterpret_cast<void*>(entry);
    for (int saved = 0; saved < 6; ++saved) *--top = nullptr;
    context.stack_pointer = top;
}

#else

struct Context {
    ucontext_t state;
};

static inline void switch_context(Context& from, Context& to) { swapcontext(&from.state, &to.state); }

static inline void make_context(Context& context, char* stack, size_t bytes, void (*entry)()) {
    getcontext(&context.state);
    context.state.uc_stack.ss_sp = stack;
    context.state.uc_stack.ss_size = bytes;
    context.state.uc_link = nullptr;
    makecontext(&context.state, entry, 0);
}

#endif

}  // namespace emulation
