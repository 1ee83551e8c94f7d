/* SPDX-License-Identifier: MIT */
/*
 * OpenBLAS chooses its kernel by a table of processor models, so one newer than the table gets the
 * slowest kernel there is.  This asks for instructions instead of names.
 */
#include "cpu.h"

#include <stddef.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>

enum {
    FAMILY_EXTENDED = 15, /* the base family that says: add the extended one */
    FAMILY_MODEL = 6      /* the base family of which the extended model counts as well */
};

static void read_name(struct cpu *cpu)
{
    unsigned eax, ebx, ecx, edx;

    if (__get_cpuid(0, &eax, &ebx, &ecx, &edx) == 0)
        return;
    memcpy(cpu->vendor, &ebx, 4);
    memcpy(cpu->vendor + 4, &edx, 4);
    memcpy(cpu->vendor + 8, &ecx, 4);
    if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0)
        return;
    cpu->family = eax >> 8 & 15;
    cpu->model = eax >> 4 & 15;
    if (cpu->family == FAMILY_MODEL || cpu->family == FAMILY_EXTENDED)
        cpu->model |= (eax >> 16 & 15) << 4;
    if (cpu->family == FAMILY_EXTENDED)
        cpu->family += eax >> 20 & 255;
}

enum cpu_class cpu_class_here(void)
{
    /* The compiler's run-time library asks once, XGETBV too; in a virtual machine that is slow. */
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
        return CPU_OLD;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512cd"))
        return CPU_AVX512;
    return CPU_AVX2;
}

struct cpu cpu_read(void)
{
    struct cpu cpu = {.vendor = ""};

    read_name(&cpu);
    cpu.avx2_fma = cpu_class_here() >= CPU_AVX2;
    cpu.avx512 = cpu_class_here() >= CPU_AVX512;
    return cpu;
}
#else
enum cpu_class cpu_class_here(void)
{
    return CPU_OLD;
}

struct cpu cpu_read(void)
{
    return (struct cpu){.vendor = ""};
}
#endif

const char *cpu_kernel(const struct cpu *cpu)
{
    bool amd = strcmp(cpu->vendor, "AuthenticAMD") == 0 || strcmp(cpu->vendor, "HygonGenuine") == 0;

    /* Zen 4 and later have AVX-512, but no model of theirs is in the table either. */
    if (cpu->avx512)
        return "SkylakeX";
    if (cpu->avx2_fma)
        return amd ? "Zen" : "Haswell";
    return NULL;
}

/* ASCII, whatever the locale. */
bool cpu_same_kernel(const char *a, const char *b)
{
    for (; *a != '\0' && *b != '\0'; a++, b++) {
        int upper_a = *a >= 'a' && *a <= 'z' ? *a - 'a' + 'A' : *a;
        int upper_b = *b >= 'a' && *b <= 'z' ? *b - 'a' + 'A' : *b;
        if (upper_a != upper_b)
            return false;
    }
    return *a == *b;
}

enum cpu_class cpu_kernel_class(const char *kernel)
{
    static const struct {
        const char *name;
        enum cpu_class needs;
    } kernels[] = {
        {"SkylakeX", CPU_AVX512}, {"Cooperlake", CPU_AVX512}, {"SapphireRapids", CPU_AVX512},
        {"Haswell", CPU_AVX2},    {"Zen", CPU_AVX2},          {"Excavator", CPU_AVX2}};

    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++) {
        if (cpu_same_kernel(kernel, kernels[i].name))
            return kernels[i].needs;
    }
    return CPU_OLD;
}

enum cpu_class cpu_class(const struct cpu *cpu)
{
    if (cpu->avx512)
        return CPU_AVX512;
    return cpu->avx2_fma ? CPU_AVX2 : CPU_OLD;
}
