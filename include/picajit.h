/*
 * picajit: PICA200 vertex and geometry shaders as native code, with an interpreter that gives the same bits; of a NaN that is
 * any NaN, here and wherever bits are spoken of, so compare values, not memory.
 *
 * Made for C99, C11 and C++ from C++11 on. Structures that may grow begin with their size: zero them and set `struct_size`
 * to sizeof (PJ_OPTIONS_INIT does for options); fields named `reserved` stay 0. A size that no version has had, or one
 * above 4096, is none; of a structure larger than the library's, what it does not know is not looked at. A function that can
 * fail returns a pj_status; whatever it was to give is then untouched. Nothing here keeps global state; no call lets a panic
 * of the library out.
 *
 * Threads: an engine may be used by many at once. A shader is immutable, and many threads may run it at once, each on
 * registers of its own. Callbacks come on the thread that made the call, or, for events, on the one that found something.
 * They must return: neither longjmp nor a C++ exception may leave them. They may make any call, also on the engine and the
 * shader that they come from, but for two: EMIT may not run anything on the unit that is at work, and during
 * PJ_EVENT_PROFILER_FAILED no shader may be run. A shader is held until its run has returned.
 *
 * What is not noticed: pointers to memory that is not there or too small, handles that have been given back, an engine that
 * is freed while another thread uses it, one unit on two threads, uniforms on top of registers. Whatever else is wrong is a
 * status.
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
#define PJ_VERSION_MINOR 2
#define PJ_VERSION_PATCH 0

/* The version of the library, as major << 16 | minor << 8 | patch. */
uint32_t pj_version(void);

/* ---- Results ---- */

typedef int32_t pj_status;
enum {
    PJ_OK = 0,
    PJ_NULL = -1,       /* a pointer that must not be null is */
    PJ_ARGUMENT = -2,   /* a number that means nothing, in a layout's `geometry` or `bools` too, or a structure of a size that
                           is none */
    PJ_LAYOUT = -3,     /* a layout is wrong; the message names the field, "a0.x" for a0x, "bank" for bank and so on */
    PJ_PROGRAM = -4,    /* more than 4096 code words, which is the geometry unit's memory; of descriptors, 128 are looked at */
    PJ_NO_NATIVE = -5,  /* native code was required and there is none; the message says why */
    PJ_MISALIGNED = -6, /* registers or uniforms are not aligned to 16 bytes, or something else not as its type asks */
    PJ_OVERLAP = -7,    /* inputs or outputs of a batch lie where they must not, see pj_run_batch */
    PJ_INTERNAL = -8,   /* a bug in picajit; the engine, its shaders and its GPUs should not be used any more */
    PJ_BUSY = -9,       /* a pj_gpu is in use: by a call that this one is made in, or on another thread */
    PJ_IO = -10         /* a directory can't be read; the message says why */
};

/* What a status says, in words that are always there. A function with a `message` says more. */
const char *pj_status_text(pj_status status);

