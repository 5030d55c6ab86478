/*
 * A host whose callbacks call the library that called them, and that frees engines and clears
 * caches while shaders are in use. `callbacks interpreter` requests no native code.
 */
#define _POSIX_C_SOURCE 200809L
#include "common.h"

#include <signal.h>
#include <unistd.h>

/* ---- Callbacks ---- */

/* A host whose EMIT callback calls the library. */
struct nested {
    pj_engine *engine;
    const pj_shader *self;
    pj_unit *units[4]; /* one per depth, and one for batches */
    const pj_uniforms *uniforms;
    int depth, emitted, frees;
};

static void emit_and_call(void *user, const pj_vec4 *outputs, uint32_t vertex, uint32_t primitive, uint32_t winding)
{
    struct nested *host = (struct nested *)user;
    pj_registers *registers = (pj_registers *)block(8 * sizeof(pj_registers));
    pj_shader *other;
    pj_stats stats;
    pj_batch batch;
    float sum = 0;
    int n;
    for (n = 0; n < 16; n++)
        sum += outputs[n][0];
    CHECK(sum == sum && vertex < 4 && primitive < 2 && winding < 2);
    host->emitted++;
    pj_shader_retain(host->self);
    /* The same shader on another unit. It emits, too. */
    if (host->depth < 3) {
        pj_unit *unit = host->units[host->depth++];
        EXPECT(PJ_END, pj_run(host->self, unit, host->uniforms, emit_and_call, host));
        host->depth--;
    }
    if (host->engine) {
        /* Evict the running shader, request it again, and request another one. */
        EXPECT(PJ_OK, pj_engine_clear(host->engine));
        pj_shader_release(SHADER_OF(host->engine, geometry, PJ_GEOMETRY));
        other = SHADER_OF(host->engine, vertex, PJ_VERTEX);
        stats.struct_size = sizeof stats;
        EXPECT(PJ_OK, pj_engine_stats(host->engine, &stats));
        CHECK(stats.entries == 2);
        memset(&batch, 0, sizeof batch);
        batch.struct_size = sizeof batch;
        batch.count = 4;
        batch.inputs = registers[0][0];
        batch.outputs = registers[4][0];
        batch.input_mask = batch.output_mask = 3;
        EXPECT(PJ_END, pj_run_batch(other, host->units[3], host->uniforms, &batch));
        pj_shader_release(other);
        if (host->frees && host->emitted > 20) {
            pj_engine_free(host->engine);
            host->engine = NULL;
        }
    }
    pj_shader_release(host->self);
    free(registers);
}

static void count_only(void *user, const pj_vec4 *outputs, uint32_t vertex, uint32_t primitive, uint32_t winding)
{
    (void)outputs, (void)vertex, (void)primitive, (void)winding;
    ++*(int *)user;
}

static void nested_calls_in_emit(uint32_t crosscheck)
{
    pj_options o = options();
    struct nested host;
    pj_unit *unit = (pj_unit *)block(sizeof *unit), *alone = (pj_unit *)block(sizeof *alone);
    pj_uniforms *uniforms = some_uniforms();
    pj_shader *shader;
    int n, count = 0;
    memset(&host, 0, sizeof host);
    o.crosscheck = crosscheck;
    host.engine = engine_of(&o);
    host.uniforms = uniforms;
    host.frees = 1;
    for (n = 0; n < 4; n++)
        host.units[n] = (pj_unit *)block(sizeof(pj_unit));
    shader = SHADER_OF(host.engine, geometry, PJ_GEOMETRY);
    host.self = shader;
    unit->v[0][1] = alone->v[0][1] = 2.5f;
    for (n = 0; n < 2; n++) {
        EXPECT(PJ_END, pj_run(shader, unit, uniforms, emit_and_call, &host));
        EXPECT(PJ_END, pj_run(shader, alone, uniforms, count_only, &count));
    }
    /* Three EMITs per run, each with a nested run, three deep: 3 + 9 + 27 + 81. */
    CHECK(host.emitted == 2 * 120 && count == 6 && host.engine == NULL);
    CHECK(memcmp(unit, alone, sizeof *unit) == 0);
    pj_shader_release(shader);
    for (n = 0; n < 4; n++)
        free(host.units[n]);
    free(unit);
    free(alone);
    free(uniforms);
}

