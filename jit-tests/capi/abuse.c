/*
 * A host that commits every misuse that the header says is detected. Each call must return the
 * documented status and leave its outputs unchanged. `abuse interpreter` requests no native code.
 *
 * Undetectable misuse is left out: wild pointers, released handles, one unit on two threads,
 * callbacks that don't return.
 */
#define _POSIX_C_SOURCE 200809L
#include "common.h"

/* ---- Null ---- */

static void null_pointers(void)
{
    const pj_options o = options();
    pj_engine *const unchanged = (pj_engine *)&failures, *engine = unchanged;
    pj_shader *const none = (pj_shader *)&failures, *shader = none;
    pj_stats stats;
    pj_shader_info info;
    pj_analysis analysis;
    pj_batch batch;
    pj_registers *registers = (pj_registers *)block(2 * sizeof(pj_registers));
    pj_unit *unit = (pj_unit *)block(sizeof *unit);
    pj_uniforms *uniforms = some_uniforms();
    char text[8];
    const size_t words = COUNT(vertex_code), descriptors = COUNT(vertex_opdescs);

    EXPECT(PJ_NULL, pj_engine_new(&o, NULL));
    EXPECT(PJ_NULL, pj_engine_new(NULL, NULL));
    EXPECT(PJ_NULL, pj_engine_clear(NULL));
    stats.struct_size = sizeof stats;
    EXPECT(PJ_NULL, pj_engine_stats(NULL, &stats));
    EXPECT(PJ_NULL, pj_shader_get(NULL, vertex_code, words, vertex_opdescs, descriptors, 0, PJ_VERTEX, &shader));
    CHECK(engine == unchanged && shader == none);
    EXPECT(PJ_OK, pj_engine_new(&o, &engine));
    EXPECT(PJ_NULL, pj_engine_stats(engine, NULL));
    EXPECT(PJ_NULL, pj_shader_get(engine, NULL, words, vertex_opdescs, descriptors, 0, PJ_VERTEX, &shader));
    EXPECT(PJ_NULL, pj_shader_get(engine, vertex_code, words, NULL, 1, 0, PJ_VERTEX, &shader));
    EXPECT(PJ_NULL, pj_shader_get(engine, vertex_code, words, vertex_opdescs, descriptors, 0, PJ_VERTEX, NULL));
    CHECK(shader == none);
    /* An empty program is valid. Its runs are past the end at once. */
    EXPECT(PJ_OK, pj_shader_get(engine, NULL, 0, NULL, 0, 0, PJ_VERTEX, &shader));
    EXPECT(PJ_PAST_END, pj_run(shader, unit, uniforms, NULL, NULL));
    pj_shader_release(shader);

    shader = SHADER_OF(engine, vertex, PJ_VERTEX);
    info.struct_size = sizeof info;
    EXPECT(PJ_NULL, pj_shader_info_get(NULL, &info));
    EXPECT(PJ_NULL, pj_shader_info_get(shader, NULL));
    memset(&analysis, 0, sizeof analysis);
    analysis.struct_size = sizeof analysis;
    EXPECT(PJ_NULL, pj_shader_analyse(NULL, &analysis));
    EXPECT(PJ_NULL, pj_shader_analyse(shader, NULL));
    EXPECT(PJ_NULL, pj_shader_text(NULL, PJ_TEXT_FALLBACK, text, sizeof text));
    CHECK(pj_shader_text(shader, PJ_TEXT_FALLBACK, NULL, 0) == pj_shader_text(shader, PJ_TEXT_FALLBACK, NULL, 1000));
    EXPECT(PJ_NULL, pj_run(NULL, unit, uniforms, NULL, NULL));
    EXPECT(PJ_NULL, pj_run(shader, NULL, uniforms, NULL, NULL));
    EXPECT(PJ_NULL, pj_run(shader, unit, NULL, NULL, NULL));
    memset(&batch, 0, sizeof batch);
    batch.struct_size = sizeof batch;
    EXPECT(PJ_END, pj_run_batch(shader, unit, uniforms, &batch));
    batch.count = 1;
    EXPECT(PJ_NULL, pj_run_batch(shader, unit, uniforms, &batch));
    batch.inputs = registers[0][0];
    EXPECT(PJ_NULL, pj_run_batch(shader, unit, uniforms, &batch));
    batch.inputs = NULL;
    batch.outputs = registers[1][0];
    EXPECT(PJ_NULL, pj_run_batch(shader, unit, uniforms, &batch));
    batch.inputs = registers[0][0];
    EXPECT(PJ_NULL, pj_run_batch(NULL, unit, uniforms, &batch));
    EXPECT(PJ_NULL, pj_run_batch(shader, NULL, uniforms, &batch));
    EXPECT(PJ_NULL, pj_run_batch(shader, unit, NULL, &batch));
    EXPECT(PJ_NULL, pj_run_batch(shader, unit, uniforms, NULL));
    EXPECT(PJ_END, pj_run_batch(shader, unit, uniforms, &batch));
    EXPECT(PJ_NULL, pj_shader_serves(NULL, NULL, 0, NULL, 0, 0));
    EXPECT(PJ_NULL, pj_shader_serves(shader, NULL, 1, NULL, 0, 0));
    EXPECT(0, pj_shader_serves(shader, NULL, (size_t)-1, NULL, (size_t)-1, 0xFFFFFFFFu));
    pj_shader_release(shader);
    pj_shader_retain(NULL);
    pj_shader_release(NULL);
    pj_engine_free(engine);
    pj_engine_free(NULL);
    free(registers);
    free(unit);
    free(uniforms);
}