/* How a run ended: what pj_run, pj_run_batch and pj_run_traced return if they ran. Never negative. */
typedef int32_t pj_exit;
enum {
    PJ_END = 0,       /* END */
    PJ_FUEL = 1,      /* more backward transfers than pj_options.fuel */
    PJ_BREAK = 2,     /* BREAK outside of a loop; the hardware hangs */
    PJ_PAST_END = 3,  /* behind the last word of the program; unknown on hardware */
    PJ_STOPPED = 4    /* where the callback of pj_run_traced stopped it */
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
 * vectors in it, is a multiple of 16; a0 and aL are at multiples of 4, a mask of booleans at one of 2; fields don't overlap.
 * pj_engine_new checks this of the registers' fields among themselves and of the uniforms' among themselves, and names what is
 * wrong; in one structure, uniforms on top of registers are not noticed. Arrays of float, std::array among them, lie anywhere
 * unless they are told not to, as by alignas(16).
 */
typedef struct pj_layout {
    size_t struct_size;
    uint32_t unit_bytes;     /* size of the structure with the registers */
    uint32_t v, r, o;        /* float[16][4] each */
    uint32_t a0x, a0y, al;   /* int32_t each */
    uint32_t cmp_x, cmp_y;   /* a byte each; read as set if not 0, written as 0 or 1 */
    uint32_t geometry;       /* 1 if the following are there. If 0, it is a layout for vertex programs. Geometry programs are then
                                interpreted (with PJ_NATIVE_REQUIRED: refused), and what the layout has no place for is not
                                kept from run to run: each begins with bank 0, zeros in the other bank and SETEMIT forgotten,
                                and leaves in `o` the bank that is then current. Hardware keeps all of it. */
    uint32_t bank_stride;    /* from a register of the first output bank to that of the second, which is anywhere behind it */
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
    PJ_EVENT_FALLBACK = 0,  /* a shader is interpreted although native code was preferred, or would be, if PJ_NATIVE_REQUIRED had
                               not refused it; once for each reason */
    PJ_EVENT_DIVERGENCE = 1, /* a crosscheck found a bug in picajit; once for each shader */
    PJ_EVENT_PROFILER_FAILED = 2, /* the profiler that was asked for is not told, or no more; once for each engine */
    PJ_EVENT_STORE_FAILED = 3    /* programs are not written to store_directory, or no more; once for each engine */
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
    const pj_layout *layout; /* null: pj_unit and pj_uniforms. It is copied. */
    pj_event_fn event;       /* null: events go to standard error */
    void *user;              /* for `event`, which any thread may call; both are used until the engine is freed, all of its
                                shaders are released and all of its GPUs are freed */
    const char *profile_directory; /* where PJ_JITDUMP writes; UTF-8, copied */
    uint32_t profiler;
    uint32_t threads;        /* that compile in the background, so that nobody who runs shaders waits for code: they are
                                interpreted until it is there, and nothing else can be told apart. 1 is enough for any game; more
                                than 64 are 64. 0: whoever first wants code makes it. With PJ_NATIVE_REQUIRED pj_shader_get makes a
                                shader's own code where it is called, and only what runs want and pj_engine_preload has found
                                is made there. */
    const pj_memory *memory; /* null: pages that picajit maps. It is copied. */
    const char *store_directory; /* where programs are written that were asked for and not known, for pj_engine_preload: a small
                                file for each, until this engine knows of 4096. Made if it is not there. UTF-8, copied, not
                                empty. Machine code is never written. A directory for each game. Null: nothing is written */
} pj_options;

#define PJ_OPTIONS_INIT \
    { sizeof(pj_options), PJ_NATIVE, PJ_F32, 65536, 0, (size_t)64 << 20, NULL, NULL, NULL, NULL, PJ_NO_PROFILER, 0, NULL, NULL }

/*
 * An engine. `options` may be null for the defaults. If `message` is not null, it gets at most `message_bytes` bytes of
 * what went wrong, the ending 0 among them.
 */
pj_status pj_engine_new(const pj_options *options, pj_engine **engine, char *message, size_t message_bytes);

/*
 * Frees an engine; null is allowed. Shaders that are held stay usable, and so do GPUs. In a callback it may be the engine at
 * work. Its threads have ended when this returns, or when the last of its GPUs is freed, unless it is one of them that calls.
 */
void pj_engine_free(pj_engine *engine);

/*
 * Returns when all code is there that was asked for so far or that pj_engine_preload has found, and all programs are written that
 * go to pj_options.store_directory; at once without threads, and on one of them.
 */
pj_status pj_engine_wait(const pj_engine *engine);

typedef struct pj_preloaded {
    size_t struct_size;
    uint64_t programs; /* that the engine now knows */
    uint64_t rejected;  /* what is in the directory and is no program: broken, of another version, somebody else's */
    uint64_t skipped;  /* files that were left for want of room in the cache, because there are more than 4096, or because
                          it takes too long to see what their programs can execute, as real ones don't */
} pj_preloaded;

/*
 * Reads the programs that engines have written to pj_options.store_directory, and has their code made: now, or, with
 * pj_options.threads, meanwhile, which pj_engine_wait waits for. For where a game starts: pj_shader_get then finds them. It
 * takes no more of the cache than is free. Without store_directory, and where there is no such directory yet, there is nothing to
 * do. Whatever the files hold is safe. `preloaded` may be null; so may `message`, as in pj_engine_new.
 */
pj_status pj_engine_preload(const pj_engine *engine, pj_preloaded *preloaded, char *message, size_t message_bytes);

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
 * pj_options.threads, meanwhile. Words that were asked for before are found in a microsecond, others take some; keep the shader
 * until code, descriptors or entry change. Words
 * that the entry does not reach don't matter. Arrays of 0 words may be null; an entry behind the code, up to 65535, is a shader
 * whose runs are PJ_PAST_END at once.
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
    uint32_t deoptimised;       /* runs that met something rare and were made again by slower code */
    uint32_t groups;       /* groups of vertices that ran side by side */
    uint32_t bailouts;     /* groups that did not, because vertices disagreed */
    uint64_t native_bytes; /* of machine code so far */
} pj_shader_info;