/* ---- Emit buffers ---- */

/* What a host received, in order. */
struct received {
    pj_emitted *vertices;
    size_t count;
};

static void receive(void *user, const pj_vec4 *outputs, uint32_t vertex, uint32_t primitive, uint32_t winding)
{
    struct received *all = (struct received *)user;
    pj_emitted *to = &all->vertices[all->count++];
    memcpy(to->outputs, outputs, sizeof to->outputs);
    to->vertex = vertex;
    to->primitive = primitive;
    to->winding = winding;
    to->reserved = 0;
}

static void receive_full(void *user, const pj_emitted *vertices, size_t count)
{
    struct received *all = (struct received *)user;
    memcpy(all->vertices + all->count, vertices, count * sizeof *vertices);
    all->count += count;
}

/* Buffers of every capacity, over several invocations: the vertices of pj_run, in its order. */
static void buffers_of_every_capacity(uint32_t crosscheck)
{
    enum { RUNS = 5, VERTICES = 3 * RUNS };
    pj_options o = options();
    pj_engine *engine;
    pj_shader *shader;
    pj_uniforms *uniforms = some_uniforms();
    struct received want, got;
    size_t capacity;
    int n;
    o.crosscheck = crosscheck;
    engine = engine_of(&o);
    shader = SHADER_OF(engine, geometry, PJ_GEOMETRY);
    want.vertices = (pj_emitted *)block(VERTICES * sizeof *want.vertices);
    for (capacity = 1; capacity <= VERTICES + 1; capacity++) {
        pj_unit *unit = (pj_unit *)block(sizeof *unit), *other = (pj_unit *)block(sizeof *other);
        pj_emit_buffer buffer;
        want.count = got.count = 0;
        got.vertices = (pj_emitted *)block(VERTICES * sizeof *got.vertices);
        memset(&buffer, 0, sizeof buffer);
        buffer.struct_size = sizeof buffer;
        buffer.vertices = (pj_emitted *)block(capacity * sizeof *buffer.vertices);
        memset(buffer.vertices, 0xFF, capacity * sizeof *buffer.vertices);
        buffer.capacity = capacity;
        buffer.full = receive_full;
        buffer.user = &got;
        /* Bytes of a host: only bits 0 and 1 of the slot count, and any nonzero flag is true. */
        unit->emit_vertex = other->emit_vertex = 0xFE;
        unit->emit_primitive = other->emit_primitive = 0x80;
        unit->o[1][9][2] = other->o[1][9][2] = 7.0f;
        for (n = 0; n < RUNS; n++) {
            unit->v[0][1] = other->v[0][1] = (float)n;
            EXPECT(PJ_END, pj_run(shader, unit, uniforms, receive, &want));
            EXPECT(PJ_END, pj_run_geometry(shader, other, uniforms, &buffer));
        }
        CHECK(got.count + buffer.count == VERTICES && buffer.count <= capacity);
        CHECK((capacity < VERTICES) == (got.count > 0));
        receive_full(&got, buffer.vertices, buffer.count);
        CHECK(want.count == VERTICES);
        CHECK(same_vertices(want.vertices, got.vertices, VERTICES));
        CHECK(memcmp(unit, other, sizeof *unit) == 0);
        free(buffer.vertices);
        free(got.vertices);
        free(unit);
        free(other);
    }
    free(want.vertices);
    free(uniforms);
    pj_shader_release(shader);
    pj_engine_free(engine);
}

