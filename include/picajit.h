/*
 * picajit: PICA200 vertex and geometry shaders as native code, with an interpreter that gives the same bits.
 *
 * Made for C99, C11 and C++ from C++11 on. Structures that may grow begin with their size: zero them and set `struct_size`
 * to sizeof (PJ_OPTIONS_INIT does for options); fields named `reserved` stay 0. A function that can fail returns a pj_status;
 * whatever it was to give is then untouched. Nothing here keeps global state; no call lets a panic of the library out.
 *
 * Threads: an engine may be used by many at once. A shader is immutable, and many threads may run it at once, each on
 * registers of its own. Callbacks come on the thread that made the call, or, for events, on the one that found something.
 * They must return: neither longjmp nor a C++ exception may leave them. A shader is held until its run has returned.
 *
 * The floating-point mode of a thread that runs shaders is the usual one: round to nearest, subnormals kept.
 */
#ifndef PICAJIT_H
#define PICAJIT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Versions ---- */

#define PJ_VERSION_MAJOR 0
#define PJ_VERSION_MINOR 1
#define PJ_VERSION_PATCH 0

/* The version of the library, as major << 16 | minor << 8 | patch. */
uint32_t pj_version(void);

/* ---- Results ---- */

typedef int32_t pj_status;
enum {
    PJ_OK = 0,
    PJ_NULL = -1,       /* a pointer that must not be null is */
    PJ_ARGUMENT = -2,   /* a number that means nothing, or a structure of a size that is none */
    PJ_LAYOUT = -3,     /* a layout is wrong; the message names the field, "a0.x" for a0x, "bank" for bank and so on */
    PJ_PROGRAM = -4,    /* more code words than the hardware has room for; of descriptors, 128 are looked at */
    PJ_NO_NATIVE = -5,  /* native code was required and there is none; the message says why */
    PJ_MISALIGNED = -6, /* registers or uniforms are not aligned to 16 bytes, or an array not to 4 */
    PJ_OVERLAP = -7,    /* inputs or outputs of a batch lie where they must not, see pj_run_batch */
    PJ_INTERNAL = -8    /* a bug in picajit; the engine and its shaders should not be used any more */
};

/* How a run ended: what pj_run and pj_run_batch return if they ran. Never negative. */
typedef int32_t pj_exit;
enum {
    PJ_END = 0,       /* END */
    PJ_FUEL = 1,      /* more backward transfers than pj_options.fuel */
    PJ_BREAK = 2,     /* BREAK outside of a loop; the hardware hangs */
    PJ_PAST_END = 3   /* behind the last word of the program; unknown on hardware */
};

/* ---- Registers ---- */

/* One vector: x, y, z, w. */
typedef float pj_vec4[4];
/* The sixteen registers of one file. */
typedef pj_vec4 pj_registers[16];

/*
 * The registers of one shader unit, for hosts that have no structure of their own. Aligned to 16 bytes, which has to be
 * asked for (alignas(16), _Alignas(16), aligned_alloc) and is checked. All zero is a good beginning. Nothing is reset between runs: registers carry over from vertex to vertex, as on hardware.
 */
typedef struct pj_unit {
    pj_registers v;      /* inputs */
    pj_registers r;      /* temporaries */
    pj_registers o[2];   /* outputs, two banks */
    int32_t a0[2];       /* a0.x, a0.y */
    int32_t al;          /* aL */
    uint8_t cmp[2];      /* cmp.x, cmp.y: set if not 0 */
    uint8_t bank;        /* bit 0: the bank that is written; results of a vertex program are in o[bank & 1] */
    uint8_t emit_vertex; /* what the last SETEMIT said: vertex slot 0-3, */
    uint8_t emit_primitive; /* whether EMIT completes a triangle, */
    uint8_t emit_winding;   /* whether its first two vertices are to be exchanged */
    uint8_t reserved[14];
} pj_unit;

/* What a run reads and never writes. Aligned to 16 bytes like pj_unit. */
typedef struct pj_uniforms {
    pj_vec4 c[96];    /* c0-c95 */
    uint8_t i[4][4];  /* i0-i3: x, y, z, w */
    uint16_t b;       /* bit n is bn */
    uint8_t reserved[14];
} pj_uniforms;

/*
 * Where a host that has structures of its own keeps all this: byte offsets. Nothing is copied then, and savestates stay as
 * they are. Registers and uniforms may be in one structure: give that twice. Where a structure begins, and each file of
 * vectors in it, is a multiple of 16; fields don't overlap. pj_engine_new checks this of the registers' fields among
 * themselves and of the uniforms' among themselves, and names what is wrong; in one structure, uniforms on top of
 * registers are not noticed.
 */
