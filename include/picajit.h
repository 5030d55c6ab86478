/*
 * picajit: native code for PICA200 vertex and geometry shaders.
 *
 * All tiers give the same bits: native code, tier 0 (a fast interpreter) and the oracle.
 * Exception: any NaN equals any other NaN. Compare results as numbers, not with memcmp. The same
 * holds wherever this header says "bits".
 *
 * Numbers, for hosts that compute the same: DP4 and DPH are (x + y) + (z + w), DP3 is (x + y) + z, MAD
 * rounds its product, the product of 0 and infinity is 0, and RCP of -0 is infinity. docs/numerics.md
 * has all.
 *
 * Languages: C99, C11, and C++ from C++11 on.
 *
 * Versions: while PJ_VERSION_MAJOR is 0, a host works with libraries of the minor version that its
 * header has; with another pj_engine_new fails. A patch changes no function and no structure.
 *
 * Zero is the default of each field that has one; the others say "not null", or give their bounds.
 * Zero a structure that begins with `struct_size`, then set that to its sizeof:
 * another size is PJ_INVALID_ARGUMENT. PJ_OPTIONS_INIT does both for pj_options, and picajit.hpp for
 * all. `reserved` fields are 0.
 *
 * Errors: a function that can fail returns a pj_status, and pj_last_error says what is wrong. On error
 * it leaves its outputs unchanged. The library has no other global state. No Rust panic reaches the
 * host.
 *
 * Threads: several threads may share one engine. A shader is immutable. Several threads may run it
 * at once, each with its own unit. Callbacks run on the calling thread. Event callbacks also run on
 * the threads that compile.
 *
 * Callbacks must return: no longjmp, no C++ exception. They may call every function, also on the
 * engine and the shader that called them, except:
 *   - A pj_emit_fn or pj_full_fn must not run a shader on the unit that is running, nor change
 *     it, its uniforms, or a running pj_emit_buffer.
 *   - No shader may run during PJ_EVENT_PROFILER_FAILED.
 *   - The functions of pj_memory must not call the library.
 *   - A pj_gpu has its own rules, see there.
 *
 * Undetected misuse may crash:
 *   - pointers to memory that is missing or too small
 *   - a handle after its release
 *   - freeing an engine that another thread uses
 *   - releasing the last reference to a shader while it runs
 *   - one unit on two threads
 *   - a null or misaligned pointer in a call of a pj_direct_call
 *   - a layout that places uniforms over registers
 *   - a callback that breaks the rules above, those of a pj_gpu aside
 * All other misuse returns an error.
 *
 * The default floating-point mode is round to nearest, subnormals preserved, no traps. Audio code may
 * set another one on its threads. pj_run_batch, pj_run_geometry_batch and the draws of a pj_gpu
 * switch to the default for the time of the call, callbacks included. Single runs on native code
 * (pj_run, pj_run_geometry, pj_direct_call) don't: there a thread must have the default mode, or
 * results differ. A library that was built with debug assertions says so on standard error, and ends
 * the process or returns PJ_INTERNAL.
 *
 * Stack: 96 KiB for calls that run shaders, 512 KiB for the others, and for runs that compile. If a
 * shader's compilation falls to a thread of which less than 400 KiB are left, it stays on tier 0 for
 * good, on all threads, with an event (on Linux; the main thread aside). Hosts with such threads let
 * another one compile: pj_options.threads.
 *
 * Memory: where the process gets none for a call, the call returns PJ_NO_MEMORY, and a compilation is
 * left out, with an event. Each asks for a few MiB before it begins, 32 to compile. Rust ends the
 * process if a smaller allocation fails in between.
 *
 * fork: wait for the compiler threads first (pj_engine_wait). The child may make every call. It has no
 * compiler threads: shaders without native code stay on tier 0 there.
 *
 * exec, dlclose: free engines first, and end the calls of other threads.
 *
 * ThreadSanitizer does not see what native code reads and writes, and Rust's part of the library is
 * not instrumented. If it reports calls of one host that are in order, the file of
 * TSAN_OPTIONS=suppressions=FILE takes three lines: race:picajit, and for frames of Rust's standard
 * library in a static one race:rustlib and race:call_once.
 */
#ifndef PICAJIT_H
#define PICAJIT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Version ---- */

#define PJ_VERSION_MAJOR 0
#define PJ_VERSION_MINOR 7
#define PJ_VERSION_PATCH 0

/* The version of this header: major << 16 | minor << 8 | patch. */
#define PJ_VERSION (PJ_VERSION_MAJOR << 16 | PJ_VERSION_MINOR << 8 | PJ_VERSION_PATCH)

/* Returns the version of the library. */
uint32_t pj_version(void);

/* ---- Status and exit codes ---- */

typedef int32_t pj_status;
enum {
    PJ_OK = 0,
    PJ_NULL = -1,             /* a required pointer is null */
    PJ_INVALID_ARGUMENT = -2, /* a number is out of range, or `struct_size` is not the sizeof */
    PJ_INVALID_LAYOUT = -3,   /* the offsets of a pj_layout are invalid; pj_last_error names the
                                 field */
    PJ_PROGRAM_TOO_LONG = -4, /* more than 4096 code words */
    PJ_NO_NATIVE = -5,        /* PJ_NATIVE_REQUIRED, but no native code; pj_last_error says why */
    PJ_MISALIGNED = -6,       /* registers or uniforms are not aligned to 16 bytes, or another
                                 pointer is not aligned for its type */
    PJ_OVERLAP = -7,          /* arrays of a call overlap, see pj_run_batch, pj_run_geometry */
    PJ_INTERNAL = -8,         /* a bug in picajit; stop using the engine, its shaders and GPUs */
    PJ_BUSY = -9,             /* this pj_gpu is in use: by the call of this callback, or on
                                 another thread */
    PJ_NO_GPU_CODE = -10,     /* the shader has no code for the host's GPU */
    PJ_CPU_ONLY = -11,        /* pj_gpu_hand_over: only the CPU can run this draw */
    PJ_VERSION_MISMATCH = -12, /* pj_engine_new: header and library are of different versions */
    PJ_NO_MEMORY = -13        /* the process has too little memory left for the call */
};

/* Describes a status, or a pj_exit. Never null; the text is static. */
const char *pj_status_text(int32_t status);

/*
 * What was wrong with the last call on this thread that returned an error: the argument or field, its
 * value and its bounds, as "pj_batch.input_stride is 17; help: 0 to 16". UTF-8, less than 512 bytes,
 * never null, and empty before the first error. Valid until the next such call on the thread, and
 * while the thread lives.
 */
const char *pj_last_error(void);

/* How a run ended. Never negative, so that a run can return a pj_exit or a pj_status. */
typedef int32_t pj_exit;
enum {
    PJ_END = 0,                /* END */
    PJ_OUT_OF_FUEL = 1,        /* at a backward jump it had executed more words than pj_options.fuel */
    PJ_BREAK_OUTSIDE_LOOP = 2, /* BREAK outside of a loop; the hardware hangs */
    PJ_PAST_END = 3,           /* ran past the last code word; unknown on hardware */
    PJ_STOPPED = 4,            /* stopped by the callback of pj_run_traced */
    PJ_CANCELLED = 5,          /* pj_engine_cancel; registers are unspecified */
    PJ_VERTEX_LIMIT = 6        /* pj_gpu_execute: the draws have more vertices than the limit */
};

/* ---- Registers ---- */

/* One vector: x, y, z, w. */
typedef float pj_vec4[4];
/* The sixteen registers of one register file. */
typedef pj_vec4 pj_registers[16];

/*
 * The registers of one shader unit, for hosts without a structure of their own.
 *
 * Alignment: 16 bytes, which C does not give by default. Use alignas(16), _Alignas(16) or
 * aligned_alloc. Every call checks it.
 *
 * All zero is a valid initial state. Runs reset nothing: registers carry over from vertex to
 * vertex, as on hardware.
 */
typedef struct pj_unit {
    pj_registers v;         /* inputs */
    pj_registers r;         /* temporaries */
    pj_registers o[2];      /* outputs, two banks */
    int32_t a0[2];          /* a0.x, a0.y */
    int32_t al;             /* aL */
    uint8_t cmp[2];         /* cmp.x, cmp.y; nonzero is true; a run that sets them writes 0 or 1 */
    uint8_t bank;           /* bit 0: current bank; a vertex program's results are o[bank & 1] */
    uint8_t emit_vertex;    /* SETEMIT state: vertex slot 0-3 */
    uint8_t emit_primitive; /* SETEMIT state: nonzero if EMIT completes a triangle */
    uint8_t emit_winding;   /* SETEMIT state: nonzero exchanges its first two vertices */
    uint8_t reserved[14];
} pj_unit;