/* Batches of many sizes, into buffers of several capacities: the vertices of pj_run, in its order. */
static void batches_into_buffers(uint32_t crosscheck)
{
    enum { MOST = 100 };
    static const size_t capacities[] = {1, 2, 7, 64, 3 * MOST};
    pj_options o = options();
    pj_engine *engine;
    pj_shader *shader;
    pj_uniforms *uniforms = some_uniforms();
    pj_vec4 *inputs = (pj_vec4 *)block(2 * MOST * sizeof *inputs);
    struct received want, got;
    size_t size, k, n;
    o.crosscheck = crosscheck;
    engine = engine_of(&o);
    shader = SHADER_OF(engine, geometry, PJ_GEOMETRY);
    want.vertices = (pj_emitted *)block(3 * MOST * sizeof *want.vertices);
    got.vertices = (pj_emitted *)block(3 * MOST * sizeof *got.vertices);
    for (n = 0; n < MOST; n++)
        inputs[2 * n][1] = (float)n;
    for (size = 1; size <= MOST; size += size < 20 ? 1 : 16)
        for (k = 0; k < COUNT(capacities); k++) {
            pj_unit *unit = (pj_unit *)block(sizeof *unit), *other = (pj_unit *)block(sizeof *other);
            pj_emit_buffer buffer;
            pj_batch batch;
            size_t ran = 0;
            want.count = got.count = 0;
            memset(&buffer, 0, sizeof buffer);
            buffer.struct_size = sizeof buffer;
            buffer.vertices = (pj_emitted *)block(capacities[k] * sizeof *buffer.vertices);
            memset(buffer.vertices, 0xFF, capacities[k] * sizeof *buffer.vertices);
            buffer.capacity = capacities[k];
            buffer.full = receive_full;
            buffer.user = &got;
            memset(&batch, 0, sizeof batch);
            batch.struct_size = sizeof batch;
            batch.count = size;
            batch.inputs = inputs[0];
            batch.input_mask = 1;
            batch.input_stride = 2;
            batch.ran = &ran;
            unit->emit_vertex = other->emit_vertex = 0xFE;
            /* The program writes o0 only. */
            unit->o[1][9][2] = other->o[1][9][2] = 7.0f;
            unit->o[0][3][1] = other->o[0][3][1] = size % 2 ? 5.0f : 0.0f;
            for (n = 0; n < size; n++) {
                memcpy(unit->v[0], inputs[2 * n], sizeof unit->v[0]);
                EXPECT(PJ_END, pj_run(shader, unit, uniforms, receive, &want));
            }
            EXPECT(PJ_END, pj_run_geometry_batch(shader, other, uniforms, &batch, &buffer));
            CHECK(ran == size && buffer.count <= capacities[k]);
            CHECK(got.count + buffer.count == 3 * size);
            receive_full(&got, buffer.vertices, buffer.count);
            CHECK(same_vertices(want.vertices, got.vertices, 3 * size));
            CHECK(memcmp(unit, other, sizeof *unit) == 0);
            free(buffer.vertices);
            free(unit);
            free(other);
        }
    free(want.vertices);
    free(got.vertices);
    free(inputs);
    free(uniforms);
    pj_shader_release(shader);
    pj_engine_free(engine);
}

/* A host whose callback for full buffers calls the library, and writes what it must not. */
struct intruder {
    pj_engine *engine;
    const pj_shader *self;
    pj_unit *unit, *other;
    const pj_uniforms *uniforms;
    pj_emit_buffer *buffer;
    int calls, scribbles;
};

static void full_and_call(void *user, const pj_emitted *vertices, size_t count)
{
    struct intruder *host = (struct intruder *)user;
    pj_emitted *memory = (pj_emitted *)block(2 * sizeof *memory);
    pj_emit_buffer inner = *host->buffer;
    size_t n;
    host->calls++;
    for (n = 0; n < count; n++)
        CHECK(vertices[n].vertex < 4 && vertices[n].primitive < 2 && vertices[n].winding < 2);
    if (host->scribbles) {
        memset(host->unit, 0xFF, sizeof *host->unit);
        memset(host->buffer, 0xFF, sizeof *host->buffer);
        memset((void *)vertices, 0xFF, count * sizeof *vertices);
    }
    if (host->calls % 3 == 1) {
        inner.vertices = memory;
        inner.capacity = 2;
        inner.count = 0;
        inner.struct_size = sizeof inner;
        EXPECT(PJ_END, pj_run_geometry(host->self, host->other, host->uniforms, &inner));
        EXPECT(PJ_OK, pj_engine_clear(host->engine));
    }
    free(memory);
}

