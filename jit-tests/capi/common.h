/* Shared by the test hosts: checks that count failures, programs, and blocks of exact size. */
#ifndef COMMON_H
#define COMMON_H

#include "picajit.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static int failures;

#define CHECK(condition)                                                         \
    do {                                                                         \
        if (!(condition)) {                                                      \
            fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #condition); \
            failures++;                                                          \
        }                                                                        \
    } while (0)

#define EXPECT(status, call)                                                                              \
    do {                                                                                                  \
        const int64_t got_ = (call), want_ = (status);                                                    \
        if (got_ != want_) {                                                                              \
            fprintf(stderr, "%s:%d: %d instead of %s: %s\n", __FILE__, __LINE__, (int)got_, #status, #call);    \
            failures++;                                                                                   \
        }                                                                                                 \
    } while (0)

/* dp4 o0.x, c0, v0; dp4 o0.y, c1, v0; dp4 o0.z, c2, v0; dp4 o0.w, c3, v0; mul o1, c4, v1; end */
static const uint32_t vertex_code[] = {0x08020000, 0x08021001, 0x08022002, 0x08023003, 0x20224084, 0x88000000};
static const uint32_t vertex_opdescs[] = {0x6C368, 0x6C364, 0x6C362, 0x6C361, 0x6C36F};

/* A random number of 24 bits. */
static inline uint32_t number(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

static inline void write_register(pj_gpu *gpu, uint16_t id, uint32_t value)
{
    static pj_registers vertex;
    EXPECT(PJ_EFFECT_NONE, pj_gpu_write(gpu, id, value, 0xF, &vertex));
}

/* Uploads that program: position and colour, from any attributes. */
static inline void write_program(pj_gpu *gpu)
{
    size_t n;
    for (n = 0; n < COUNT(vertex_code); n++)
        write_register(gpu, 0x2CC, vertex_code[n]);
    for (n = 0; n < COUNT(vertex_opdescs); n++)
        write_register(gpu, 0x2D6, vertex_opdescs[n]);
    write_register(gpu, 0x2BB, 0x76543210); /* permutation */
    write_register(gpu, 0x2BC, 0xFEDCBA98);
    write_register(gpu, 0x2BD, 3);          /* output mask */
    write_register(gpu, 0x04F, 2);
    write_register(gpu, 0x050, 0x03020100);
    write_register(gpu, 0x051, 0x0B0A0908);
}

/*
 * mova a0.x, v0.x; ifu b3: mul o0, c4[a0.x], v0, else: mov o0, v0; for i1: add r0, c0[aL], v0;
 * cmp v0.xy, lt, ge, v0.zz; end
 */
static const uint32_t flow_code[] = {0x48000000, 0x9CC01002, 0x200A4001, 0x84000000, 0x4C000001, 0x84000000,
                                     0xA4402000, 0x021A0001, 0x84000000, 0xBAA00000, 0x88000000};
static const uint32_t flow_opdescs[] = {0x2A8208, 0x6C36F};

/*
 * setemit 0; add o0, c0.xzzz, v0; emit; setemit 1; add o0, c0.zyzz, v0; emit; setemit 2, prim;
 * mov o0, v0; emit; end
 */
static const uint32_t geometry_code[] = {0xAC000000, 0x00020000, 0xA8000000, 0xAD000000, 0x00020001,
                                         0xA8000000, 0xAE800000, 0x4C000002, 0xA8000000, 0x88000000};
static const uint32_t geometry_opdescs[] = {0x6C54F, 0x6D34F, 0x0036F};

/* The first program with uniforms from c[n] on: many programs with different results. */
static inline void vertex_code_from(uint32_t n, uint32_t code[COUNT(vertex_code)])
{
    size_t k;
    memcpy(code, vertex_code, sizeof vertex_code);
    for (k = 0; k < 5; k++)
        code[k] += n << 12;
}

/* A zeroed block of exactly `bytes` bytes, aligned to a cache line: tools detect the first byte beyond. */
static inline void *block(size_t bytes)
{
    void *memory = NULL;
    if (posix_memalign(&memory, 64, bytes ? bytes : 1) != 0)
        abort();
    memset(memory, 0, bytes);
    return memory;
}

static inline pj_uniforms *some_uniforms(void)
{
    pj_uniforms *uniforms = (pj_uniforms *)block(sizeof *uniforms);
    int n;
    for (n = 0; n < 96; n++) {
        uniforms->c[n][0] = (float)n * 0.5f;
        uniforms->c[n][1] = 1.0f - (float)n;
        uniforms->c[n][2] = 1.0f / (float)(n + 1);
        uniforms->c[n][3] = 0.25f;
    }
    uniforms->i[1][0] = 5;
    uniforms->i[1][1] = 2;
    uniforms->i[1][2] = 3;
    uniforms->b = 1 << 3;
    return uniforms;
}

/* The backend of all engines. */
static uint32_t backend = PJ_NATIVE;

static inline pj_options options(void)
{
    pj_options o = PJ_OPTIONS_INIT;
    o.backend = backend;
    o.compile_after = 1; /* native code from the first run on */
    return o;
}

static inline pj_layout own_layout(uint32_t geometry)
{
    pj_layout l;
    memset(&l, 0, sizeof l);
    l.struct_size = sizeof l;
    l.unit_bytes = (uint32_t)sizeof(pj_unit);
    l.v = (uint32_t)offsetof(pj_unit, v);
    l.r = (uint32_t)offsetof(pj_unit, r);
    l.o = (uint32_t)offsetof(pj_unit, o);
    l.a0x = (uint32_t)offsetof(pj_unit, a0);
    l.a0y = l.a0x + 4;
    l.al = (uint32_t)offsetof(pj_unit, al);
    l.cmp_x = (uint32_t)offsetof(pj_unit, cmp);
    l.cmp_y = l.cmp_x + 1;
    l.geometry = geometry;
    l.bank_stride = (uint32_t)sizeof(pj_registers);
    l.bank = (uint32_t)offsetof(pj_unit, bank);
    l.emit_vertex = l.bank + 1;
    l.emit_primitive = l.bank + 2;
    l.emit_winding = l.bank + 3;
    l.uniforms_bytes = (uint32_t)sizeof(pj_uniforms);
    l.c = (uint32_t)offsetof(pj_uniforms, c);
    l.i = (uint32_t)offsetof(pj_uniforms, i);
    l.b = (uint32_t)offsetof(pj_uniforms, b);
    return l;
}

/* A random generator with a fixed seed. */
static uint32_t random_state;

static inline uint32_t random_number(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 17;
    random_state ^= random_state << 5;
    return random_state;
}

static inline pj_engine *engine_of(const pj_options *options)
{
    pj_engine *engine = NULL;
    if (pj_engine_new(options, &engine) != PJ_OK) {
        fprintf(stderr, "no engine: %s\n", pj_last_error());
        abort();
    }
    return engine;
}

static inline pj_shader *shader_of(const pj_engine *engine, const uint32_t *code, size_t words, const uint32_t *opdescs,
                            size_t opdesc_words, uint32_t stage)
{
    pj_shader *shader = NULL;
    if (pj_shader_get(engine, code, words, opdescs, opdesc_words, 0, stage, &shader) != PJ_OK) {
        fprintf(stderr, "no shader: %s\n", pj_last_error());
        abort();
    }
    return shader;
}

/* 32 vertices of v0 and v1 from the first half of 64, with o0 and o1 in the second. */
static inline pj_batch batch_of_32(pj_registers *registers)
{
    pj_batch batch;
    memset(&batch, 0, sizeof batch);
    batch.struct_size = sizeof batch;
    batch.count = 32;
    batch.inputs = registers[0][0];
    batch.outputs = registers[32][0];
    batch.input_mask = batch.output_mask = 3;
    return batch;
}

/* Numbers beyond the bounds of every field that has some. */
static const uint32_t high_numbers[] = {0x7FFFFFFFu, 0x80000000u, 0xFFFFFFFEu, 0xFFFFFFFFu};

/* Sets one number to invalid values, from `first` on. */
#define INVALID(status, structure, field, first, call)                      \
    do {                                                                  \
        size_t n_;                                                        \
        const uint32_t before_ = (structure).field;                       \
        (structure).field = (first);                                      \
        EXPECT(status, call);                                             \
        for (n_ = 0; n_ < COUNT(high_numbers); n_++) {                    \
            (structure).field = high_numbers[n_];                         \
            EXPECT(status, call);                                         \
        }                                                                 \
        (structure).field = before_;                                      \
    } while (0)

/* What a host runs with. */
struct running {
    pj_engine *engine;
    pj_shader *shader, *geometry;
    pj_unit *unit;
    pj_uniforms *uniforms;
};

/* Whether emitted vertices are equal, without their padding. */
static inline int same_vertices(const pj_emitted *a, const pj_emitted *b, size_t count)
{
    size_t n;
    for (n = 0; n < count; n++)
        if (memcmp(&a[n], &b[n], offsetof(pj_emitted, padding)) != 0)
            return 0;
    return 1;
}

/* A pj_full_fn that counts vertices. */
static inline void count_full(void *user, const pj_emitted *vertices, size_t count)
{
    CHECK(vertices != NULL && count > 0);
    *(size_t *)user += count;
}

/* A batch of three invocations. */
static inline pj_batch geometry_batch(const float *inputs)
{
    pj_batch batch;
    memset(&batch, 0, sizeof batch);
    batch.struct_size = sizeof batch;
    batch.count = 3;
    batch.inputs = inputs;
    batch.input_mask = 1;
    batch.input_stride = 1;
    return batch;
}

static inline int overlap(size_t a, size_t a_bytes, size_t b, size_t b_bytes)
{
    return a < b + b_bytes && b < a + a_bytes;
}

static inline int32_t try_emit_buffer(void *structure, void *context)
{
    const struct running *with = (const struct running *)context;
    return pj_run_geometry(with->geometry, with->unit, with->uniforms, (pj_emit_buffer *)structure);
}

#define SHADER_OF(engine, name, stage) shader_of(engine, name##_code, COUNT(name##_code), name##_opdescs, COUNT(name##_opdescs), stage)

/* An engine and a shader of each stage; `interpreter` as an argument requests no native code. */
static inline void begin(struct running *with, int argc, char **argv)
{
    pj_options o;
    if (argc > 1 && strcmp(argv[1], "interpreter") == 0)
        backend = PJ_INTERPRETER;
    o = options();
    with->unit = (pj_unit *)block(sizeof *with->unit);
    with->uniforms = some_uniforms();
    with->engine = engine_of(&o);
    with->shader = SHADER_OF(with->engine, vertex, PJ_VERTEX);
    with->geometry = SHADER_OF(with->engine, geometry, PJ_GEOMETRY);
}

/* Releases all, and returns the host's exit code. */
static inline int end(struct running *with)
{
    pj_shader_release(with->shader);
    pj_shader_release(with->geometry);
    pj_engine_free(with->engine);
    free(with->unit);
    free(with->uniforms);
    if (failures == 0)
        puts("as the header says");
    return failures != 0;
}

#endif /* COMMON_H */
