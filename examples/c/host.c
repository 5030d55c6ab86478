/*
 * The smallest host: words of a vertex program and a geometry program in, vertices and triangles
 * out. Native code and the interpreter must give the same bits. Uses the structures of picajit.h.
 *
 *     cc -std=c99 -Iinclude examples/c/host.c -lpicajit -o host && ./host
 */
#include "picajit.h"

#include <stdio.h>
#include <string.h>

/* dp4 o0.x, c0, v0; dp4 o0.y, c1, v0; dp4 o0.z, c2, v0; dp4 o0.w, c3, v0; mul o1, c4, v1; end */
static const uint32_t vertex_code[] = {0x08020000, 0x08021001, 0x08022002, 0x08023003, 0x20224084, 0x88000000};
static const uint32_t vertex_opdescs[] = {0x6C368, 0x6C364, 0x6C362, 0x6C361, 0x6C36F};

/*
 * setemit 0; add o0, c0.xzzz, v0; emit; setemit 1; add o0, c0.zyzz, v0; emit; setemit 2, prim;
 * mov o0, v0; emit; end
 */
static const uint32_t geometry_code[] = {0xAC000000, 0x00020000, 0xA8000000, 0xAD000000, 0x00020001,
                                         0xA8000000, 0xAE800000, 0x4C000002, 0xA8000000, 0x88000000};
static const uint32_t geometry_opdescs[] = {0x6C54F, 0x6D34F, 0x0036F};

#define VERTICES 11
#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* The results of one engine. */
struct results {
    pj_registers transformed[VERTICES];
    float triangles[VERTICES][3][4];
    int triangle_count;
};

/* The host's vertex slots. */
struct slots {
    pj_registers vertices[4];
    struct results *results;
};

static void emit(void *user, const pj_vec4 *outputs, uint32_t vertex, uint32_t primitive, uint32_t winding)
{
    struct slots *slots = user;
    int n;
    (void)winding;
    memcpy(slots->vertices[vertex], outputs, sizeof(pj_registers));
    if (primitive && slots->results->triangle_count < VERTICES) {
        for (n = 0; n < 3; n++)
            memcpy(slots->results->triangles[slots->results->triangle_count][n], slots->vertices[n][0], sizeof(pj_vec4));
        slots->results->triangle_count++;
    }
}

/* A trace: the number of instructions, and the last one. */
struct trace {
    size_t steps;
    char last[40];
};

static int32_t step(void *user, const pj_step *step)
{
    struct trace *trace = user;
    trace->steps++;
    strncpy(trace->last, step->text, sizeof trace->last - 1);
    return 0;
}

static int fail(const char *what, int32_t status, const char *message)
{
    fprintf(stderr, "%s: status %d: %s\n", what, (int)status, message);
    return 1;
}

/* pj_unit and pj_uniforms need 16-byte alignment, which C99 can't declare. */
static union {
    long double alignment;
    unsigned char bytes[sizeof(pj_unit) + 16];
} unit_memory;
static union {
    long double alignment;
    unsigned char bytes[sizeof(pj_uniforms) + 16];
} uniforms_memory;

static void *aligned(unsigned char *bytes)
{
    return bytes + (16 - (uintptr_t)bytes % 16) % 16;
}