/* ---- Direct calls ---- */

static int32_t call_directly(const pj_direct_call *call, pj_unit *unit, const pj_uniforms *uniforms)
{
    return call->function(call->context, unit, uniforms);
}

/* Runs `shader` and its pair from the same registers, which must end equal. */
static void same_as_run(const pj_shader *shader, const pj_direct_call *call, const pj_uniforms *uniforms)
{
    pj_unit *run = (pj_unit *)block(sizeof *run), *direct = (pj_unit *)block(sizeof *direct);
    int n, k;
    for (n = 0; n < 16; n++)
        for (k = 0; k < 4; k++)
            run->v[n][k] = (float)(n + k) - 1.5f;
    memcpy(direct, run, sizeof *run);
    for (n = 0; n < 3; n++) {
        EXPECT(pj_run(shader, run, uniforms, NULL, NULL), call_directly(call, direct, uniforms));
        CHECK(memcmp(run, direct, sizeof *run) == 0);
    }
    free(run);
    free(direct);
}

static void direct_calls(void)
{
    static const uint32_t crosschecks[] = {0, 1}, threads[] = {0, 1};
    pj_uniforms *uniforms = some_uniforms();
    size_t n, k;
    for (n = 0; n < COUNT(crosschecks); n++)
        for (k = 0; k < COUNT(threads); k++) {
            pj_options o = options();
            pj_engine *engine;
            pj_shader *shaders[3];
            pj_direct_call calls[3], again, before;
            unsigned char *wrong = (unsigned char *)block(sizeof(pj_direct_call) + 8);
            size_t s, at;
            o.crosscheck = crosschecks[n];
            o.threads = threads[k];
            engine = engine_of(&o);
            shaders[0] = SHADER_OF(engine, vertex, PJ_VERTEX);
            shaders[1] = SHADER_OF(engine, flow, PJ_VERTEX);
            shaders[2] = SHADER_OF(engine, geometry, PJ_GEOMETRY);
            memset(&before, 0x55, sizeof before);
            again = before;
            EXPECT(PJ_NULL, pj_shader_direct_call(NULL, &again));
            EXPECT(PJ_NULL, pj_shader_direct_call(shaders[0], NULL));
            EXPECT(PJ_NULL, pj_shader_direct_call(NULL, NULL));
            CHECK(memcmp(&again, &before, sizeof again) == 0);
            for (at = 1; at < sizeof(void *); at++)
                EXPECT(PJ_MISALIGNED, pj_shader_direct_call(shaders[0], (pj_direct_call *)(void *)(wrong + at)));
            for (at = 0; at < sizeof(pj_direct_call) + 8; at++)
                CHECK(wrong[at] == 0);
            free(wrong);
            for (s = 0; s < COUNT(shaders); s++) {
                EXPECT(PJ_OK, pj_shader_direct_call(shaders[s], &calls[s]));
                same_as_run(shaders[s], &calls[s], uniforms);
            }
            EXPECT(PJ_OK, pj_engine_wait(engine));
            for (s = 0; s < COUNT(shaders); s++)
                same_as_run(shaders[s], &calls[s], uniforms);
            /* The same pair, however often it is taken, and after the code is published. */
            EXPECT(PJ_OK, pj_shader_direct_call(shaders[0], &again));
            CHECK(again.function == calls[0].function && again.context == calls[0].context);
            EXPECT(PJ_OK, pj_engine_clear(engine));
            for (s = 0; s < COUNT(shaders); s++)
                same_as_run(shaders[s], &calls[s], uniforms);
            pj_engine_free(engine);
            for (s = 0; s < COUNT(shaders); s++) {
                pj_shader_retain(shaders[s]);
                pj_shader_release(shaders[s]);
                same_as_run(shaders[s], &calls[s], uniforms);
                CHECK(pj_shader_text(shaders[s], PJ_TEXT_DIVERGENCE, NULL, 0) == 0);
                pj_shader_release(shaders[s]);
            }
        }
    free(uniforms);
}