typedef struct pj_layout {
    size_t struct_size;
    uint32_t unit_bytes;     /* size of the structure with the registers */
    uint32_t v, r, o;        /* float[16][4] each */
    uint32_t a0x, a0y, al;   /* int32_t each */
    uint32_t cmp_x, cmp_y;   /* a byte each; read as set if not 0, written as 0 or 1 */
    uint32_t geometry;       /* 1 if the following are there. If 0, geometry programs are interpreted, and each run begins with
                                bank 0 and SETEMIT forgotten. */
    uint32_t bank_stride;    /* from a register of the first output bank to that of the second */
    uint32_t bank;           /* a byte each, as in pj_unit */
    uint32_t emit_vertex, emit_primitive, emit_winding;
    uint32_t uniforms_bytes; /* size of the structure with the uniforms */
    uint32_t c;              /* float[96][4] */
    uint32_t i;              /* uint8_t[4][4] */
    uint32_t bools;          /* PJ_BOOLS_MASK or PJ_BOOLS_BYTES */
    uint32_t b;
} pj_layout;

enum {
    PJ_BOOLS_MASK = 0, /* a uint16_t: bit n is bn */
    PJ_BOOLS_BYTES = 1 /* sixteen bytes: set if not 0 */
};

/* ---- Engines ---- */

typedef struct pj_engine pj_engine;
typedef struct pj_shader pj_shader;

enum { /* pj_options.backend */
    PJ_NATIVE = 0,          /* native code where it can be had, the interpreter where not, which is then reported */
    PJ_NATIVE_REQUIRED = 1, /* PJ_NO_NATIVE instead of the interpreter */
    PJ_INTERPRETER = 2
};

enum { /* pj_options.precision */
    PJ_F32 = 0,         /* single precision with the console's special values, as emulators compute */
    PJ_F24_NEAREST = 1, /* the hardware's 24-bit format, rounded to nearest */
    PJ_F24_ZERO = 2     /* the same, rounded toward zero */
};

enum { /* pj_options.profiler: Linux perf, so that it shows shaders by name */
    PJ_NO_PROFILER = 0,
    PJ_PERF_MAP = 1, /* names, for perf report */
    PJ_JITDUMP = 2   /* names, code and instructions, for perf inject --jit */
};

enum { /* the kind of an event */
    PJ_EVENT_FALLBACK = 0,  /* a shader is interpreted although native code was preferred; once for each reason */
    PJ_EVENT_DIVERGENCE = 1, /* a crosscheck found a bug in picajit; once for each shader */
    PJ_EVENT_UNPROFILED = 2  /* the profiler that was asked for is not told, or no more; once for each engine */
};

/* `text` is UTF-8, ends with 0, and is valid during the call. */
typedef void (*pj_event_fn)(void *user, uint32_t kind, const char *text);

/*
 * Executable memory of the host's, for systems with rules of their own. `install` copies `bytes` of position-independent code
 * to where they can be read and executed on every core, and gives the address, a multiple of 64; on 64-bit Arm that takes
 * __builtin___clear_cache or the like. Nobody may write there before `release` takes it back. Null, or another address: the
 * shader is interpreted, and says why. Both are called by any thread that compiles or lets go of a shader, several at once,
 * and not after the engine is freed and all of its shaders are released; neither may call picajit.
 */
typedef struct pj_memory {
    size_t struct_size;
    void *(*install)(void *user, const void *code, size_t bytes);
    void (*release)(void *user, void *code, size_t bytes);
    void *user;
} pj_memory;

typedef struct pj_options {
    size_t struct_size;
    uint32_t backend;
    uint32_t precision;
    uint32_t fuel;           /* backward transfers that one run may take; 0: 65536 */
    uint32_t crosscheck;     /* compare one run in so many with the interpreter; 0: none */
    size_t cache_bytes;      /* what cached shaders may occupy; 0: 64 MiB */
    const pj_layout *layout; /* null: pj_unit and pj_uniforms */
    pj_event_fn event;       /* null: events go to standard error */
    void *user;              /* for `event`, which any thread may call; both are used until the engine is freed and all of
                                its shaders are released */
    const char *profile_directory; /* where PJ_JITDUMP writes; UTF-8 */
    uint32_t profiler;
    uint32_t threads;        /* that compile in the background, so that nobody who runs shaders waits for code: they are
                                interpreted until it is there, and nothing else can be told apart. 1 is enough for any game; more
                                than 64 are 64. 0: whoever first wants code makes it. With PJ_NATIVE_REQUIRED only the code of
                                which pj_shader_get speaks last is made there. */
    const pj_memory *memory; /* null: pages that picajit maps. It is copied. */
} pj_options;

#define PJ_OPTIONS_INIT \
    { sizeof(pj_options), PJ_NATIVE, PJ_F32, 65536, 0, (size_t)64 << 20, NULL, NULL, NULL, NULL, PJ_NO_PROFILER, 0, NULL }

/*
 * An engine. `options` may be null for the defaults. If `message` is not null, it gets at most `message_bytes` bytes of
 * what went wrong, the ending 0 among them.
 */
pj_status pj_engine_new(const pj_options *options, pj_engine **engine, char *message, size_t message_bytes);

/*
 * Frees an engine; null is allowed. Shaders that are held stay usable. Its threads have ended when this returns, unless it is
 * one of them that calls, from an event.
 */
void pj_engine_free(pj_engine *engine);