/* The uniforms of one shader unit. Runs only read them. Alignment: 16 bytes, like pj_unit. */
typedef struct pj_uniforms {
    pj_vec4 c[96];   /* c0-c95 */
    uint8_t i[4][4]; /* i0-i3: x, y, z, w */
    uint16_t b;      /* bit n is bn */
    uint8_t reserved[14];
} pj_uniforms;

/*
 * Byte offsets of registers and uniforms in the host's own structures. Shaders then run in place:
 * nothing is copied, and savestates don't change.
 *
 * Rules:
 *   - The structures and each array of vectors are aligned to 16 bytes, a0 and aL to 4, a
 *     PJ_BOOLS_MASK to 2.
 *   - Fields don't overlap, and lie within `unit_bytes` or `uniforms_bytes`.
 *   - Registers and uniforms may share one structure. Pass its address twice to the run functions.
 *
 * pj_engine_new checks registers against registers and uniforms against uniforms. It cannot check
 * registers against uniforms in a shared structure.
 *
 * float[4] and std::array<float, 4> are aligned to 4 bytes only; add alignas(16).
 */
typedef struct pj_layout {
    size_t struct_size;
    uint32_t unit_bytes;   /* size of the structure with the registers */
    uint32_t v, r, o;      /* float[16][4] each */
    uint32_t a0x, a0y, al; /* int32_t each */
    uint32_t cmp_x, cmp_y; /* one byte each: nonzero is true; a run that sets them writes 0 or 1 */
    uint32_t geometry;     /* 1: the next five fields are valid. 0: a layout for vertex programs.
                              Geometry programs then run on tier 0 (PJ_NATIVE_REQUIRED:
                              PJ_NO_NATIVE). Each of their runs begins with bank 0, zeros in the
                              other bank and no SETEMIT, and leaves its current bank in `o`.
                              Hardware keeps this state between runs. */
    uint32_t bank_stride;  /* bytes from an output register of bank 0 to the same of bank 1; bank 1
                              may lie anywhere after bank 0 */
    uint32_t bank;         /* one byte each, as in pj_unit */
    uint32_t emit_vertex, emit_primitive, emit_winding;
    uint32_t uniforms_bytes; /* size of the structure with the uniforms */
    uint32_t c;              /* float[96][4] */
    uint32_t i;              /* uint8_t[4][4] */
    uint32_t bools;          /* format of `b`: PJ_BOOLS_MASK or PJ_BOOLS_BYTES */
    uint32_t b;
} pj_layout;

enum {                 /* pj_layout.bools */
    PJ_BOOLS_MASK = 0, /* uint16_t: bit n is bn */
    PJ_BOOLS_BYTES = 1 /* uint8_t[16]: nonzero is true */
};

/* ---- Engines ---- */

typedef struct pj_engine pj_engine;
typedef struct pj_shader pj_shader;

enum {                      /* pj_options.backend */
    PJ_NATIVE = 0,          /* tier 0, and native code once it is compiled; where that is
                               impossible, an event, and tier 0 stays */
    PJ_NATIVE_REQUIRED = 1, /* native code from the first run on: pj_shader_get compiles. Where it
                               is impossible, PJ_NO_NATIVE */
    PJ_INTERPRETER = 2,     /* tier 0 only, for systems without executable memory; no event */
    PJ_ORACLE = 3           /* the oracle only, many times slower than tier 0; for comparisons */
};

enum {                     /* pj_options.precision */
    PJ_F32 = 0,            /* single precision with the console's special values, as in emulators */
    PJ_F24_NEAREST = 1,    /* the hardware's 24-bit format, rounded to nearest */
    PJ_F24_TOWARD_ZERO = 2 /* the same, rounded toward zero */
};

enum { /* pj_options.profiler: Linux perf then shows shaders by name */
    PJ_NO_PROFILER = 0,
    PJ_PERF_MAP = 1, /* names, for perf report */
    PJ_JITDUMP = 2   /* names, code and shader instructions, for perf inject --jit */
};

enum {                            /* `kind` of a pj_event_fn */
    PJ_EVENT_FALLBACK = 0,        /* a shader has no native code; once per reason, also with
                                     PJ_NATIVE_REQUIRED */
    PJ_EVENT_DIVERGENCE = 1,      /* a crosscheck found a bug in picajit; once per shader */
    PJ_EVENT_PROFILER_FAILED = 2  /* the profiler's files can't be written; once per engine */
};

/* Reports an event. `text` is UTF-8 with a final 0, valid during the call. */
typedef void (*pj_event_fn)(void *user, uint32_t kind, const char *text);

/*
 * Executable memory from the host, for systems where the library can't map any.
 *
 * Any thread that compiles or releases a shader may call both functions, several at once. Neither
 * may call the library. No call comes after the engine is freed and all its shaders are released.
 */
typedef struct pj_memory {
    size_t struct_size;
    /*
     * Copies `bytes` bytes of position-independent code to memory that every core can read and
     * execute, and returns its address, a multiple of 64. 64-bit Arm needs __builtin___clear_cache
     * or the like. The memory stays unchanged until `release`. If it returns null or a misaligned
     * address, the shader runs on tier 0, and PJ_TEXT_FALLBACK and the event say which. No other
     * shader is compiled then until native code is released: by eviction, or by pj_engine_clear. A
     * misaligned address is released.
     */
    void *(*install)(void *user, const void *code, size_t bytes);
    void (*release)(void *user, void *code, size_t bytes); /* returns memory of `install` */
    void *user;
} pj_memory;

typedef struct pj_options {
    size_t struct_size;
    uint32_t backend;        /* PJ_NATIVE ... */
    uint32_t precision;      /* PJ_F32 ... */
    uint32_t fuel;           /* words that one vertex run may execute; 0: 262144. Tested at backward
                                jumps only: a run exceeds it by less than its program's words */
    uint32_t crosscheck;     /* N: one run in N also runs on the oracle; 0: none */
    size_t cache_bytes;      /* size limit of the shader cache; 0: 64 MiB. A small shader counts 2 KiB,
                                with native code some 30. One stays, whatever its size */
    const pj_layout *layout; /* null: pj_unit and pj_uniforms; copied */
    pj_event_fn event;       /* null: events go to standard error; any thread may call it */
    void *user;              /* passed to `event`. Both stay in use until the engine is freed and
                                all its shaders and GPUs are released. */
    const char *profile_directory; /* directory for PJ_JITDUMP, made if it is missing; UTF-8, copied */
    uint32_t profiler;             /* PJ_NO_PROFILER ... */
    uint32_t threads;        /* compiler threads; more than 64 count as 64. 0: runs compile,
                                see compile_after. Otherwise tier 0 serves runs until native code
                                is published, the shader with the most vertices first. 1 is
                                enough for any game.
                                With PJ_NATIVE_REQUIRED pj_shader_get compiles the shader itself;
                                the threads compile batch code and rare cases. */
    const pj_memory *memory; /* executable memory; null: pages that the library maps; copied */
    size_t compile_after;    /* without threads: the run with which a shader reaches this number of
                                vertices compiles it, and earlier ones use tier 0. 0: 4096 */
    size_t geometry_fuel;    /* the same for a geometry invocation; 0: 4194304 */
} pj_options;

/* All fields 0 but the size. */
#ifdef __cplusplus
#define PJ_OPTIONS_INIT                                                                                  \
    {                                                                                                  \
        sizeof(pj_options), 0, 0, 0, 0, 0, nullptr, nullptr, nullptr, nullptr, 0, 0, nullptr, 0, 0     \
    }
#else
#define PJ_OPTIONS_INIT                                                                                  \
    {                                                                                                  \
        sizeof(pj_options), 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL, 0, 0, NULL, 0, 0                    \
    }
#endif

/*
 * pj_engine_new for hosts that don't compile this header, as bindings of other languages: `version` is
 * the PJ_VERSION that they were written for.
 */
pj_status pj_engine_new_for(uint32_t version, const pj_options *options, pj_engine **engine);

/*
 * Creates an engine. `options` may be null: defaults.
 *
 * Errors: PJ_VERSION_MISMATCH (pj_last_error has both versions), PJ_NULL, PJ_INVALID_ARGUMENT,
 * PJ_INVALID_LAYOUT, PJ_NO_NATIVE, PJ_MISALIGNED.
 */
static inline pj_status pj_engine_new(const pj_options *options, pj_engine **engine)
{
    return pj_engine_new_for(PJ_VERSION, options, engine);
}

/*
 * Frees an engine; null is allowed. Its shaders and GPUs stay usable. A callback may free the
 * engine that called it.
 *
 * The compiler threads end before this returns, or, if the engine has GPUs, when the last of them
 * is freed. A call from a compiler thread does not wait for that thread.
 */