/* ---- Sizes of structures ---- */

/*
 * Calls a function with a structure of every declared size, in exactly as much memory, at least the
 * size field. The structure has `bytes`.
 */
typedef int32_t (*try_fn)(void *structure, void *context);

static void sizes(const void *like, size_t bytes, try_fn call, void *context, int32_t good)
{
    static const size_t wrong[] = {4097, 65536, SIZE_MAX / 2 + 1, SIZE_MAX - 7, SIZE_MAX};
    size_t size, n;
    for (size = 0; size <= 4096; size += size < bytes + 9 ? 1 : size < 4087 ? 97 : 1) {
        const size_t room = size < sizeof(size_t) ? sizeof(size_t) : size;
        unsigned char *memory = (unsigned char *)block(room);
        memcpy(memory, like, room < bytes ? room : bytes);
        memcpy(memory, &size, sizeof size);
        EXPECT(size == bytes ? good : PJ_INVALID_ARGUMENT, call(memory, context));
        CHECK(size == bytes || strstr(pj_last_error(), ".struct_size is ") != NULL);
        /* The library writes neither the size nor what follows. */
        CHECK(memcmp(memory, &size, sizeof size) == 0);
        for (n = bytes; n < room; n++)
            CHECK(memory[n] == 0);
        free(memory);
    }
    for (n = 0; n < COUNT(wrong); n++) {
        size_t *memory = (size_t *)block(bytes);
        memcpy(memory, like, bytes);
        memory[0] = wrong[n];
        EXPECT(PJ_INVALID_ARGUMENT, call(memory, context));
        free(memory);
    }
    /* Misaligned structures. */
    {
        unsigned char *memory = (unsigned char *)block(bytes + 8);
        for (n = 1; n < sizeof(size_t); n++) {
            memcpy(memory + n, like, bytes);
            EXPECT(PJ_MISALIGNED, call(memory + n, context));
        }
        free(memory);
    }
}

static int32_t try_options(void *structure, void *context)
{
    pj_engine *engine = NULL;
    const pj_status status = pj_engine_new((const pj_options *)structure, &engine);
    (void)context;
    CHECK((status == PJ_OK) == (engine != NULL));
    pj_engine_free(engine);
    return status;
}

static int32_t try_layout(void *structure, void *context)
{
    pj_options o = options();
    o.layout = (const pj_layout *)structure;
    return try_options(&o, context);
}

static int32_t try_stats(void *structure, void *context)
{
    return pj_engine_stats(((struct running *)context)->engine, (pj_stats *)structure);
}

static int32_t try_info(void *structure, void *context)
{
    return pj_shader_info_get(((struct running *)context)->shader, (pj_shader_info *)structure);
}