static int compute(uint32_t backend, struct results *results)
{
    static pj_registers inputs[VERTICES];
    pj_options options = PJ_OPTIONS_INIT;
    pj_unit *unit = aligned(unit_memory.bytes);
    pj_uniforms *uniforms = aligned(uniforms_memory.bytes);
    pj_engine *engine;
    pj_shader *vertex, *geometry;
    pj_shader_info info;
    pj_batch batch;
    struct slots slots;
    struct trace trace;
    int32_t status;
    int n;

    options.backend = backend;
    status = pj_engine_new(&options, &engine);
    if (status != PJ_OK)
        return fail("pj_engine_new", status, pj_last_error());
    status = pj_shader_get(engine, vertex_code, COUNT(vertex_code), vertex_opdescs, COUNT(vertex_opdescs), 0, PJ_VERTEX,
                           &vertex);
    if (status != PJ_OK)
        return fail("the vertex shader", status, pj_last_error());
    status = pj_shader_get(engine, geometry_code, COUNT(geometry_code), geometry_opdescs, COUNT(geometry_opdescs), 0,
                           PJ_GEOMETRY, &geometry);
    if (status != PJ_OK)
        return fail("the geometry shader", status, pj_last_error());

    /* Vertices: a batch, then the last one again by itself. */
    memset(unit, 0, sizeof *unit);
    memset(uniforms, 0, sizeof *uniforms);
    for (n = 0; n < 4; n++) {
        uniforms->c[n][n] = 2.0f;
        uniforms->c[n][3] = 0.25f * (float)(n + 1);
        uniforms->c[4][n] = 0.5f;
    }
    for (n = 0; n < VERTICES; n++) {
        const pj_vec4 position = {(float)n, 1.0f / (float)(n + 1), -1.5f, 1.0f};
        memcpy(inputs[n][0], position, sizeof position);
        memcpy(inputs[n][1], position, sizeof position);
    }
    memset(&batch, 0, sizeof batch);
    batch.struct_size = sizeof batch;
    batch.count = VERTICES;
    batch.inputs = inputs[0][0];
    batch.outputs = results->transformed[0][0];
    batch.input_mask = 3;
    batch.output_mask = 3;
    status = pj_run_batch(vertex, unit, uniforms, &batch);
    if (status != PJ_END)
        return fail("pj_run_batch", status, pj_status_text(status));
    status = pj_run(vertex, unit, uniforms, NULL, NULL);
    if (status != PJ_END)
        return fail("pj_run", status, pj_status_text(status));
    if (memcmp(unit->o[unit->bank & 1][0], results->transformed[VERTICES - 1][0], 2 * sizeof(pj_vec4)) != 0)
        return fail("a single vertex differs from the same one in a batch", 0, "");
    memset(&trace, 0, sizeof trace);
    memset(unit->o, 0, sizeof unit->o);
    status = pj_run_traced(vertex, unit, uniforms, NULL, step, &trace);
    if (status != PJ_END || trace.steps != COUNT(vertex_code) || strcmp(trace.last, "end") != 0)
        return fail("pj_run_traced", status, trace.last);
    if (memcmp(unit->o[unit->bank & 1][0], results->transformed[VERTICES - 1][0], 2 * sizeof(pj_vec4)) != 0)
        return fail("a traced vertex differs from the same one in a batch", 0, "");

    /* Each transformed point becomes a triangle, on a unit of its own. */
    memset(unit, 0, sizeof *unit);
    memset(&slots, 0, sizeof slots);
    slots.results = results;
    uniforms->c[0][0] = 0.5f;
    uniforms->c[0][1] = 0.75f;
    for (n = 0; n < VERTICES; n++) {
        memcpy(unit->v[0], results->transformed[n][0], sizeof(pj_vec4));
        status = pj_run(geometry, unit, uniforms, emit, &slots);
        if (status != PJ_END)
            return fail("pj_run", status, pj_status_text(status));
    }

    info.struct_size = sizeof info;
    status = pj_shader_info_get(vertex, &info);
    if (status != PJ_OK)
        return fail("pj_shader_info_get", status, pj_last_error());
    printf("%s: %d vertices, %d triangles, the last one's first corner at (%g, %g, %g, %g)\n",
           info.tier == PJ_TIER_NATIVE ? "native" : "interpreter", VERTICES, results->triangle_count,
           results->triangles[VERTICES - 1][0][0], results->triangles[VERTICES - 1][0][1],
           results->triangles[VERTICES - 1][0][2], results->triangles[VERTICES - 1][0][3]);
    if ((info.tier == PJ_TIER_NATIVE) != (backend == PJ_NATIVE_REQUIRED))
        return fail("native code", 0, "not as requested");
    pj_shader_release(vertex);
    pj_shader_release(geometry);
    pj_engine_free(engine);
    return 0;
}

int main(int argc, char **argv)
{
    static struct results native, interpreted;
    /* `host interpreter` skips native code, for tools that can't analyse generated code. */
    if (pj_version() != (PJ_VERSION_MAJOR << 16 | PJ_VERSION_MINOR << 8 | PJ_VERSION_PATCH))
        return fail("the library", (int32_t)pj_version(), "its version differs from the header's");
    if (argc > 1 && strcmp(argv[1], "interpreter") == 0)
        return compute(PJ_INTERPRETER, &interpreted);
    if (compute(PJ_NATIVE_REQUIRED, &native) || compute(PJ_INTERPRETER, &interpreted))
        return 1;
    if (native.triangle_count != VERTICES || memcmp(&native, &interpreted, sizeof native) != 0)
        return fail("native code and interpreter differ", 0, "");
    puts("the same bits");
    return 0;
}