void pj_engine_free(pj_engine *engine);

/*
 * Waits for the compiler threads: until all requested code is published. Returns at once if there
 * are no threads, or on one of them.
 */
pj_status pj_engine_wait(const pj_engine *engine);

/*
 * Ends what runs on the engine's shaders and GPUs, on all threads, until pj_engine_resume. Any
 * thread may call both; the call that creates or frees the engine must not overlap them.
 *
 * Runs notice at their next backward jump, batches and draws also between vertices, command lists
 * also between writes: in some milliseconds. A run that compiles notices when that is done, in up
 * to 150 ms for the largest programs; with pj_options.threads no run compiles. They end with
 * PJ_CANCELLED. So do later ones, except that a single run without a backward jump may finish. The
 * registers of the unit are unspecified then, and so are the outputs of the last vertex that ran;
 * outputs of the others are untouched.
 *
 * Before pj_engine_resume wait until the cancelled calls have returned: a run that has not noticed
 * goes on. Shaders that outlive a cancelled engine stay cancelled.
 */
pj_status pj_engine_cancel(const pj_engine *engine);
pj_status pj_engine_resume(const pj_engine *engine);

/* Empties the shader cache. Shaders in use stay usable. */
pj_status pj_engine_clear(const pj_engine *engine);

/* Statistics of an engine: its shader cache, and what it compiles. */
typedef struct pj_stats {
    size_t struct_size;
    uint64_t hits;      /* lookups that found their shader */
    uint64_t misses;    /* lookups that did not */
    uint64_t evictions; /* shaders evicted to keep within cache_bytes */
    uint64_t entries;   /* shaders in the cache */
    uint64_t bytes;     /* size of these shaders */
    uint64_t compilations; /* compilations that wait for a thread, or run on one */
    uint64_t native;    /* 1: shaders may have native code. 0: the host wants none, or the system or the
                           CPU allows none */
} pj_stats;

pj_status pj_engine_stats(const pj_engine *engine, pj_stats *stats);

/* ---- Shaders ---- */

enum { /* `stage` of pj_shader_get */
    PJ_VERTEX = 0,
    PJ_GEOMETRY = 1
};

/*
 * Gets the shader that begins at word `entry` of the code memory: from the cache, or compiled.
 *
 * `code` and `opdescs` may be null if their number of words is 0. Operand descriptors after the
 * first 128 are ignored, and so are words that the entry does not reach. `entry` is at most 65535;
 * after the last code word every run is PJ_PAST_END.
 *
 * The same words and entry give the same handle with one more reference, while the cache has the
 * shader; release each with pj_shader_release. A lookup of a known program compares the words that
 * the entry reaches, takes no lock and allocates nothing: some 0.1 us, and some 2 us where its code
 * and data are in no near cache. For new words it takes up to 70 us and decodes them for tier 0;
 * with PJ_NATIVE_REQUIRED it compiles them. Keep the handle until code, descriptors or entry change.
 *
 * Code for batches and for rare cases is compiled on demand, by the run that needs it or by the
 * compiler threads.
 *
 * `stage` is the unit that runs the program: in PJ_VERTEX, EMIT and SETEMIT do nothing, and no
 * callback hears of them.
 *
 * Errors: PJ_NULL, PJ_INVALID_ARGUMENT, PJ_PROGRAM_TOO_LONG, PJ_NO_NATIVE, PJ_MISALIGNED.
 */
pj_status pj_shader_get(const pj_engine *engine, const uint32_t *code, size_t code_words,
                        const uint32_t *opdescs, size_t opdesc_words, uint32_t entry,
                        uint32_t stage, pj_shader **shader);

/*
 * A 128-bit name of code words and descriptors, the same in all releases and on all machines: that of
 * `picajit inspect`, the first byte highest. Arguments as in pj_shader_get.
 *
 * Errors: PJ_NULL, PJ_PROGRAM_TOO_LONG, PJ_MISALIGNED.
 */
pj_status pj_program_hash(const uint32_t *code, size_t code_words, const uint32_t *opdescs,
                          size_t opdesc_words, uint8_t (*hash)[16]);

/*
 * Whether the shader is that of `entry` in these words, for its stage: 1 or 0. Then a host that holds
 * it need not call pj_shader_get. It compares the words that the entry reaches, and touches a
 * quarter of the code. Arguments as in pj_shader_get. Errors are negative: PJ_NULL, PJ_MISALIGNED.
 */
int32_t pj_shader_serves(const pj_shader *shader, const uint32_t *code, size_t code_words,
                         const uint32_t *opdescs, size_t opdesc_words, uint32_t entry);

/* Reference counting; null is allowed. The last release frees the shader. */
void pj_shader_retain(const pj_shader *shader);
void pj_shader_release(const pj_shader *shader);

enum { /* pj_shader_info.tier */
    PJ_TIER_0 = 0,
    PJ_TIER_NATIVE = 1,
    PJ_TIER_ORACLE = 2 /* PJ_ORACLE says so */
};

typedef struct pj_shader_info {
    size_t struct_size;
    uint32_t tier;         /* PJ_TIER_0 ...: what serves the next run */
    uint32_t deoptimised;  /* runs repeated by slower code, for a rare case: 0 * infinity */
    uint32_t groups;       /* groups of vertices that shared instructions */
    uint32_t bailouts;     /* groups that ran vertex by vertex after all: they diverged */
    uint64_t native_bytes; /* size of the machine code so far */
} pj_shader_info;

pj_status pj_shader_info_get(const pj_shader *shader, pj_shader_info *info);

enum { /* pj_analysis.carried_state: bits */
    PJ_CARRIED_A0_X = 1,
    PJ_CARRIED_A0_Y = 2,
    PJ_CARRIED_AL = 4,
    PJ_CARRIED_CMP_X = 8,
    PJ_CARRIED_CMP_Y = 16,
    PJ_CARRIED_SETEMIT = 32, /* parameters of EMIT */
    PJ_CARRIED_SLOTS = 64,   /* vertex slots */
    PJ_CARRIED_B15 = 128     /* set after each geometry invocation */
};

/* Facts about a shader, for all uniforms and inputs. */
typedef struct pj_analysis {
    size_t struct_size;
    uint64_t carried_temps;      /* bit 4 * n + c: a run may depend on component c of rn as an
                                    earlier run with the same uniforms left it */
    uint64_t carried_outputs;    /* the same for on */
    uint64_t shortest_path;      /* instructions of a run that ends, at least; UINT64_MAX: none
                                    ends */
    uint64_t longest_path;       /* instructions of a run, at most; UINT64_MAX: unbounded */
    uint32_t carried_state;      /* PJ_CARRIED_A0_X ... */
    uint32_t independent;        /* 1: nothing is carried. A GPU may run it in parallel, and threads
                                    may share out a batch by vertices, each with its own unit, where
                                    all runs return PJ_END */
    uint32_t inputs;             /* bit n: vn is read */
    uint32_t outputs;            /* bit n: on is written */
    uint32_t divergent_branches; /* branches that depend on inputs */
    uint32_t reserved;           /* 0 */
} pj_analysis;

/*
 * Analyses a shader. Nothing is kept: the next call analyses it again, in up to a millisecond for
 * real shaders.
 *
 * Errors: PJ_NULL, PJ_INVALID_ARGUMENT, PJ_NO_NATIVE (control flow is too large to analyse).
 */
pj_status pj_shader_analyse(const pj_shader *shader, pj_analysis *analysis);

enum {                      /* `kind` of pj_shader_text */
    PJ_TEXT_FALLBACK = 0,   /* why the shader has no native code */
    PJ_TEXT_SEQUENTIAL = 1, /* why batches run vertex by vertex. Known on tier 0 after a batch, on
                               native code once that for batches is compiled, after 1,024 vertices
                               in batches; never on PJ_ORACLE */
    PJ_TEXT_DIVERGENCE = 2  /* the bug that a crosscheck found */
};

/*
 * Copies a text of at most `bytes` bytes, the final 0 included. Returns the length of the whole
 * text without the final 0, 0 if there is no such text, or a negative pj_status. `text` may be
 * null.
 */
int64_t pj_shader_text(const pj_shader *shader, uint32_t kind, char *text, size_t bytes);

/* ---- Runs ---- */

/*
 * EMIT of a geometry program. The host owns four vertex slots. It copies `outputs` (o0-o15,
 * whatever the output mask; valid during the call, aligned to 4 bytes) to slot `vertex`. If
 * `primitive` is 1, slots 0, 1, 2 then form a triangle. Its first two vertices are exchanged if
 * `winding` is 1 and the topology is 3.
 *
 * Calls come in the order of the EMITs, before the run function returns: some may come when the
 * program has ended. During the call the unit's contents are unspecified.
 */