static int32_t try_batch(void *structure, void *context)
{
    const struct running *with = (const struct running *)context;
    return pj_run_batch(with->shader, with->unit, with->uniforms, (const pj_batch *)structure);
}

static int32_t try_emitting_batch(void *structure, void *context)
{
    const struct running *with = (const struct running *)context;
    static pj_emitted vertices[3] __attribute__((aligned(64)));
    size_t passed = 0;
    pj_emit_buffer buffer;
    memset(&buffer, 0, sizeof buffer);
    buffer.struct_size = sizeof buffer;
    buffer.vertices = vertices;
    buffer.capacity = 3;
    buffer.full = count_full;
    buffer.user = &passed;
    return pj_run_geometry_batch(with->geometry, with->unit, with->uniforms, (const pj_batch *)structure, &buffer);
}

static void structure_sizes(struct running *with)
{
    pj_emitted *vertices = (pj_emitted *)block(3 * sizeof *vertices);
    pj_emit_buffer buffer;
    pj_options o = options();
    const pj_layout layout = own_layout(1);
    pj_registers *registers = (pj_registers *)block(2 * sizeof(pj_registers));
    pj_stats stats;
    pj_shader_info info;
    pj_batch batch;
    memset(&stats, 0, sizeof stats);
    memset(&info, 0, sizeof info);
    memset(&batch, 0, sizeof batch);
    o.layout = &layout;
    sizes(&o, sizeof o, try_options, NULL, PJ_OK);
    sizes(&layout, sizeof layout, try_layout, NULL, PJ_OK);
    sizes(&stats, sizeof stats, try_stats, with, PJ_OK);
    sizes(&info, sizeof info, try_info, with, PJ_OK);
    batch.count = 1;
    batch.inputs = registers[0][0];
    batch.outputs = registers[1][0];
    batch.input_mask = batch.output_mask = 0xFFFF;
    sizes(&batch, sizeof batch, try_batch, with, PJ_END);
    memset(&buffer, 0, sizeof buffer);
    buffer.vertices = vertices;
    buffer.capacity = 3;
    buffer.full = count_full;
    sizes(&buffer, sizeof buffer, try_emit_buffer, with, PJ_END);
    batch = geometry_batch(registers[0][0]);
    sizes(&batch, sizeof batch, try_emitting_batch, with, PJ_END);
    free(vertices);
    free(registers);
}

/* ---- Numbers ---- */