pj_status pj_shader_info_get(const pj_shader *shader, pj_shader_info *info);

enum { /* what pj_shader_text tells */
    PJ_TEXT_FALLBACK = 0,   /* why it is interpreted although native code was preferred */
    PJ_TEXT_SEQUENTIAL = 1, /* why batches run one vertex after the other, once one has run */
    PJ_TEXT_DIVERGENCE = 2  /* what a crosscheck has found */
};

/*
 * Copies at most `bytes` bytes of a text, the ending 0 among them, and returns how long it is without that: 0 if there
 * is nothing to tell, or negative as a pj_status. `text` may be null.
 */
int64_t pj_shader_text(const pj_shader *shader, uint32_t what, char *text, size_t bytes);

/* ---- Runs ---- */

/*
 * EMIT of a geometry program. The host keeps four vertex slots: `outputs`, o0 to o15 whatever the output mask says, valid
 * during the call, aligned to 4 bytes, goes to slot `vertex`; if `primitive` is 1, slots 0, 1, 2 then make a triangle, the first two exchanged
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

/*
 * A vertex has `stride` registers of four floats, the next one's follow: register n of vertex k is at float
 * 4 * (k * stride + n). Hosts whose shaders use the first few registers only, as most do, save the CPU's caches work with
 * strides as small as that.
 */
enum { /* pj_batch.vertex_layout */
    PJ_AOS = 0, /* a vertex's registers are contiguous */
    PJ_SOA = 1  /* blocks of four vertices: a component of four vertices is contiguous */
};

typedef struct pj_batch {
    size_t struct_size;
    size_t count;           /* vertices; if 0, both arrays may be null */
    const float *inputs;    /* aligned to 4 bytes; read where bit n of input_mask is set for vn */
    float *outputs;         /* the same; written where bit n of output_mask is set for on */
    uint16_t input_mask;    /* the other inputs, and those not below the stride, are as the unit has them */
    uint16_t output_mask;   /* outputs that are not below the stride go nowhere */
    uint16_t input_stride;  /* in registers: 1 to 16, or 0, which means 16 */
    uint16_t output_stride; /* the same */
    uint32_t preserve_unit; /* 0: the unit is then as the last vertex leaves it. 1: as before, as if the batch had run on a copy.
                               For hosts that begin each draw with the same unit; from four vertices on it is less work if they
                               run side by side, and if not (PJ_TEXT_SEQUENTIAL) it costs that copy. A structure that ends
                               before this field means 0. */
    uint32_t vertex_layout; /* PJ_SOA: registers lie by components, in blocks of four vertices: a block takes the place of its vertices
                               and is 4 * stride vectors, of which number 4 * n + c has component c of register n of the four.
                               `count` is then a multiple of four; to get there, fill up with copies of the last vertex, which run
                               like all others. It saves turning registers round. 0, and where the structure ends before
                               this field: as above. */
} pj_batch;

/*
 * Runs vertices one after the other on `unit`, or, where that can't be told apart, several at once. All of them run; the
 * result is the first that is not PJ_END, if there is one. What a geometry program emits goes nowhere. Outputs must not
 * overlap inputs, nor the block of registers (all `unit_bytes` of it, which may end behind the last register, so that arrays of
 * the host's may follow in the same object) or of uniforms, nor inputs the block of registers.
 */
int32_t pj_run_batch(const pj_shader *shader, void *unit, const void *uniforms, const pj_batch *batch);

/* ---- Traces ---- */