typedef void (*pj_emit_fn)(void *user, const pj_vec4 *outputs, uint32_t vertex, uint32_t primitive,
                           uint32_t winding);

/*
 * Runs one vertex or one geometry invocation. `unit` and `uniforms` are a pj_unit and a
 * pj_uniforms, or the structures of the engine's layout. `emit` may be null.
 *
 * Returns a pj_exit, or a negative pj_status. On error nothing ran, except with PJ_INTERNAL.
 *
 * After a geometry invocation hardware sets boolean uniform b15. The host does that.
 */
int32_t pj_run(const pj_shader *shader, void *unit, const void *uniforms, pj_emit_fn emit,
               void *user);

/*
 * A vertex that EMIT sent; the host treats it as in pj_emit_fn. Alignment: 64 bytes, so that the
 * parameters and the first three outputs share a cache line.
 */
typedef struct pj_emitted {
    uint32_t vertex;      /* vertex slot 0-3 */
    uint32_t primitive;   /* 0 or 1 */
    uint32_t winding;     /* 0 or 1 */
    uint32_t reserved;    /* 0 */
    pj_registers outputs; /* o0-o15, see pj_emit_buffer.output_mask */
    uint32_t padding[12]; /* any bits */
} pj_emitted;

/*
 * Receives the vertices of a full pj_emit_buffer, in the order of their EMITs. Afterwards the
 * buffer is empty. During the call the unit's contents are unspecified.
 */
typedef void (*pj_full_fn)(void *user, const pj_emitted *vertices, size_t count);

/* Memory for emitted vertices. It may serve any number of invocations. */
typedef struct pj_emit_buffer {
    size_t struct_size;
    pj_emitted *vertices; /* their contents before a run do not matter */
    size_t capacity;      /* vertices that there is room for, at least 1 */
    size_t count;         /* vertices in the buffer. A run appends its own; the host sets 0 when it
                             has processed them. */
    pj_full_fn full;      /* called if an EMIT finds the buffer full; not null */
    void *user;           /* passed to `full` */
    size_t output_mask;   /* bit n: `outputs` of a vertex receives on; other registers there stay as
                             they are. 0: all. Fastest is the mask of what the program writes. */
} pj_emit_buffer;

/*
 * Runs one geometry invocation like pj_run, and appends the vertices that it emits to `buffer`. The
 * fastest way: native code stores them there, and calls nothing unless the buffer is full. Also
 * runs vertex programs, which append nothing.
 *
 * Returns a pj_exit, or a negative pj_status. With every pj_exit, what was emitted is in the buffer
 * or was passed to `full`.
 *
 * PJ_INVALID_ARGUMENT: `capacity` is 0, `count` exceeds it, or `output_mask` is above 65535.
 * PJ_OVERLAP: `vertices` overlaps the registers, the uniforms or `buffer`.
 */
int32_t pj_run_geometry(const pj_shader *shader, void *unit, const void *uniforms,
                        pj_emit_buffer *buffer);

/*
 * A shader as a function and its context. For hosts that call from code they generate, or keep a
 * pair of pointers with their draw state. The call is that of pj_run without `emit`:
 *
 *     exit = call.function(call.context, unit, uniforms);
 *
 * The pair is valid while a reference to the shader is held. Releasing other references, eviction
 * from the cache, pj_engine_clear and pj_engine_free leave it valid. It never changes: take it
 * once. Each call runs on the tier that serves the shader then: tier 0, and native code as soon as
 * that is published. It works without native code, and with pj_options.crosscheck.
 *
 * The call omits checks. A null or misaligned `unit` or `uniforms` is undetected misuse. It has no
 * callback: vertices that a geometry program emits are dropped.
 *
 * Returns a pj_exit, or PJ_INTERNAL.
 */
typedef struct pj_direct_call {
    int32_t (*function)(const void *context, void *unit, const void *uniforms);
    const void *context;
} pj_direct_call;

/* Errors: PJ_NULL, PJ_MISALIGNED. */
pj_status pj_shader_direct_call(const pj_shader *shader, pj_direct_call *call);

/*
 * The arrays of a batch hold the registers of one vertex after those of another: component c of
 * register n of vertex k is the float at 4 * (k * stride + n) + c. The structure itself is read before
 * anything is written.
 */
typedef struct pj_batch {
    size_t struct_size;
    size_t count;           /* vertices. 0: both arrays may be null. */
    const float *inputs;    /* `count` * `input_stride` registers, aligned to 4 bytes, also where
                               input_mask is 0; only those of the mask are read */
    float *outputs;         /* the same for outputs: only registers of output_mask are written */
    uint16_t input_mask;    /* bit n: vn comes from `inputs`. Others, and those from the stride on,
                               keep their values in the unit. */
    uint16_t output_mask;   /* bit n: on goes to `outputs`. Those from the stride on are dropped. */
    uint16_t input_stride;  /* registers per vertex: 1-16; 0: 16. A small stride saves CPU cache. */
    uint16_t output_stride; /* the same for outputs */
    uint32_t preserve_unit; /* 0: the unit ends as the last vertex leaves it. 1: it stays unchanged,
                               as if the batch ran on a copy. For hosts that begin each draw with
                               the same unit. Saves time for one to three vertices, and from four
                               on if the shader runs as groups; costs the copy if not
                               (PJ_TEXT_SEQUENTIAL). */
    uint32_t reserved;      /* 0. (1 was another order of the registers, until 0.5.) */
    size_t *ran;            /* receives the number of vertices that ran, unless null */
} pj_batch;

/*
 * Runs `count` vertices in order on `unit`, or as groups where the result is the same. EMIT does
 * nothing. The first vertex that runs out of fuel is the last one that runs: outputs of the others
 * stay untouched. pj_engine_cancel ends a batch likewise. No other exit does.
 *
 * Returns PJ_OUT_OF_FUEL if a vertex ran out of fuel, PJ_CANCELLED after pj_engine_cancel, else the
 * first exit other than PJ_END, else PJ_END, or a negative pj_status.
 *
 * PJ_OVERLAP: `outputs` overlaps `inputs`, the registers or the uniforms, or `inputs` overlaps the
 * registers. Arrays count whole, also outside the masks. The registers are the whole `unit_bytes`
 * of the layout. Arrays of the host may follow them in the same object.
 */
int32_t pj_run_batch(const pj_shader *shader, void *unit, const void *uniforms,
                     const pj_batch *batch);

/*
 * Runs a geometry invocation for each vertex of `batch`, in order, all with the same uniforms, and
 * appends the vertices that they emit to `buffer`, as pj_run_geometry does for each. Invocations
 * run as groups if no branch is divergent and none reads what another one leaves, or all leave the
 * same value there (PJ_TEXT_SEQUENTIAL tells why not). For eight invocations and more.
 *
 * `output_mask` and `preserve_unit` must be 0; `outputs` and `output_stride` are ignored. After the
 * first invocation of a draw hardware sets boolean uniform b15: a host runs that one alone.
 *
 * Returns as pj_run_batch does, with the errors of pj_run_geometry too. PJ_OVERLAP: the inputs
 * overlap the registers or `vertices` of the buffer.
 */
int32_t pj_run_geometry_batch(const pj_shader *shader, void *unit, const void *uniforms,
                              const pj_batch *batch, pj_emit_buffer *buffer);

/* ---- Traces ---- */

enum {                         /* bits of pj_step.wrote */
    PJ_WROTE_OUTPUT = 1,       /* o[index] in the current bank; `mask` and `value` are valid */
    PJ_WROTE_TEMPORARY = 2,    /* r[index]; `mask` and `value` are valid */
    PJ_WROTE_ADDRESS = 4,      /* a0; `mask` is valid */
    PJ_WROTE_LOOP_COUNTER = 8, /* aL: by LOOP, or after the last word of its body */
    PJ_WROTE_FLAGS = 16,       /* cmp */
    PJ_WROTE_EMIT = 32,        /* EMIT sent a vertex and changed the current bank */
    PJ_WROTE_SETEMIT = 64      /* emit_vertex, emit_primitive, emit_winding */
};

/* An executed instruction, and the state after it. */
typedef struct pj_step {
    size_t struct_size; /* set by the library: the fields that it knows */
    const char *text;   /* the instruction, disassembled; UTF-8, valid during the call */
    uint32_t pc;        /* its address, in words */
    int32_t next;       /* the next address, maybe past the last word; -1: the run ends here */
    uint32_t wrote;     /* PJ_WROTE_... */
    uint32_t index;     /* register number in o or r */
    uint32_t mask;      /* components of o, r or a0 that were written: bit 0 is x */
    pj_vec4 value;      /* all four components of o or r */
    int32_t a0[2];
    int32_t al;
    uint8_t cmp[2];     /* 0 or 1 */
    uint8_t bank;       /* 0 or 1 */
    uint8_t emit_vertex, emit_primitive, emit_winding;
    uint8_t reserved[2];
} pj_step;