static void nested_calls_for_full_buffers(int scribbles)
{
    const pj_options o = options();
    struct intruder host;
    pj_emit_buffer buffer;
    pj_shader *shader;
    int n;
    memset(&host, 0, sizeof host);
    memset(&buffer, 0, sizeof buffer);
    host.engine = engine_of(&o);
    shader = SHADER_OF(host.engine, geometry, PJ_GEOMETRY);
    host.self = shader;
    host.unit = (pj_unit *)block(sizeof *host.unit);
    host.other = (pj_unit *)block(sizeof *host.other);
    host.uniforms = some_uniforms();
    host.buffer = &buffer;
    host.scribbles = scribbles;
    for (n = 0; n < 20; n++) {
        buffer.struct_size = sizeof buffer;
        buffer.output_mask = 0;
        buffer.vertices = (pj_emitted *)block(sizeof *buffer.vertices);
        buffer.capacity = 1;
        buffer.count = 0;
        buffer.full = full_and_call;
        buffer.user = &host;
        {
            pj_emitted *const memory = buffer.vertices;
            EXPECT(PJ_END, pj_run_geometry(shader, host.unit, host.uniforms, &buffer));
            CHECK(buffer.count == 1);
            free(memory);
        }
    }
    CHECK(host.calls >= 40);
    pj_shader_release(shader);
    pj_engine_free(host.engine);
    free(host.unit);
    free(host.other);
    free((void *)host.uniforms);
}

/* ---- Events ---- */

/* A host whose event callback calls the library. */
struct reported {
    pj_engine *engine;
    pj_shader *got;
    int events;
};

static void event_and_call(void *user, uint32_t kind, const char *text)
{
    struct reported *host = (struct reported *)user;
    pj_unit *unit = (pj_unit *)block(sizeof *unit);
    pj_uniforms *uniforms = some_uniforms();
    host->events++;
    CHECK(kind <= PJ_EVENT_PROFILER_FAILED && strlen(text) > 10);
    if (host->engine) {
        host->got = SHADER_OF(host->engine, geometry, PJ_GEOMETRY);
        EXPECT(PJ_END, pj_run(host->got, unit, uniforms, NULL, NULL));
        pj_shader_release(SHADER_OF(host->engine, flow, PJ_VERTEX));
        EXPECT(PJ_OK, pj_engine_clear(host->engine));
        pj_engine_free(host->engine);
    }
    free(unit);
    free(uniforms);
}

static void nested_calls_in_events(void)
{
    const pj_layout without_geometry = own_layout(0);
    pj_options o = options();
    struct reported host;
    pj_shader *shader;
    pj_unit *unit = (pj_unit *)block(sizeof *unit);
    pj_uniforms *uniforms = some_uniforms();
    memset(&host, 0, sizeof host);
    o.event = event_and_call;
    o.user = &host;
    /* An event before the engine exists: the profiler fails, or there is no native code. */
    o.profiler = PJ_JITDUMP;
    o.profile_directory = "/proc/picajit/is/no/directory";
    pj_engine_free(engine_of(&o));
    CHECK(host.events == 1);
    o.profiler = PJ_NO_PROFILER;
    o.profile_directory = NULL;
    /* A geometry program on this layout has no native code; its first run reports the event. */
    o.layout = &without_geometry;
    o.compile_after = 1;
    host.engine = engine_of(&o);
    shader = SHADER_OF(host.engine, geometry, PJ_GEOMETRY);
    EXPECT(PJ_END, pj_run(shader, unit, uniforms, NULL, NULL));
    if (backend == PJ_INTERPRETER) {
        CHECK(host.events == 1 && host.got == NULL);
        pj_engine_free(host.engine);
    } else {
        CHECK(host.events == 2 && host.got != NULL);
        EXPECT(PJ_END, pj_run(host.got, unit, uniforms, NULL, NULL));
        CHECK(pj_shader_text(host.got, PJ_TEXT_FALLBACK, NULL, 0) > 10);
        pj_shader_release(host.got);
    }
    EXPECT(PJ_END, pj_run(shader, unit, uniforms, NULL, NULL));
    pj_shader_release(shader);
    free(unit);
    free(uniforms);
}