static void numbers_out_of_range(struct running *with)
{
    pj_options o = options();
    pj_layout layout = own_layout(1);
    const pj_memory no_memory = { sizeof no_memory, NULL, NULL, NULL }, half_memory = { 16, NULL, NULL, NULL };
    pj_shader *const none = (pj_shader *)&failures, *shader = none;
    uint32_t *code = (uint32_t *)block(4096 * sizeof *code);
    uint32_t *fields = &layout.unit_bytes;
    char text[300];
    size_t n, k;

    INVALID(PJ_INVALID_ARGUMENT, o, backend, 4, try_options(&o, NULL));
    INVALID(PJ_INVALID_ARGUMENT, o, precision, 3, try_options(&o, NULL));
    INVALID(PJ_INVALID_ARGUMENT, o, profiler, 3, try_options(&o, NULL));
    INVALID(PJ_OK, o, threads, 1000, try_options(&o, NULL));
    o.memory = &no_memory;
    EXPECT(PJ_NULL, try_options(&o, NULL));
    o.memory = &half_memory;
    EXPECT(PJ_INVALID_ARGUMENT, try_options(&o, NULL));
    o.memory = NULL;
    INVALID(PJ_OK, o, fuel, 0, try_options(&o, NULL));
    INVALID(PJ_OK, o, crosscheck, 1, try_options(&o, NULL));
    o.cache_bytes = SIZE_MAX;
    EXPECT(PJ_OK, try_options(&o, NULL));
    o.profiler = PJ_JITDUMP;
    EXPECT(PJ_NULL, try_options(&o, NULL));
    o.profile_directory = "\xFF\xFE is no UTF-8";
    EXPECT(PJ_INVALID_ARGUMENT, try_options(&o, NULL));

    INVALID(PJ_INVALID_ARGUMENT, layout, geometry, 2, try_layout(&layout, NULL));
    INVALID(PJ_INVALID_ARGUMENT, layout, bools, 2, try_layout(&layout, NULL));
    /* Any value in any field of a layout: valid, or an error. */
    for (n = 0; n < (sizeof layout - offsetof(pj_layout, unit_bytes)) / sizeof *fields; n++) {
        const uint32_t before = fields[n];
        static const uint32_t odd[] = {0,           1,           2,           3,           15,          16,
                                       17,          0xFFF,       0x1000,      0xFFFFFF,    0x1000000,   0x1000001,
                                       0x7FFFFFFFu, 0x80000000u, 0xFFFFFF00u, 0xFFFFFFF0u, 0xFFFFFFFCu, 0xFFFFFFFFu};
        for (k = 0; k < COUNT(odd); k++) {
            int32_t status;
            fields[n] = odd[k];
            status = try_layout(&layout, NULL);
            CHECK(status == PJ_OK || status == PJ_INVALID_LAYOUT || status == PJ_INVALID_ARGUMENT);
            CHECK(odd[k] < 0x1000002 || status != PJ_OK);
        }
        fields[n] = before;
    }
    EXPECT(PJ_OK, try_layout(&layout, NULL));

    for (n = 0; n < 4096; n++)
        code[n] = 0x84000000; /* nop */
    EXPECT(PJ_OK, pj_shader_get(with->engine, code, 4096, NULL, 0, 4095, PJ_VERTEX, &shader));
    EXPECT(PJ_PAST_END, pj_run(shader, with->unit, with->uniforms, NULL, NULL));
    pj_shader_release(shader);
    shader = none;
    EXPECT(PJ_PROGRAM_TOO_LONG, pj_shader_get(with->engine, code, 4097, NULL, 0, 0, PJ_VERTEX, &shader));
    EXPECT(PJ_PROGRAM_TOO_LONG, pj_shader_get(with->engine, code, SIZE_MAX, NULL, 0, 0, PJ_VERTEX, &shader));
    EXPECT(PJ_INVALID_ARGUMENT, pj_shader_get(with->engine, code, 1, NULL, 0, 0, 2, &shader));
    EXPECT(PJ_INVALID_ARGUMENT, pj_shader_get(with->engine, code, 1, NULL, 0, 0, 0xFFFFFFFFu, &shader));
    EXPECT(PJ_INVALID_ARGUMENT, pj_shader_get(with->engine, code, 1, NULL, 0, 65536, PJ_VERTEX, &shader));
    EXPECT(PJ_INVALID_ARGUMENT, pj_shader_get(with->engine, code, 1, NULL, 0, 0xFFFFFFFFu, PJ_VERTEX, &shader));
    CHECK(shader == none);
    /* Only 128 descriptors are read, and `code` has as many words. */
    EXPECT(PJ_OK, pj_shader_get(with->engine, code, 1, code, SIZE_MAX, 0, PJ_VERTEX, &shader));
    pj_shader_release(shader);
    /* An entry after the last word. */
    for (n = 1; n < 65536; n += n < 3 || (n > 4090 && n < 4100) || n > 65530 ? 1 : 2003) {
        EXPECT(PJ_OK, pj_shader_get(with->engine, code, 1, NULL, 0, (uint32_t)n, PJ_GEOMETRY, &shader));
        EXPECT(PJ_PAST_END, pj_run(shader, with->unit, with->uniforms, NULL, NULL));
        pj_shader_release(shader);
    }
    for (n = 0; n < COUNT(high_numbers); n++)
        EXPECT(PJ_INVALID_ARGUMENT, pj_shader_text(with->shader, high_numbers[n], text, sizeof text));
    EXPECT(PJ_INVALID_ARGUMENT, pj_shader_text(with->shader, 3, text, sizeof text));
    free(code);
}

/* ---- Addresses ---- */