/* Called after each instruction. Return 0 to go on; any other value ends the run: PJ_STOPPED. */
typedef int32_t (*pj_step_fn)(void *user, const pj_step *step);

/*
 * Runs like pj_run, with the same bits and exit, always on the oracle, and calls `step` after
 * each instruction. `step` must not be null; `emit` may be. Both get `user`.
 *
 * The unit is written when the run ends or is stopped: it then holds the effects of the executed
 * instructions.
 *
 * For debuggers: each run decodes the program, and each instruction costs about a microsecond.
 */
int32_t pj_run_traced(const pj_shader *shader, void *unit, const void *uniforms, pj_emit_fn emit,
                      pj_step_fn step, void *user);

/* ---- GPU ---- */

/*
 * The shader side of the GPU: register writes and guest memory go in, triangles come out. Hosts with
 * a GPU of their own need only the sections above. docs/gpu.md lists the meaning of registers, what
 * is known of the hardware, and what is not. Register numbers are those of command lists.
 *
 * Shaders run on the GPU's own registers, whatever the engine's layout. PJ_NATIVE_REQUIRED applies
 * to pj_engine_new only: a shader without native code runs on tier 0, with an event.
 *
 * One call at a time uses a GPU. A call that finds it in use, on another thread or in a callback,
 * returns PJ_BUSY and does nothing. Two callbacks of a pj_gpu_host are exceptions, on their own
 * thread only:
 *   - `draw` may make every call but pj_gpu_free.
 *   - `wrote` may make the calls that take a const pj_gpu.
 *
 * Don't change the memory that a call reads before the call returns, not even in its callbacks.
 */
typedef struct pj_gpu pj_gpu;

/*
 * Creates a GPU in its state at power-on. The GPU holds what it needs of the engine: the engine may
 * be freed first.
 */
pj_status pj_gpu_new(const pj_engine *engine, pj_gpu **gpu);

/*
 * Sets the most vertices, or indices, of each draw and of all draws of one pj_gpu_execute;
 * registers can request 2^32. A vertex counts once for each 4,096 words, or part of them, that its
 * run may execute by the integer uniforms and the default fuel, and so does its geometry run. The
 * rest is not drawn: see pj_report.limited and PJ_VERTEX_LIMIT. An incomplete primitive that is
 * left then continues in the next draw, unless the host writes PJ_RESTART_PRIMITIVE. At first, and
 * with 0, they are 2^22 and 2^24, which no game reaches: the console takes a quarter of a second,
 * and more than one, for as many triangles. No part of pj_gpu_state.
 */
pj_status pj_gpu_limits_set(pj_gpu *gpu, uint32_t draw, uint64_t list);

/*
 * Whether draws note what looks wrong, in pj_report.notes: 0 at first, any other value is yes. A
 * draw then also explores its programs, which takes some microseconds.
 */
pj_status pj_gpu_diagnostics_set(pj_gpu *gpu, uint32_t on);

/* Frees a GPU; null is allowed. Returns PJ_BUSY in all of its callbacks. */
pj_status pj_gpu_free(pj_gpu *gpu);

/*
 * The rasteriser's input for one vertex. Numbers that the output map names nowhere are 1, the
 * unused ones too. Colours arrive as the rasteriser takes them, their magnitudes, at most 1, and 1
 * of a NaN:
 *
 *    0-3  position x y z w              16  texture coordinate 0 w
 *    4-7  quaternion x y z w            17  unused
 *   8-11  colour r g b a             18-20  view x y z
 *  12-13  texture coordinates 0 u v     21  unused
 *  14-15  texture coordinates 1 u v  22-23  texture coordinates 2 u v
 */
typedef float pj_semantics[24];

/*
 * Receives a triangle: three vertices, each a pj_semantics, valid during the call. Their order
 * determines the front face. Triangles are neither clipped nor culled, and vertices not divided by
 * w.
 */
typedef void (*pj_triangle_fn)(void *user, const float *a, const float *b, const float *c);

/* What the host must do after a register write. Never negative. */
typedef int32_t pj_effect;
enum {
    PJ_EFFECT_NONE = 0,          /* nothing for the shader side */
    PJ_EFFECT_DRAW_ARRAYS = 1,   /* pj_gpu_draw; or fetch the vertices, then pj_gpu_draw_arrays */
    PJ_EFFECT_DRAW_ELEMENTS = 2, /* pj_gpu_draw; or pj_gpu_draw_elements */
    PJ_EFFECT_VERTEX = 3         /* immediate mode completed a vertex: pj_gpu_draw_immediate, before
                                    the next write that is not to FIXEDATTRIB_DATA */
};

/*
 * Writes register `id`. Bit n of `mask` selects bits 8n+7 to 8n of `value`; only its low four bits
 * count. Queues and triggers act on every write, whatever the mask. Unknown ids are ignored.
 *
 * `vertex` must not be null; a write that only stores its value does not check that. With
 * PJ_EFFECT_VERTEX it receives the vertex's sixteen attributes; otherwise it stays unchanged.
 *
 * Returns a pj_effect, or a negative pj_status.
 *
 * The library acts on and draws with these registers. Others need not be written: their values only
 * come back from pj_gpu_read and pj_gpu_state_get.
 *
 *   0x04F-0x056                              output map
 *   0x200-0x22A                              attribute arrays, indices, vertices of a draw
 *   0x22E-0x22F                              draws
 *   0x232-0x235                              default attributes, immediate mode
 *   0x242, 0x244, 0x24A, 0x252, 0x254        vertex and geometry units together
 *   0x25E-0x25F                              primitives
 *   0x280-0x284, 0x289-0x28D                 geometry unit: uniforms, input, outputs
 *   0x290-0x298, 0x29B-0x2A3, 0x2A5-0x2AD    its float uniforms, code, descriptors
 *   0x2B0-0x2B4, 0x2B9-0x2BD                 vertex units: uniforms, input, outputs
 *   0x2C0-0x2C8, 0x2CB-0x2D3, 0x2D5-0x2DD    their float uniforms, code, descriptors
 */
int32_t pj_gpu_write(pj_gpu *gpu, uint16_t id, uint32_t value, uint8_t mask, pj_registers *vertex);

/*
 * A position in a command list. Zeros are its start. A command is a value and a header: the id in
 * bits 15:0, the byte mask in 19:16, the number of further values in 27:20, and bit 31 if each of
 * these goes to the next id, else all to the same one. They follow the header; a word pads a command
 * of an odd number of words.
 */
typedef struct pj_list_position {
    size_t command; /* the first word of a command: the next one, or one that is written in part */
    size_t values;  /* values of that command that are written */
} pj_list_position;

/*
 * Writes registers of a command list of `words` words, from `position` on, until a write has an
 * effect. Returns that effect, and in `position` where the next write is. PJ_EFFECT_NONE: all of
 * the list is written; values that its last command lacks are not. A negative pj_status leaves both
 * `position` and the GPU unchanged, except PJ_INTERNAL. Any position is safe.
 *
 * Immediate mode returns each vertex alone, in `vertex`, which must not be null. The host handles
 * jumps to other lists, and draws before the next call.
 */
int32_t pj_gpu_write_list(pj_gpu *gpu, const uint32_t *list, size_t words, pj_list_position *position,
                          pj_registers *vertex);

/* The callbacks of pj_gpu_execute. */
typedef struct pj_gpu_host {
    size_t struct_size;
    pj_triangle_fn triangle; /* triangles of immediate mode; not null */
    /*
     * Draws with `gpu` before it returns. `effect` is PJ_EFFECT_DRAW_ARRAYS or
     * PJ_EFFECT_DRAW_ELEMENTS. Not null.
     */
    void (*draw)(void *user, pj_gpu *gpu, pj_effect effect);
    /* Called after each register write, before the draw that it triggers. May be null. */
    void (*wrote)(void *user, const pj_gpu *gpu, uint16_t id, uint32_t value, uint8_t mask);
    void *user;
} pj_gpu_host;

/*
 * Executes a command list of `words` words: writes its registers and draws. Consecutive vertices of
 * immediate mode are drawn together. Execution ends with the list; the host handles jumps to other
 * lists. Draws of immediate mode have no report here: a host that needs their exits or notes takes
 * pj_gpu_write_list and pj_gpu_draw_immediate.
 *
 * Returns PJ_OK, or a negative pj_status. Two exits, of which pj_last_error does not speak, say
 * that the rest is not executed: PJ_CANCELLED after pj_engine_cancel, and PJ_VERTEX_LIMIT after a
 * draw that exceeds the limit of the list.
 */