/* Without an event callback events go to standard error, which may be a closed pipe. */
static void events_to_a_closed_pipe(void)
{
    const pj_layout without_geometry = own_layout(0);
    pj_options o = options();
    pj_engine *engine;
    pj_shader *shader = NULL;
    int ends[2], before = dup(2);
    pj_status status;
    if (before < 0 || pipe(ends) != 0 || signal(SIGPIPE, SIG_IGN) == SIG_ERR)
        abort();
    close(ends[0]);
    o.layout = &without_geometry;
    engine = engine_of(&o);
    dup2(ends[1], 2);
    status = pj_shader_get(engine, geometry_code, COUNT(geometry_code), geometry_opdescs, COUNT(geometry_opdescs), 0,
                           PJ_GEOMETRY, &shader);
    dup2(before, 2);
    EXPECT(PJ_OK, status);
    pj_shader_release(shader);
    pj_engine_free(engine);
    close(ends[1]);
    close(before);
}

/* ---- Lifetimes ---- */

static void shaders_outlive_engines(void)
{
    const pj_options o = options();
    pj_engine *engine = engine_of(&o);
    pj_shader *vertex = SHADER_OF(engine, vertex, PJ_VERTEX), *geometry = SHADER_OF(engine, geometry, PJ_GEOMETRY);
    pj_unit *unit = (pj_unit *)block(sizeof *unit);
    pj_uniforms *uniforms = some_uniforms();
    enum { VERTICES = 1500 };
    pj_registers *inputs = (pj_registers *)block(VERTICES * sizeof *inputs);
    pj_registers *outputs = (pj_registers *)block(VERTICES * sizeof *outputs);
    pj_batch batch;
    pj_shader_info info;
    int n, emitted = 0;
    pj_engine_free(engine);
    memset(&batch, 0, sizeof batch);
    batch.struct_size = sizeof batch;
    batch.count = VERTICES;
    batch.inputs = inputs[0][0];
    batch.outputs = outputs[0][0];
    batch.input_mask = batch.output_mask = 3;
    for (n = 0; n < 1000; n++)
        pj_shader_retain(vertex);
    /* Batch code and code for infinities are compiled on demand, without the engine. */
    for (n = 0; n < 3; n++)
        EXPECT(PJ_END, pj_run_batch(vertex, unit, uniforms, &batch));
    for (n = 0; n < 4; n++)
        inputs[0][0][n] = inputs[5][1][n] = 1e38f * 1e38f;
    EXPECT(PJ_END, pj_run_batch(vertex, unit, uniforms, &batch));
    EXPECT(PJ_END, pj_run(geometry, unit, uniforms, count_only, &emitted));
    CHECK(emitted == 3);
    info.struct_size = sizeof info;
    EXPECT(PJ_OK, pj_shader_info_get(vertex, &info));
    CHECK(info.tier != PJ_TIER_NATIVE || (info.groups > 0 && info.deoptimised > 0));
    for (n = 0; n < 1000; n++)
        pj_shader_release(vertex);
    EXPECT(PJ_END, pj_run(vertex, unit, uniforms, NULL, NULL));
    pj_shader_release(vertex);
    pj_shader_release(geometry);
    free(unit);
    free(uniforms);
    free(inputs);
    free(outputs);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "interpreter") == 0)
        backend = PJ_INTERPRETER;
    nested_calls_in_emit(0);
    nested_calls_in_emit(1);
    buffers_of_every_capacity(0);
    buffers_of_every_capacity(1);
    batches_into_buffers(0);
    batches_into_buffers(1);
    nested_calls_for_full_buffers(0);
    nested_calls_for_full_buffers(1);
    nested_calls_in_events();
    events_to_a_closed_pipe();
    shaders_outlive_engines();
    if (failures == 0)
        puts("as the header says");
    return failures != 0;
}