enum { /* bits of pj_step.wrote */
    PJ_WROTE_OUTPUT = 1,    /* o[index], in the bank that is current: its new value is `value` */
    PJ_WROTE_TEMPORARY = 2, /* r[index]: the same */
    PJ_WROTE_ADDRESS = 4,   /* a0 */
    PJ_WROTE_LOOP = 8,      /* aL: by LOOP, or behind the last word of its body */
    PJ_WROTE_FLAGS = 16,    /* cmp */
    PJ_WROTE_VERTEX = 32,   /* EMIT of a geometry program: a vertex; the bank is the other one now */
    PJ_WROTE_SETEMIT = 64   /* emit_vertex, emit_primitive, emit_winding */
};

/* An instruction that has been executed, and what is now where it may have written. */
typedef struct pj_step {
    size_t struct_size; /* set by the library: the fields that are there */
    const char *text;   /* the instruction as the disassembler writes it; UTF-8, valid during the call */
    uint32_t pc;        /* its address, in words */
    int32_t next;       /* that of the next one, which may be behind the last word; -1 if the run ends with this one */
    uint32_t wrote;     /* PJ_WROTE_... */
    uint32_t index;     /* of o or r */
    uint32_t mask;      /* components of o, r or a0 that were written: bit 0 is x */
    pj_vec4 value;      /* all of o or r */
    int32_t a0[2];
    int32_t al;
    uint8_t cmp[2];     /* 0 or 1 */
    uint8_t bank;       /* 0 or 1 */
    uint8_t emit_vertex, emit_primitive, emit_winding;
    uint8_t reserved[2];
} pj_step;

/* Called behind each instruction. If it returns anything but 0, the run ends there, with PJ_STOPPED. */
typedef int32_t (*pj_step_fn)(void *user, const pj_step *step);

/*
 * pj_run, with the same bits in registers and exit, on the interpreter whatever the shader is, and with `step`, which must
 * not be null, called for each instruction; `user` is for `step` and for `emit`, which may be null. The unit is written when
 * the run is over, also if it was stopped: then it has what has been executed. Costs a microsecond or so for each
 * instruction, most of it its text, besides what the program costs to decode: nothing for every vertex of a game.
 */
int32_t pj_run_traced(const pj_shader *shader, void *unit, const void *uniforms, pj_emit_fn emit, pj_step_fn step,
                      void *user);

/* ---- GPU ---- */

/*
 * All of the PICA200 that has to do with shaders: register writes and fetched vertices go in, triangles of what the
 * rasteriser takes come out. For hosts that have nothing of the kind; those that have need only the sections above.
 * docs/gpu.md says what registers mean here, what is known of the hardware, and what is not. Registers have the numbers
 * of command lists.
 *
 * It runs on registers of its own, whatever the engine's layout. PJ_NATIVE_REQUIRED is looked at by pj_engine_new only: what
 * has no native code is interpreted and is an event.
 *
 * A GPU is for one thread at a time. While a call has it, calls that find it taken give PJ_BUSY and do nothing: those of
 * another thread, and those from callbacks. But in `draw` of a pj_gpu_host it may be used for everything but pj_gpu_free,
 * and in `wrote` functions that take a const pj_gpu may be called with it. Memory that a call is given must not be changed
 * before the call returns, also not by its callbacks.
 */
typedef struct pj_gpu pj_gpu;

/* A GPU as when the console is switched on. It keeps what it needs of the engine, which may be freed before. */
pj_status pj_gpu_new(const pj_engine *engine, pj_gpu **gpu);

/* Frees a GPU; null is allowed. PJ_BUSY in any of its callbacks. */
pj_status pj_gpu_free(pj_gpu *gpu);

/* What the rasteriser is given for a vertex: position x y z w, quaternion x y z w, colour r g b a, texture coordinates 0 u v,
   1 u v, 0 w, one that means nothing, view x y z, one that means nothing, texture coordinates 2 u v. */
typedef float pj_semantics[24];

/* One triangle, its vertices (a pj_semantics each, valid during the call) in the order that says which side is seen. Nothing
   is clipped, culled or divided. */
typedef void (*pj_triangle_fn)(void *user, const float *a, const float *b, const float *c);