pj_status pj_gpu_execute(pj_gpu *gpu, const uint32_t *list, size_t words, const pj_gpu_host *host);

/*
 * Reads a register as the console's CPU would: index, data and end registers of uploads are 0, entry
 * points have their existing bits only. 0 for an id that no register has.
 */
pj_status pj_gpu_read(const pj_gpu *gpu, uint16_t id, uint32_t *value);

/*
 * Gets default attribute `n`, for vertices whose arrays don't supply that attribute. Zeros for n of
 * 15 or more.
 */
pj_status pj_gpu_default_attribute(const pj_gpu *gpu, uint32_t n, pj_vec4 *value);

/*
 * Fetches vertex `index`: writes up to sixteen attributes, in the order of the input buffer, before
 * permutation. All are zero before the call.
 */
typedef void (*pj_fetch_fn)(void *user, uint32_t index, pj_vec4 *attributes);

/* The vertices of a draw. Both callbacks get `user`. */
typedef struct pj_draw {
    size_t struct_size;
    size_t count;                  /* vertices, or indices */
    const pj_registers *vertices;  /* attributes, aligned to 4 bytes: immediate mode; arrays, unless
                                      null */
    pj_fetch_fn fetch;             /* elements; arrays if `vertices` is null */
    const void *indices;           /* elements: index_bytes each, host byte order, any alignment */
    pj_triangle_fn triangle;       /* not null */
    void *user;
    uint32_t index_bytes;          /* 1, 2 or 4; 0: 2 */
    uint32_t vertex_cache_entries; /* elements: 0-255, size of a first-in, first-out vertex cache; 0:
                                      none. Azahar has 64. */
} pj_draw;

/* The statistics of one draw. */
typedef struct pj_report {
    size_t struct_size;
    uint64_t vertices;      /* vertices that ran */
    uint64_t reused;        /* vertices from the vertex cache */
    uint64_t geometry_runs; /* geometry invocations */
    uint64_t dropped;       /* vertices that arrive when no geometry invocation can take them: in
                               variable mode, those without a count. Not those of an input that a
                               draw leaves incomplete, which the next one discards */
    uint64_t triangles;     /* triangles that the callback got */
    pj_exit vertex_exit;    /* PJ_OUT_OF_FUEL or PJ_CANCELLED, which end the draw; else PJ_END, or
                               the first other exit of the vertex program */
    pj_exit geometry_exit;  /* the same of the geometry program */
    uint32_t limited;       /* 1: the draw has more vertices or indices than a limit */
    uint32_t notes;         /* PJ_NOTE_STRIDE ..., added: what looks wrong, if pj_gpu_diagnostics_set
                               is on; else 0 */
} pj_report;

enum { /* pj_report.notes; docs/gpu.md gives the evidence of each */
    PJ_NOTE_STRIDE = 1,         /* an array's stride differs from the sum of its components */
    PJ_NOTE_UNIFORM = 2,        /* a program reads a float uniform that nothing has written */
    PJ_NOTE_OUTPUT = 4,         /* the map names an output component that is never written */
    PJ_NOTE_ATTRIBUTE = 8,      /* an attribute that is read has neither an array nor a default */
    PJ_NOTE_GEOMETRY_CODE = 16, /* geometry code was replaced while the unit was on */
    PJ_NOTE_MEMORY = 32,        /* the region, or pj_memory_fn, lacks bytes of an array or of the
                                   indices: they read as 0 */
    PJ_NOTE_POSITION = 64       /* the output map names no component of the position: all vertices
                                   are at 1 1 1 1 */
};

/*
 * Draws: vertices in order, vertices by index, vertices of immediate mode. `report` may be null.
 *
 * `fetch` is not called for vertices in the cache. In the geometry unit's variable mode the index
 * stream contains vertex counts, which are neither fetched nor looked up.
 *
 * An incomplete input of the geometry unit is discarded when the next draw begins; in immediate mode,
 * when 15 is written to PJ_FIXEDATTRIB_INDEX. An incomplete primitive continues in the next draw.
 *
 * On error nothing is drawn, except with PJ_INTERNAL. PJ_OK does not say that all is drawn: `report`
 * has the exits, as PJ_CANCELLED, and whether a limit ended the draw.
 */
pj_status pj_gpu_draw_arrays(pj_gpu *gpu, const pj_draw *draw, pj_report *report);
pj_status pj_gpu_draw_elements(pj_gpu *gpu, const pj_draw *draw, pj_report *report);
pj_status pj_gpu_draw_immediate(pj_gpu *gpu, const pj_draw *draw, pj_report *report);

/* A part of guest memory: `length` bytes from physical `address` on. */
typedef struct pj_region {
    const uint8_t *bytes;
    size_t length;
    uint32_t address;
    uint32_t reserved; /* ignored */
} pj_region;

/*
 * Guest memory from `address` on: returns the bytes, and in `available`, 0 before, how many there
 * are, at most `length` of which are read before the draw returns. Null: none. Called once for each
 * array of a draw, up to 12 bytes beyond its end, and once for its indices.
 */
typedef const void *(*pj_memory_fn)(void *user, uint32_t address, size_t length, size_t *available);

/*
 * Triangles: three numbers of vertices for each. A vertex is 24 numbers, or `stride` of the draw's.
 * Some vertices may be in no triangle. All is valid during the call. A draw makes any number of calls;
 * the numbers of each count its own vertices.
 */
typedef void (*pj_triangles_fn)(void *user, const float *vertices, size_t vertex_count,
    const uint32_t *triangles, size_t triangle_count);

/*
 * A draw from guest memory: the GPU's registers say where the attributes and indices are. The first
 * region that contains an address supplies the bytes from there to the end of the region; without
 * one, `memory` does. Regions are not joined. Bytes that are missing read as 0: see PJ_NOTE_MEMORY.
 */
typedef struct pj_guest_draw {
    size_t struct_size;
    const pj_region *regions;
    size_t region_count;
    pj_memory_fn memory;           /* or null */
    pj_triangles_fn triangles;     /* not null; called any number of times */
    const uint8_t *offsets;        /* null: vertices as in pj_triangle_fn; else for each of the 24
                                      components its position in a vertex, no two alike, or 255 */
    void *user;
    uint32_t stride;               /* with `offsets`: numbers per vertex, 1-255; the others are 0 */
    uint32_t limit;                /* most vertices or indices, each counted once; those of
                                      pj_gpu_limits_set hold too. 0: no limit of its own */
    uint32_t vertex_cache_entries; /* 0-255, Azahar has 64: as in pj_draw, for indexed draws of
                                      programs whose vertices depend on each other */
    pj_effect effect;              /* PJ_EFFECT_DRAW_ARRAYS or PJ_EFFECT_DRAW_ELEMENTS */
} pj_guest_draw;

/* Draws from guest memory. Otherwise as pj_gpu_draw_arrays. */
pj_status pj_gpu_draw(pj_gpu *gpu, const pj_guest_draw *draw, pj_report *report);

/* The cost of uploads since the GPU was created. */
typedef struct pj_gpu_upload_stats {
    size_t struct_size;
    uint64_t lookups;  /* shaders requested from the engine, since words or the entry had changed */
    uint64_t programs; /* of these, programs that the engine did not know, and explored */
} pj_gpu_upload_stats;

pj_status pj_gpu_upload_stats_get(const pj_gpu *gpu, pj_gpu_upload_stats *stats);

/* The state of the vertex units or of the geometry unit, without code memory. */
typedef struct pj_gpu_unit {
    pj_registers v, r, o[2]; /* as in pj_unit */
    pj_registers slots[4];   /* vertex slots of EMIT */
    pj_vec4 c[96];
    uint32_t opdescs[128];
    int32_t a0[2], al;
    uint32_t float_words[3]; /* words of an incomplete float uniform */
    uint8_t i[4][4];
    uint16_t b;
    uint16_t code_index, opdesc_index; /* the next code word and descriptor to be uploaded */
    uint8_t float_index;               /* the next float uniform */
    uint8_t float32;                   /* 1: float uniforms arrive as f32, 0: as float24 */
    uint8_t float_count;               /* number of float_words */
    uint8_t cmp[2], bank, emit_vertex, emit_primitive, emit_winding; /* as in pj_unit */
    uint8_t reserved;
} pj_gpu_unit;

/*
 * The whole state of a GPU, for savestates: plain data, some 30 KiB. Any contents are safe. A call
 * needs stack for two copies. `fixed` is 3dbrew's FIXEDATTRIB.
 */