/* Returns when all code is there that was asked for so far; at once without threads, and on one of them. */
pj_status pj_engine_wait(const pj_engine *engine);

/* Drops all cached shaders; those that are held stay usable. */
pj_status pj_engine_clear(const pj_engine *engine);

typedef struct pj_stats {
    size_t struct_size;
    uint64_t hits;      /* lookups that found their shader */
    uint64_t misses;    /* lookups that did not */
    uint64_t evictions; /* shaders dropped to keep within the bound */
    uint64_t entries;   /* shaders held */
    uint64_t bytes;     /* what they occupy */
} pj_stats;

pj_status pj_engine_stats(const pj_engine *engine, pj_stats *stats);

/* ---- Shaders ---- */

enum { /* the stage of an entry */
    PJ_VERTEX = 0,
    PJ_GEOMETRY = 1
};

/*
 * The shader that begins at word `entry` of the code memory: found in the engine's cache, or compiled, now or, with
 * pj_options.threads, meanwhile. The lookup takes microseconds; keep the shader until code, descriptors or entry change. Words that the entry does not reach don't matter.
 * Release it with pj_shader_release. Each call gives a pointer of its own, also to a shader that is known. Code for batches,
 * and for runs that meet something rare, is compiled when it is first wanted, by the run that wants it or by those threads.
 */
pj_status pj_shader_get(const pj_engine *engine, const uint32_t *code, size_t code_words, const uint32_t *opdescs,
                        size_t opdesc_words, uint32_t entry, uint32_t stage, pj_shader **shader, char *message,
                        size_t message_bytes);

/* One more user, and one less. Null is allowed. The last one frees it. */
void pj_shader_retain(const pj_shader *shader);
void pj_shader_release(const pj_shader *shader);

typedef struct pj_shader_info {
    size_t struct_size;
    uint32_t native;       /* 1 if it is native code, by now */
    uint32_t redone;       /* runs that met something rare and were made again by slower code */
    uint32_t groups;       /* groups of vertices that ran side by side */
    uint32_t given_up;     /* groups that did not, because vertices disagreed */
    uint64_t native_bytes; /* of machine code so far */
} pj_shader_info;

pj_status pj_shader_info_get(const pj_shader *shader, pj_shader_info *info);

enum { /* what pj_shader_text tells */
    PJ_TEXT_FALLBACK = 0,   /* why it is interpreted although native code was preferred */
    PJ_TEXT_ONE_BY_ONE = 1, /* why batches run one vertex after the other, once one has run */
    PJ_TEXT_DIVERGENCE = 2  /* what a crosscheck has found */
};

/*
 * Copies at most `bytes` bytes of a text, the ending 0 among them, and returns how long it is without that: 0 if there
 * is nothing to tell, or negative as a pj_status. `text` may be null if `bytes` is 0.
 */
int64_t pj_shader_text(const pj_shader *shader, uint32_t what, char *text, size_t bytes);

/* ---- Runs ---- */

/*
 * EMIT of a geometry program. The host keeps four vertex slots: `outputs`, o0 to o15 whatever the output mask says, valid
 * during the call, goes to slot `vertex`; if `primitive` is 1, slots 0, 1, 2 then make a triangle, the first two exchanged
 * if `winding` is 1 and the topology is 3. What the unit's fields hold meanwhile is unspecified; they and the uniforms must
 * not be changed.
 */
typedef void (*pj_emit_fn)(void *user, const pj_vec4 *outputs, uint32_t vertex, uint32_t primitive, uint32_t winding);

/*
 * Runs one vertex, or one geometry invocation, on `unit` and `uniforms`: a pj_unit and pj_uniforms, or what the engine's
 * layout says. `emit` may be null. A pj_exit, or negative as a pj_status; then nothing ran, but for PJ_INTERNAL. After a
 * geometry invocation hardware sets boolean uniform b15, which is the host's to do.
 */
int32_t pj_run(const pj_shader *shader, void *unit, const void *uniforms, pj_emit_fn emit, void *user);

typedef struct pj_batch {
    size_t struct_size;
    size_t count;               /* vertices */
    const pj_registers *inputs; /* one register file each, aligned to 4 bytes; read where bit n of input_mask is set for vn.
                                   C before C23 wants a cast from an array that is not const. */
    pj_registers *outputs;      /* one register file each; written where bit n of output_mask is set for on */
    uint16_t input_mask;        /* the other inputs are as the unit has them */
    uint16_t output_mask;
    uint32_t reserved;
} pj_batch;

/*
 * Runs vertices one after the other on `unit`, or, where that can't be told apart, several at once. All of them run; the
 * result is the first that is not PJ_END, if there is one. What a geometry program emits goes nowhere. Outputs must not
 * overlap inputs, nor the block of registers (all `unit_bytes` of it) or of uniforms, nor inputs the block of registers.
 */
int32_t pj_run_batch(const pj_shader *shader, void *unit, const void *uniforms, const pj_batch *batch);

#ifdef __cplusplus
}
#endif

#endif /* PICAJIT_H */