/* What a register write asks of the host. Never negative. */
typedef int32_t pj_effect;
enum {
    PJ_EFFECT_NONE = 0,          /* nothing, unless the host itself has something to do with the register */
    PJ_EFFECT_DRAW_ARRAYS = 1,   /* vertices in their order: fetch them, then pj_gpu_draw_arrays */
    PJ_EFFECT_DRAW_ELEMENTS = 2, /* vertices in the order of indices: pj_gpu_draw_elements */
    PJ_EFFECT_VERTEX = 3         /* immediate mode has completed a vertex: pj_gpu_draw_immediate, before any other register
                                    is written than those of attribute words */
};

/*
 * Writes the bytes of register `id` that the low four bits of `mask` name: bit n for bits 8n+7 to 8n of `value`. Queues and
 * triggers act on every write. Ids that there are not do nothing. `vertex`, which must not be null, gets the sixteen
 * attributes of a vertex with PJ_EFFECT_VERTEX, and else stays as it is. A pj_effect, or negative as a pj_status.
 */
int32_t pj_gpu_write(pj_gpu *gpu, uint16_t id, uint32_t value, uint8_t mask, pj_registers *vertex);

/* The host of a command list. */
typedef struct pj_gpu_host {
    size_t struct_size;
    pj_triangle_fn triangle; /* triangles of immediate mode; must not be null */
    /* PJ_EFFECT_DRAW_ARRAYS or PJ_EFFECT_DRAW_ELEMENTS: to be drawn with `gpu` before it returns. Must not be null. */
    void (*draw)(void *user, pj_gpu *gpu, pj_effect effect);
    /* A register has been written, of whatever use it is; `gpu` knows about it. What the write sets off comes after. May be
       null. */
    void (*wrote)(void *user, const pj_gpu *gpu, uint16_t id, uint32_t value, uint8_t mask);
    void *user;
} pj_gpu_host;

/*
 * Executes a command list: writes its registers, and draws what they set off. Vertices of immediate mode are drawn together
 * as far as nothing else comes between. Ends with the list: jumps to other lists are the host's.
 */
pj_status pj_gpu_execute(pj_gpu *gpu, const uint32_t *list, size_t words, const pj_gpu_host *host);

/* What a read of a register gives. */
pj_status pj_gpu_read(const pj_gpu *gpu, uint16_t id, uint32_t *value);

/* Default attribute `n`, as a vertex has it whose attribute is not an array's; zeros from 15 on. */
pj_status pj_gpu_default_attribute(const pj_gpu *gpu, uint32_t n, pj_vec4 *value);

/* The attributes of vertex `index`, in the order of the input buffer, before permutation. All zero before the call. */
typedef void (*pj_fetch_fn)(void *user, uint32_t index, pj_vec4 *attributes);

enum { /* what a pj_lookup_fn says; to the second and third a place from 0 to 255 is added */
    PJ_LOOKUP_RUN = 0,     /* run the vertex and keep nothing; so is all that means nothing */
    PJ_LOOKUP_STORE = 256, /* run the vertex and keep its outputs in this place */
    PJ_LOOKUP_REUSE = 512  /* take the outputs that this draw has kept there; if there are none, run the vertex */
};

/* The vertex cache of the host: decides about the next index. Whatever it says is safe. */
typedef uint32_t (*pj_lookup_fn)(void *user, uint32_t index);

typedef struct pj_draw {
    size_t struct_size;
    size_t count;                 /* vertices, or indices */
    const pj_registers *vertices; /* their attributes, aligned to 4 bytes: for immediate mode, and for arrays unless there is `fetch` */
    pj_fetch_fn fetch;            /* gives attributes: for elements, and for arrays if `vertices` is null */
    const void *indices;          /* for elements, of index_bytes each, in the machine's byte order, aligned or not */
    pj_lookup_fn lookup;        /* for elements: which vertices are run; null: `cache` */
    pj_triangle_fn triangle;      /* must not be null */
    void *user;                   /* for all three */
    uint32_t index_bytes;         /* 1, 2 or 4 */
    uint32_t cache;               /* the last so many vertices are not run again, 0 to 255; Azahar has 64 */
} pj_draw;