typedef struct pj_gpu_state {
    size_t struct_size;
    uint32_t registers[768]; /* as last written */
    uint32_t vertex_code[512];
    uint32_t geometry_code[4096];
    pj_gpu_unit vertex, geometry;
    pj_registers fixed_defaults;            /* default attributes; no register selects the last */
    pj_registers fixed_vertex;              /* immediate mode: attributes of an incomplete vertex */
    uint32_t fixed_words[3];                /* words of an incomplete attribute */
    uint8_t fixed_index;                    /* the next attribute; 15: immediate mode */
    uint8_t fixed_words_count;              /* number of fixed_words */
    uint8_t fixed_count;                    /* number of attributes in fixed_vertex */
    uint8_t assembly_count;                 /* number of assembly_vertices */
    pj_semantics assembly_vertices[2];      /* vertices of an incomplete primitive */
    pj_registers geometry_input_vectors;    /* point mode: attributes of an incomplete input */
    uint32_t geometry_input_vertices;       /* other modes: vertices received */
    uint32_t geometry_input_expected;       /* variable mode: vertices of the primitive; 0: none */
    uint8_t geometry_input_count;           /* point mode: number of attributes */
    uint8_t geometry_input_uniform;         /* variable mode: the next uniform */
    uint8_t assembly_oldest;                /* strips: the assembly vertex to be replaced */
    uint8_t reserved[5];
} pj_gpu_state;

/*
 * Saves and restores the state of a GPU. Programs are compiled again on demand, unless the GPU
 * still has them. The fields are those of this minor version: a host whose savestates outlive it
 * stores PJ_VERSION with them, or each field apart.
 */
pj_status pj_gpu_state_get(const pj_gpu *gpu, pj_gpu_state *state);
pj_status pj_gpu_state_set(pj_gpu *gpu, const pj_gpu_state *state);

/* ---- Code for the host's GPU ---- */

/*
 * A vertex shader as SPIR-V and GLSL, with the bits of the other engines: any NaN equals any NaN, and
 * in PJ_F32 a subnormal number may be zero unless the device keeps them. A host may run one draw on
 * the CPU and the next on its GPU. docs/gpu-code.md says what is promised and how to embed it.
 *
 * Independent of any pj_gpu, which is the console's. Any thread may use a pj_gpu_code; it never
 * changes.
 */
typedef struct pj_gpu_code pj_gpu_code;

typedef struct pj_binding {
    uint32_t set; /* descriptor set; OpenGL has none */
    uint32_t binding;
} pj_binding;

enum { /* pj_attribute.kind: bits. 0: vec4 */
    PJ_ATTRIBUTE_SIGNED = 1,   /* ivec4; the program gets floats of the same value */
    PJ_ATTRIBUTE_UNSIGNED = 2, /* uvec4 */
    PJ_ATTRIBUTE_FIXED_W = 4   /* takes 1 for w: for arrays of three components in a format of four */
};

/* A vertex attribute. Components that its format lacks are (0, 0, 0, 1), as in Vulkan and OpenGL. */
typedef struct pj_attribute {
    uint32_t location;
    uint32_t kind; /* PJ_ATTRIBUTE_SIGNED ... */
} pj_attribute;

enum { /* components of outputs: 4 * n + c is component c of on; 0 if the program does not write on */
    PJ_COMPONENT_ZERO = 64,
    PJ_COMPONENT_ONE = 65,
    PJ_COMPONENT_COLOUR = 128 /* plus 4 * n + c: the magnitude of component c of on, at most 1, and 1 of a
                                 NaN: what the rasteriser takes of a colour */
};

typedef struct pj_varying {
    uint32_t location;
    uint32_t count; /* 1-4 */
    uint8_t components[4];
} pj_varying;

enum { /* pj_interface.stage */
    PJ_STAGE_VERTEX = 0,
    PJ_STAGE_COMPUTE = 1 /* groups of 64, for which the buffers need room; vertex n is invocation n */
};

enum { /* pj_interface.outputs */
    PJ_OUTPUT_REGISTERS = 0, /* each written on at location `first_location` + n */
    PJ_OUTPUT_MAPPED = 1,    /* `varyings` and `position`; not with PJ_STAGE_COMPUTE */
    PJ_OUTPUT_BUFFER = 2     /* the storage buffer `output_buffer`: a pj_registers for each vertex, of
                                which written registers are set */
};

enum { /* pj_interface.position: bits. 0: no built-in position */
    PJ_POSITION = 1,
    PJ_POSITION_NEGATE_Z = 2,    /* the console's 0 to -w becomes 0 to w */
    PJ_POSITION_FLIP_Y = 4,      /* for hosts whose first line is the top one; front faces turn round */
    PJ_POSITION_CLIP_DEPTH = 8,  /* clip distance 0: -z */
    PJ_POSITION_CLIP_PLANE = 16  /* the same, and clip distance 1: the product of the position and a
                                    plane. From `clip_block`, std140:
                                    { uint plane_enabled; uint flip_y; vec4 plane; }, 32 bytes */
};

enum { /* pj_interface.uniform_order: members of the uniform block */
    PJ_BOOLS_INTS_FLOATS = 0,
    PJ_BOOLS_FLOATS_INTS = 1,
    PJ_INTS_BOOLS_FLOATS = 2,
    PJ_INTS_FLOATS_BOOLS = 3,
    PJ_FLOATS_BOOLS_INTS = 4,
    PJ_FLOATS_INTS_BOOLS = 5
};

/*
 * How the code meets its surroundings. All zero is valid: a vertex stage whose attributes have the
 * numbers of their registers, as have its outputs; the uniform block is binding 0 of set 0.
 *
 * The uniform block is std140: `uint` b, bit n for bn; `uvec4 i[4]`, or one `uvec4` of bytes, x
 * lowest; `vec4 c[96]`. Storage buffers are std430.
 */
typedef struct pj_interface {
    size_t struct_size;
    const pj_attribute *attributes; /* sixteen, for v0-v15; those that the program reads have
                                       different locations. Null: vec4 at locations 0-15 */
    const pj_varying *varyings;
    size_t varying_count;           /* at most 64; 0 without PJ_OUTPUT_MAPPED */
    uint32_t stage;                 /* PJ_STAGE_VERTEX ... */
    uint32_t outputs;               /* PJ_OUTPUT_REGISTERS ... */
    uint32_t first_location;
    uint32_t position;              /* PJ_POSITION ...; 0 without PJ_OUTPUT_MAPPED */
    uint8_t position_components[4]; /* of x, y, z, w */
    uint32_t uniform_order;         /* PJ_BOOLS_INTS_FLOATS ... */
    uint32_t packed_integers;       /* 1: one uvec4 of bytes */
    pj_binding uniforms;            /* this and the next three, as far as they are in use, differ */
    pj_binding input_buffer;        /* PJ_STAGE_COMPUTE: a pj_registers for each vertex */
    pj_binding output_buffer;
    pj_binding clip_block;          /* with PJ_POSITION_CLIP_PLANE; another binding than `uniforms` */
    uint32_t reserved;              /* 0 */
} pj_interface;

enum { /* fields of pj_device */
    PJ_DEVICE_UNKNOWN = 0,
    PJ_DEVICE_DECLARED = 1, /* the device reports the property, and the module demands it */
    PJ_DEVICE_KNOWN = 2     /* it does not, but the host tested it: see pj_gpu_self_test_get */
};

/* What a device keeps, from VkPhysicalDeviceFloatControlsProperties. */
typedef struct pj_device {
    size_t struct_size;
    uint32_t special_values; /* shaderSignedZeroInfNanPreserveFloat32 */
    uint32_t rounding;       /* shaderRoundingModeRTEFloat32 */
    uint32_t subnormals;     /* shaderDenormPreserveFloat32; may be unknown */
    uint32_t reserved;       /* 0 */
} pj_device;

/*
 * Makes the code of a vertex shader, in some 0.03 ms (PJ_F24_...: 0.06 ms). Nothing is kept: the
 * host keeps the code with its pipeline, and frees it. `surroundings` may be null: all zero.
 * `device` must not be: one of zeros promises nothing, and no code can serve it.
 *
 * Errors: PJ_NULL; PJ_INVALID_ARGUMENT, also for an interface that no shader could have;
 * PJ_NO_GPU_CODE: geometry programs, vertices that depend on each other, a device that no code can
 * serve, and others, see pj_last_error. Then the CPU runs the program.
 */
pj_status pj_gpu_code_get(const pj_shader *shader, const pj_interface *surroundings,
                          const pj_device *device, pj_gpu_code **code);