/* Units, uniforms, inputs and outputs at random addresses in one block. */
static void overlapping_arrays(struct running *with)
{
    enum { ARENA = 8192 };
    unsigned char *arena = (unsigned char *)block(ARENA), *before = (unsigned char *)block(ARENA);
    int ran = 0, rejected = 0;
    size_t n;
    random_state = 1;
    for (n = 1; n < 16; n++) {
        EXPECT(PJ_MISALIGNED, pj_run(with->shader, arena + n, with->uniforms, NULL, NULL));
        EXPECT(PJ_MISALIGNED, pj_run(with->shader, with->unit, arena + n, NULL, NULL));
    }
    for (n = 0; n < 4000; n++) {
        const size_t count = 1 + random_number() % 6, narrow = random_number() % 17, wide = random_number() % 17;
        const size_t bytes_in = count * (narrow ? narrow : 16) * sizeof(pj_vec4);
        const size_t bytes_out = count * (wide ? wide : 16) * sizeof(pj_vec4);
        const size_t unit = random_number() % (ARENA - sizeof(pj_unit)) & ~(size_t)15;
        /* With uniforms over registers results are unspecified, but writes stay in bounds. */
        const size_t uniforms = random_number() % (ARENA - sizeof(pj_uniforms)) & ~(size_t)15;
        const size_t unaligned = random_number() % 32 == 0 ? 1 + random_number() % 3 : 0;
        const size_t inputs = (random_number() % (ARENA - bytes_in - 3) & ~(size_t)3) + (random_number() % 2 ? unaligned : 0);
        const size_t outputs = (random_number() % (ARENA - bytes_out - 3) & ~(size_t)3) + (inputs % 4 ? 0 : unaligned);
        int32_t status, want = PJ_END;
        size_t k;
        pj_batch batch;
        memset(&batch, 0, sizeof batch);
        batch.struct_size = sizeof batch;
        batch.count = count;
        batch.inputs = (const float *)(const void *)(arena + inputs);
        batch.outputs = (float *)(void *)(arena + outputs);
        batch.input_mask = batch.output_mask = 0xFFFF;
        batch.input_stride = (uint16_t)narrow;
        batch.output_stride = (uint16_t)wide;
        if (unaligned)
            want = PJ_MISALIGNED;
        else if (overlap(inputs, bytes_in, outputs, bytes_out) || overlap(outputs, bytes_out, unit, sizeof(pj_unit)) ||
                 overlap(outputs, bytes_out, uniforms, sizeof(pj_uniforms)) ||
                 overlap(inputs, bytes_in, unit, sizeof(pj_unit)))
            want = PJ_OVERLAP;
        memcpy(before, arena, ARENA);
        status = pj_run_batch(with->shader, arena + unit, arena + uniforms, &batch);
        EXPECT(want, status);
        *(status < 0 ? &rejected : &ran) += 1;
        for (k = 0; k < ARENA; k++)
            if (arena[k] != before[k] && (status < 0 || !(overlap(k, 1, unit, sizeof(pj_unit)) || overlap(k, 1, outputs, bytes_out)))) {
                fprintf(stderr, "byte %u changed in round %u\n", (unsigned)k, (unsigned)n);
                failures++;
                break;
            }
    }
    CHECK(ran > 100 && rejected > 100);
    /* Counts whose sizes exceed the address space, or overflow. */
    {
        const size_t counts[] = {SIZE_MAX, SIZE_MAX / 2, SIZE_MAX / sizeof(pj_registers), SIZE_MAX / sizeof(pj_registers) + 1};
        for (n = 0; n < COUNT(counts); n++) {
            pj_batch batch;
            memset(&batch, 0, sizeof batch);
            batch.struct_size = sizeof batch;
            batch.count = counts[n];
            batch.inputs = (const float *)(const void *)arena;
            batch.outputs = (float *)(void *)(arena + 4096);
            EXPECT(PJ_INVALID_ARGUMENT, pj_run_batch(with->shader, with->unit, with->uniforms, &batch));
        }
    }
    free(arena);
    free(before);
}

int main(int argc, char **argv)
{
    struct running with;
    begin(&with, argc, argv);
    null_pointers();
    direct_calls();
    structure_sizes(&with);
    numbers_out_of_range(&with);
    overlapping_arrays(&with);
    return end(&with);
}