/* What a draw has come to. */
typedef struct pj_report {
    size_t struct_size;
    uint64_t vertices;      /* that a vertex unit has run */
    uint64_t reused;        /* vertices that took the outputs of an earlier one */
    uint64_t geometry_runs; /* runs of the geometry unit */
    uint64_t dropped;       /* vertices that no geometry run can take */
    uint64_t triangles;     /* that `triangle` was given */
    pj_exit vertex_exit;    /* how runs of the vertex program ended: PJ_END, or the first other way */
    pj_exit geometry_exit;
} pj_report;

/*
 * Draws: vertices in their order; those that indices name; those of immediate mode. `report` may be null. `fetch` is not
 * called for vertices that the cache knows, nor for vertex counts that stand among the indices if the geometry unit takes
 * primitives of variable size. What an earlier draw has left incomplete in the geometry unit's input is forgotten, but in
 * immediate mode; what it has left in primitive assembly is not.
 */
pj_status pj_gpu_draw_arrays(pj_gpu *gpu, const pj_draw *draw, pj_report *report);
pj_status pj_gpu_draw_elements(pj_gpu *gpu, const pj_draw *draw, pj_report *report);
pj_status pj_gpu_draw_immediate(pj_gpu *gpu, const pj_draw *draw, pj_report *report);

/* What uploads have cost since the GPU was made. */
typedef struct pj_gpu_work {
    size_t struct_size;
    uint64_t comparisons; /* of all words with those of programs that are kept */
    uint64_t programs;    /* made of uploaded words */
    uint64_t lookups;     /* of shaders in the engine, which compiles them or finds them in its cache */
} pj_gpu_work;

pj_status pj_gpu_work_get(const pj_gpu *gpu, pj_gpu_work *work);

/* What one kind of unit holds, but for its code. */
typedef struct pj_gpu_unit {
    pj_registers v, r, o[2]; /* as in pj_unit */
    pj_registers slots[4];   /* of vertices that EMIT has sent */
    pj_vec4 c[96];
    uint32_t opdescs[128];
    int32_t a0[2], al;
    uint32_t float_words[3]; /* of a float uniform that is not complete, */
    uint8_t i[4][4];
    uint16_t b;
    uint16_t code_index, opdesc_index; /* what is written next */
    uint8_t float_index, float32;      /* the same of float uniforms; 1 if they come as f32 */
    uint8_t float_count;               /* and how many there are */
    uint8_t cmp[2], bank, emit_vertex, emit_primitive, emit_winding; /* as in pj_unit */
    uint8_t reserved;
} pj_gpu_unit;

/*
 * All that a GPU remembers, for savestates: plain data. Whatever its fields hold is safe. Some 30 KiB, and a
 * call needs as much of the stack for a copy or two.
 */
typedef struct pj_gpu_state {
    size_t struct_size;
    uint32_t registers[768]; /* as written */
    uint32_t vertex_code[512];
    uint32_t geometry_code[4096];
    pj_gpu_unit vertex, geometry;
    pj_registers fixed_defaults;          /* default attributes; the last has no register */
    pj_registers fixed_vertex;            /* attributes of a vertex of immediate mode that is not complete, */
    uint32_t fixed_words[3];              /* words of an attribute that is not, */
    uint8_t fixed_index;                  /* which is next, 15 in immediate mode, */
    uint8_t fixed_words_count;            /* how many words, */
    uint8_t fixed_count;                  /* and how many attributes */
    uint8_t assembly_count;               /* vertices that wait for a triangle, */
    pj_semantics assembly_vertices[2];    /* they themselves, */
    pj_registers fed_vectors;             /* input of the geometry unit that is not complete: attributes, */
    uint32_t fed_vertices, fed_expected;  /* vertices that have come and are to come, */
    uint8_t fed_count, fed_uniform;       /* how many attributes, and the uniform that is next */
    uint8_t assembly_oldest;              /* and which of them the next one of a strip takes the place of */
    uint8_t reserved[5];
} pj_gpu_state;

/*
 * Copies all that a GPU remembers, and makes it go on from there. Programs are made again when they are needed, unless they
 * are among those that it still has. Fields that a smaller structure has not are as when the console is switched on.
 */
pj_status pj_gpu_state_get(const pj_gpu *gpu, pj_gpu_state *state);
pj_status pj_gpu_state_set(pj_gpu *gpu, const pj_gpu_state *state);

#ifdef __cplusplus
}
#endif

#endif /* PICAJIT_H */