/* Null is allowed. */
void pj_gpu_code_free(pj_gpu_code *code);

typedef struct pj_gpu_code_info {
    size_t struct_size;
    const uint32_t *spirv;     /* a module of SPIR-V 1.3 with the entry point "main"; lives as long as
                                  the code */
    size_t spirv_words;
    uint32_t inputs;           /* bit n: vn is read */
    uint32_t outputs;          /* bit n: on is written */
    uint32_t equal_subnormals; /* 1: subnormal numbers are equal too */
    /* Registers that the program reads and no run writes; bits as in pj_analysis.carried_.... The code
       takes them for 0: draws whose unit holds other values there run on the CPU. */
    uint32_t assumed_state;
    uint64_t assumed_temps;
    uint64_t assumed_outputs;
    size_t block_bytes;        /* size of the uniform block */
} pj_gpu_code_info;

/* Errors: PJ_NULL, PJ_INVALID_ARGUMENT. */
pj_status pj_gpu_code_info_get(const pj_gpu_code *code, pj_gpu_code_info *info);

enum { /* `dialect` of pj_gpu_code_glsl */
    PJ_GLSL_VULKAN = 0,   /* GLSL 4.50 */
    PJ_GLSL_OPENGL = 1,   /* GLSL 4.30 */
    PJ_GLSL_OPENGL_ES = 2 /* GLSL ES 3.10 with GL_EXT_gpu_shader5 */
};

/*
 * Copies the code as a whole GLSL shader, at most `bytes` bytes with the final 0. Returns the length
 * of the whole text without it, or a negative pj_status. `text` may be null. Languages can't demand
 * what pj_device declares: the driver must keep it by itself.
 */
int64_t pj_gpu_code_glsl(const pj_gpu_code *code, uint32_t dialect, char *text, size_t bytes);

/*
 * Writes the contents of the uniform block for the uniforms of the host's memory: `unit`, `uniforms`
 * and `shader` are those of pj_run; nothing is written there. Floats are narrowed in PJ_F24_....
 *
 * Errors: PJ_NULL, PJ_MISALIGNED, PJ_INVALID_ARGUMENT: `bytes` is less than block_bytes.
 */
pj_status pj_gpu_code_uniforms(const pj_gpu_code *code, const pj_shader *shader, void *unit,
                               const void *uniforms, void *block, size_t bytes);

/* Data of a self-test; lives as long as its code. */
typedef struct pj_gpu_self_test {
    size_t struct_size;
    const void *block; /* contents of the uniform block */
    size_t block_bytes;
    size_t count;      /* vertices */
    const float *inputs;  /* of each vertex 64 floats: v0-v15 */
    const float *outputs; /* o0-o15: what a device must give in written registers; any NaN for a NaN */
} pj_gpu_self_test;

/*
 * A program of 51 words, some hundred vertices of ordinary and special numbers, and the oracle's
 * outputs. A host runs it when it starts, with PJ_DEVICE_KNOWN for what the device does not report.
 * Without differences it may do so for all programs. `precision` is PJ_F32 ...
 *
 * Errors: as pj_gpu_code_get.
 */
pj_status pj_gpu_self_test_get(uint32_t precision, const pj_interface *surroundings,
                               const pj_device *device, pj_gpu_code **code, pj_gpu_self_test *test);

/*
 * The number of components that differ from the self-test's outputs, or a negative pj_status.
 * `outputs` has `count` vertices of 64 floats; missing ones differ.
 */
int64_t pj_gpu_self_test_differences(const pj_gpu_code *code, const float *outputs, size_t count);

/* ---- Draws on the host's GPU ---- */

/*
 * A host of pj_gpu may run the vertices of one draw on the CPU, with pj_gpu_draw, and those of the
 * next on its GPU: the triangles have the same bits, and the state afterwards is the same. So it
 * draws on the CPU until a pipeline is ready. For each draw:
 *
 *   1. pj_gpu_placement: the vertex program, the layout of its inputs, the meaning of its outputs.
 *   2. If the host has a pipeline for these: pj_gpu_hand_over, which prepares the draw.
 *   3. Otherwise, and after PJ_CPU_ONLY: pj_gpu_draw.
 *
 * docs/embedding.md shows it; examples/vulkan-host is a whole host.
 */

enum {               /* the number of streams */
    PJ_STREAMS = 14
};

enum {                    /* pj_placement.cpu_only */
    PJ_CPU_OR_GPU = 0,
    PJ_CPU_GEOMETRY = 1,  /* the geometry unit takes the vertices */
    PJ_CPU_DEPENDENT = 2, /* they depend on each other, or may leave different registers to later programs */
    PJ_CPU_LONG_RUNS = 3, /* a run may not reach an END, or executes more words than code for GPUs does */
    PJ_CPU_CONTINUES = 4  /* the draw continues a primitive of an earlier one */
};

/* Where the host's GPU finds an input register. */
typedef struct pj_stream_attribute {
    uint32_t stream;    /* as the number of a binding */
    uint32_t offset;    /* bytes from the start of a vertex */
    uint32_t vk_format; /* the VkFormat: one that every device can fetch, of integers or f32 */
} pj_stream_attribute;

/*
 * How the next draw may run. A pipeline depends on all that follows `cpu_only`, and on `shader`. The
 * attributes, varyings and components go into a pj_interface as they are.
 */
typedef struct pj_placement {
    size_t struct_size;
    const pj_shader *shader;  /* the vertex program, for pj_gpu_code_get, pj_shader_info_get and the like;
                                 it runs in draws only. Valid until the next call that takes this
                                 pj_gpu, and not as const; pj_shader_retain keeps it. */
    uint32_t cpu_only;        /* PJ_CPU_OR_GPU ... */
    uint32_t varying_count;
    uint32_t strides[PJ_STREAMS];    /* bytes from a vertex to the next; 0: all have the same */
    pj_stream_attribute streams[16]; /* by input register */
    pj_attribute attributes[16];     /* the same for pj_interface: register n at location n */
    pj_varying varyings[64];  /* location n: numbers 4n to 4n + 3 of a vertex, as pj_gpu_draw gives them;
                                 zeros from `varying_count` on */
    uint8_t position_components[4];
    uint32_t reserved;
} pj_placement;

/*
 * How the next draw may run. `offsets` and `stride` are those of its pj_guest_draw; null: the 24
 * numbers of pj_semantics. Nothing changes.
 *
 * Errors: PJ_NULL, PJ_INVALID_ARGUMENT, PJ_MISALIGNED (`placement`), PJ_BUSY.
 */
pj_status pj_gpu_placement(pj_gpu *gpu, const uint8_t *offsets, uint32_t stride, pj_placement *placement);

typedef struct pj_stream {
    const uint8_t *bytes; /* any alignment */
    size_t length;        /* up to the last attribute of the last vertex. 0: the program reads none of it */
} pj_stream;

/* A draw for the host's GPU. The pointers are valid until the next call that takes this pj_gpu, and not
   as const, and while guest memory does not change: copy what they point to. */
typedef struct pj_handed_draw {
    size_t struct_size;
    pj_stream streams[PJ_STREAMS]; /* place each at a multiple of 16, with 16 bytes of room after it: some
                                      formats read past the last vertex */
    const uint32_t *triangles;     /* three numbers of vertices each, in order */
    size_t triangle_count;
    size_t vertex_count;           /* in each stream */
} pj_handed_draw;

/*
 * Draws as pj_gpu_draw, except that the host's GPU runs the vertices, with `code`: that of the
 * placement's shader, attributes, varyings and position. `triangles` of the draw is not called and may
 * be null. The console's state is then as pj_gpu_draw leaves it.
 *
 * Errors: those of pj_gpu_draw, and PJ_CPU_ONLY: nothing is drawn and nothing has changed. The reasons
 * are those of pj_placement, and registers that the program reads and no run writes, in which an
 * earlier program left values.
 */
pj_status pj_gpu_hand_over(pj_gpu *gpu, const pj_gpu_code *code, const pj_guest_draw *draw,
                           pj_handed_draw *handed, pj_report *report);

/*
 * Brings the contents of a uniform block up to date with the vertex units: `block` is what the last
 * call left there, or anything. `bytes` is at least block_bytes of the code's pj_gpu_code_info.
 * Returns in `first` and `count` the bytes that changed; either may be null.
 *
 * Errors: PJ_NULL, PJ_INVALID_ARGUMENT, PJ_MISALIGNED, PJ_BUSY.
 */
pj_status pj_gpu_uniforms(const pj_gpu *gpu, const pj_gpu_code *code, void *block, size_t bytes,
                          size_t *first, size_t *count);

#ifdef __cplusplus
}
#endif

#endif /* PICAJIT_H */
