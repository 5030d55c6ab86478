/*
 * Each field of each structure that a host fills in: zero means what the header says, and a wrong value
 * is refused with a text that names the field. One line for each field says which; a test compares them
 * with the fields of the library. `each_field interpreter` requests no native code.
 */
#define _POSIX_C_SOURCE 200809L
#include "common.h"

/* add r0, r0, v0; jmpu b0, the first word; mov o0, r0; end */
static const uint32_t endless_code[] = {0x02010000, 0xB4000000, 0x4C010000, 0x88000000};
static const uint32_t endless_opdescs[] = {0x6C36F};

/* What a call with a structure does: its status, and a digest of what it writes. */
struct outcome {
    int32_t status;
    uint64_t digest;
};

static uint64_t digest_of(uint64_t digest, const void *bytes, size_t count)
{
    const unsigned char *at = (const unsigned char *)bytes;
    while (count--)
        digest = (digest ^ *at++) * 0x100000001B3u;
    return digest;
}

/* A structure with valid contents, and the call that it is for. */
struct subject {
    const char *name;
    void *structure;
    size_t bytes;
    struct outcome (*call)(void *structure);
};

static struct outcome call(const struct subject *subject, size_t offset, size_t bytes, const void *value)
{
    unsigned char *copy = (unsigned char *)block(subject->bytes);
    struct outcome outcome;
    memcpy(copy, subject->structure, subject->bytes);
    memcpy(copy + offset, value, bytes);
    outcome = subject->call(copy);
    free(copy);
    return outcome;
}

/* What zero means. */
enum { NOTHING, EXPLICIT, REQUIRED, OFFSET };

static void field(const struct subject *subject, const char *field, size_t offset, size_t bytes, int zero, uint64_t means,
                  pj_status wrong_status, uint64_t wrong)
{
    static const uint64_t none = 0;
    const struct outcome with_zero = call(subject, offset, bytes, &none);
    char name[100];
    snprintf(name, sizeof name, "%s.%s", subject->name, field);
    printf("%s: ", name);
    if (zero == REQUIRED) {
        printf("required");
        CHECK(with_zero.status == PJ_NULL || with_zero.status == PJ_INVALID_ARGUMENT);
        CHECK(strstr(pj_last_error(), name) != NULL);
    } else if (zero == OFFSET) {
        printf("an offset");
        CHECK(with_zero.status == PJ_OK || with_zero.status == PJ_INVALID_LAYOUT);
    } else {
        const struct outcome same = call(subject, offset, bytes, zero == EXPLICIT ? &means : &none);
        if (zero == EXPLICIT)
            printf("0 is %llu", (unsigned long long)means);
        else
            printf("0 is none");
        if (with_zero.status < 0 || same.status != with_zero.status || same.digest != with_zero.digest) {
            fprintf(stderr, "%s: zero gives %d, its meaning %d: %s\n", name, (int)with_zero.status, (int)same.status, pj_last_error());
            failures++;
        }
    }
    if (wrong_status) {
        const struct outcome refused = call(subject, offset, bytes, &wrong);
        printf(", %llu is refused", (unsigned long long)wrong);
        if (refused.status != wrong_status || !strstr(pj_last_error(), name)) {
            fprintf(stderr, "%s of %llu: status %d, %s\n", name, (unsigned long long)wrong, (int)refused.status, pj_last_error());
            failures++;
        }
    }
    puts("");
}

#define FIELD(subject, type, name, zero, means, wrong_status, wrong) \
    field(subject, #name, offsetof(type, name), sizeof(((type *)0)->name), zero, means, wrong_status, wrong)
#define ADDRESS(pointer) ((uint64_t)(uintptr_t)(pointer))

/* ---- Engines ---- */

static int32_t tier_of(const pj_shader *shader)
{
    pj_shader_info info;
    memset(&info, 0, sizeof info);
    info.struct_size = sizeof info;
    EXPECT(PJ_OK, pj_shader_info_get(shader, &info));
    return (int32_t)info.tier;
}

/* Whether the calls with options run millions of words; else they run some. */
static int long_runs;
static int rounds = 8;

/* Fuel by the sums of an endless program; the tier around the 4,096th vertex. */
static struct outcome with_options(void *structure)
{
    struct outcome outcome = {0, 0};
    pj_engine *engine;
    pj_shader *shaders[3];
    pj_unit *unit = (pj_unit *)block(sizeof *unit);
    pj_uniforms *uniforms = some_uniforms();
    size_t n;
    outcome.status = pj_engine_new((const pj_options *)structure, &engine);
    if (outcome.status == PJ_OK && !long_runs) {
        pj_engine_free(engine);
    } else if (outcome.status == PJ_OK) {
        int32_t tier[2];
        uniforms->b = 1;
        unit->v[0][0] = 1.0f;
        shaders[0] = SHADER_OF(engine, endless, PJ_VERTEX);
        shaders[1] = SHADER_OF(engine, endless, PJ_GEOMETRY);
        shaders[2] = SHADER_OF(engine, vertex, PJ_VERTEX);
        for (n = 0; n < 2; n++) {
            EXPECT(PJ_OUT_OF_FUEL, pj_run(shaders[n], unit, uniforms, NULL, NULL));
            outcome.digest = digest_of(outcome.digest, unit, sizeof *unit);
        }
        for (n = 0; n < 4095; n++)
            EXPECT(PJ_END, pj_run(shaders[2], unit, uniforms, NULL, NULL));
        tier[0] = tier_of(shaders[2]);
        EXPECT(PJ_END, pj_run(shaders[2], unit, uniforms, NULL, NULL));
        tier[1] = tier_of(shaders[2]);
        if (backend == PJ_NATIVE)
            CHECK(tier[0] == PJ_TIER_0 && tier[1] == PJ_TIER_NATIVE);
        outcome.digest = digest_of(digest_of(outcome.digest, unit, sizeof *unit), tier, sizeof tier);
        for (n = 0; n < COUNT(shaders); n++)
            pj_shader_release(shaders[n]);
        pj_engine_free(engine);
    }
    free(unit);
    free(uniforms);
    return outcome;
}

static void options_fields(void)
{
    pj_options o = PJ_OPTIONS_INIT;
    const pj_layout layout = own_layout(1);
    struct subject s = {"pj_options", NULL, sizeof o, with_options};
    s.structure = &o;
    o.backend = backend;
    FIELD(&s, pj_options, struct_size, REQUIRED, 0, PJ_INVALID_ARGUMENT, sizeof o + 8);
    FIELD(&s, pj_options, backend, NOTHING, 0, PJ_INVALID_ARGUMENT, 4);
    FIELD(&s, pj_options, precision, NOTHING, 0, PJ_INVALID_ARGUMENT, 3);
    long_runs = rounds >= 8; /* not under valgrind */
    FIELD(&s, pj_options, fuel, EXPLICIT, 262144, 0, 0);
    FIELD(&s, pj_options, compile_after, EXPLICIT, 4096, 0, 0);
    FIELD(&s, pj_options, geometry_fuel, EXPLICIT, 4194304, 0, 0);
    long_runs = 0;
    FIELD(&s, pj_options, crosscheck, NOTHING, 0, 0, 0);
    FIELD(&s, pj_options, cache_bytes, EXPLICIT, (size_t)64 << 20, 0, 0);
    FIELD(&s, pj_options, layout, EXPLICIT, ADDRESS(&layout), PJ_MISALIGNED, 1);
    FIELD(&s, pj_options, event, NOTHING, 0, 0, 0);
    FIELD(&s, pj_options, user, NOTHING, 0, 0, 0);
    FIELD(&s, pj_options, profile_directory, NOTHING, 0, 0, 0);
    FIELD(&s, pj_options, profiler, NOTHING, 0, PJ_INVALID_ARGUMENT, 3);
    FIELD(&s, pj_options, threads, NOTHING, 0, 0, 0);
    FIELD(&s, pj_options, memory, NOTHING, 0, PJ_MISALIGNED, 1);
    o.profiler = PJ_JITDUMP;
    o.profile_directory = "\xFF\xFE is no UTF-8";
    EXPECT(PJ_INVALID_ARGUMENT, with_options(&o).status);
    CHECK(strstr(pj_last_error(), "pj_options.profile_directory is not UTF-8") != NULL);
}

static void *no_memory(void *user, const void *code, size_t bytes)
{
    (void)user, (void)code, (void)bytes;
    return NULL;
}

static void nothing_to_release(void *user, void *code, size_t bytes)
{
    (void)user, (void)code, (void)bytes;
}

static void ignore_event(void *user, uint32_t kind, const char *text)
{
    (void)user, (void)kind, (void)text;
}

static struct outcome with_memory(void *structure)
{
    struct outcome outcome = {0, 0};
    pj_options o = PJ_OPTIONS_INIT;
    pj_engine *engine = NULL;
    o.memory = (const pj_memory *)structure;
    o.event = ignore_event;
    outcome.status = pj_engine_new(&o, &engine);
    pj_engine_free(engine);
    return outcome;
}

static void memory_fields(void)
{
    pj_memory memory = {sizeof memory, no_memory, nothing_to_release, NULL};
    struct subject s = {"pj_memory", NULL, sizeof memory, with_memory};
    s.structure = &memory;
    FIELD(&s, pj_memory, struct_size, REQUIRED, 0, PJ_INVALID_ARGUMENT, 1);
    FIELD(&s, pj_memory, install, REQUIRED, 0, 0, 0);
    FIELD(&s, pj_memory, release, REQUIRED, 0, 0, 0);
    FIELD(&s, pj_memory, user, NOTHING, 0, 0, 0);
}

static struct outcome with_layout(void *structure)
{
    struct outcome outcome = {0, 0};
    pj_options o = PJ_OPTIONS_INIT;
    pj_engine *engine = NULL;
    o.layout = (const pj_layout *)structure;
    outcome.status = pj_engine_new(&o, &engine);
    pj_engine_free(engine);
    return outcome;
}

static void layout_fields(void)
{
    pj_layout layout = own_layout(1);
    struct subject s = {"pj_layout", NULL, sizeof layout, with_layout};
    s.structure = &layout;
    FIELD(&s, pj_layout, struct_size, REQUIRED, 0, PJ_INVALID_ARGUMENT, 1);
#define OFFSET_OF(name) FIELD(&s, pj_layout, name, OFFSET, 0, 0, 0)
    OFFSET_OF(unit_bytes);
    OFFSET_OF(v);
    OFFSET_OF(r);
    OFFSET_OF(o);
    OFFSET_OF(a0x);
    OFFSET_OF(a0y);
    OFFSET_OF(al);
    OFFSET_OF(cmp_x);
    OFFSET_OF(cmp_y);
    FIELD(&s, pj_layout, geometry, NOTHING, 0, PJ_INVALID_ARGUMENT, 2);
    OFFSET_OF(bank_stride);
    OFFSET_OF(bank);
    OFFSET_OF(emit_vertex);
    OFFSET_OF(emit_primitive);
    OFFSET_OF(emit_winding);
    OFFSET_OF(uniforms_bytes);
    OFFSET_OF(c);
    OFFSET_OF(i);
    FIELD(&s, pj_layout, bools, NOTHING, 0, PJ_INVALID_ARGUMENT, 2);
    OFFSET_OF(b);
#undef OFFSET_OF
}

/* ---- Runs ---- */

static pj_shader *vertex, *geometry;
static pj_uniforms *constants;
/* Two vertices of sixteen registers each, and their outputs. */
static float inputs[2][16][4], outputs[2][16][4];

static struct outcome with_batch(void *structure)
{
    struct outcome outcome = {0, 0};
    pj_unit *unit = (pj_unit *)block(sizeof *unit);
    memset(outputs, 0, sizeof outputs);
    outcome.status = pj_run_batch(vertex, unit, constants, (const pj_batch *)structure);
    outcome.digest = digest_of(digest_of(0, outputs, sizeof outputs), unit, sizeof *unit);
    free(unit);
    return outcome;
}

static void batch_fields(void)
{
    pj_batch batch;
    struct subject s = {"pj_batch", NULL, sizeof batch, with_batch};
    s.structure = &batch;
    memset(&batch, 0, sizeof batch);
    batch.struct_size = sizeof batch;
    batch.count = 2;
    batch.inputs = inputs[0][0];
    batch.outputs = outputs[0][0];
    batch.input_mask = batch.output_mask = 3;
    FIELD(&s, pj_batch, struct_size, REQUIRED, 0, PJ_INVALID_ARGUMENT, sizeof batch - 8);
    FIELD(&s, pj_batch, count, NOTHING, 0, PJ_INVALID_ARGUMENT, SIZE_MAX / 4);
    FIELD(&s, pj_batch, inputs, REQUIRED, 0, PJ_MISALIGNED, 1);
    FIELD(&s, pj_batch, outputs, REQUIRED, 0, PJ_OVERLAP, ADDRESS(&inputs[1][3]));
    FIELD(&s, pj_batch, input_mask, NOTHING, 0, 0, 0);
    FIELD(&s, pj_batch, output_mask, NOTHING, 0, 0, 0);
    FIELD(&s, pj_batch, input_stride, EXPLICIT, 16, PJ_INVALID_ARGUMENT, 17);
    FIELD(&s, pj_batch, output_stride, EXPLICIT, 16, PJ_INVALID_ARGUMENT, 17);
    FIELD(&s, pj_batch, preserve_unit, NOTHING, 0, PJ_INVALID_ARGUMENT, 2);
    FIELD(&s, pj_batch, reserved, NOTHING, 0, PJ_INVALID_ARGUMENT, 1);
    FIELD(&s, pj_batch, ran, NOTHING, 0, PJ_MISALIGNED, 1);
    CHECK(outputs[1][1][0] == 0.0f);
}

/* The structure within its own outputs: it is read before they are written. */
static void batch_in_its_outputs(void)
{
    size_t count, offset;
    for (count = 1; count <= 2; count++)
        for (offset = 0; offset + sizeof(pj_batch) <= count * sizeof(pj_registers); offset += 16) {
            pj_unit *unit = (pj_unit *)block(sizeof *unit);
            unsigned char *memory = (unsigned char *)block(count * sizeof(pj_registers));
            pj_batch *batch = (pj_batch *)(void *)(memory + offset);
            size_t *ran = (size_t *)block(sizeof *ran);
            batch->struct_size = sizeof *batch;
            batch->count = count;
            batch->inputs = inputs[0][0];
            batch->outputs = (float *)(void *)memory;
            batch->input_mask = 3;
            batch->output_mask = 0xFFFF;
            batch->ran = ran;
            EXPECT(PJ_END, pj_run_batch(vertex, unit, constants, batch));
            CHECK(*ran == count);
            CHECK(memcmp(memory + (count - 1) * sizeof(pj_registers), unit->o[0], 2 * sizeof(pj_vec4)) == 0);
            free(ran);
            free(memory);
            free(unit);
        }
}

static pj_emitted emitted[4] __attribute__((aligned(64)));
static uint64_t passed;

static void full(void *user, const pj_emitted *vertices, size_t count)
{
    size_t n;
    (void)user;
    for (n = 0; n < count; n++)
        passed = digest_of(passed, &vertices[n], offsetof(pj_emitted, padding));
}

static struct outcome with_emit_buffer(void *structure)
{
    struct outcome outcome = {0, 0};
    pj_unit *unit = (pj_unit *)block(sizeof *unit);
    passed = 0;
    memset(emitted, 0, sizeof emitted);
    outcome.status = pj_run_geometry(geometry, unit, constants, (pj_emit_buffer *)structure);
    full(NULL, emitted, COUNT(emitted));
    outcome.digest = passed;
    free(unit);
    return outcome;
}

static void emit_buffer_fields(void)
{
    pj_emit_buffer buffer;
    struct subject s = {"pj_emit_buffer", NULL, sizeof buffer, with_emit_buffer};
    s.structure = &buffer;
    memset(&buffer, 0, sizeof buffer);
    buffer.struct_size = sizeof buffer;
    buffer.vertices = emitted;
    buffer.capacity = 2;
    buffer.full = full;
    FIELD(&s, pj_emit_buffer, struct_size, REQUIRED, 0, PJ_INVALID_ARGUMENT, 8);
    FIELD(&s, pj_emit_buffer, vertices, REQUIRED, 0, PJ_MISALIGNED, 8);
    FIELD(&s, pj_emit_buffer, capacity, REQUIRED, 0, 0, 0);
    FIELD(&s, pj_emit_buffer, count, NOTHING, 0, PJ_INVALID_ARGUMENT, 3);
    FIELD(&s, pj_emit_buffer, full, REQUIRED, 0, 0, 0);
    FIELD(&s, pj_emit_buffer, user, NOTHING, 0, 0, 0);
    FIELD(&s, pj_emit_buffer, output_mask, EXPLICIT, 0xFFFF, PJ_INVALID_ARGUMENT, 0x10000);
}

/* ---- GPU ---- */

static pj_gpu *gpu;
static uint64_t drawn;

static void triangle(void *user, const float *a, const float *b, const float *c)
{
    (void)user;
    drawn = digest_of(digest_of(digest_of(drawn, a, sizeof(pj_semantics)), b, sizeof(pj_semantics)), c, sizeof(pj_semantics));
}

static void fetch(void *user, uint32_t index, pj_vec4 *attributes)
{
    (void)user;
    attributes[0][0] = (float)index;
    attributes[0][3] = 1.0f;
}

static struct outcome with_draw(void *structure)
{
    struct outcome outcome = {0, 0};
    drawn = 1;
    outcome.status = pj_gpu_draw_elements(gpu, (const pj_draw *)structure, NULL);
    outcome.digest = drawn;
    return outcome;
}

static void draw_fields(void)
{
    static const uint16_t indices[] = {5, 900, 5, 7, 7, 900};
    static const pj_registers vertices[2];
    pj_draw draw;
    struct subject s = {"pj_draw", NULL, sizeof draw, with_draw};
    s.structure = &draw;
    memset(&draw, 0, sizeof draw);
    draw.struct_size = sizeof draw;
    draw.count = COUNT(indices);
    draw.indices = indices;
    draw.index_bytes = 2;
    draw.fetch = fetch;
    draw.triangle = triangle;
    FIELD(&s, pj_draw, struct_size, REQUIRED, 0, PJ_INVALID_ARGUMENT, 8);
    FIELD(&s, pj_draw, count, NOTHING, 0, 0, 0);
    FIELD(&s, pj_draw, vertices, EXPLICIT, ADDRESS(vertices), 0, 0);
    FIELD(&s, pj_draw, fetch, REQUIRED, 0, 0, 0);
    FIELD(&s, pj_draw, indices, REQUIRED, 0, 0, 0);
    FIELD(&s, pj_draw, triangle, REQUIRED, 0, 0, 0);
    FIELD(&s, pj_draw, user, NOTHING, 0, 0, 0);
    FIELD(&s, pj_draw, index_bytes, EXPLICIT, 2, PJ_INVALID_ARGUMENT, 3);
    FIELD(&s, pj_draw, vertex_cache_entries, NOTHING, 0, PJ_INVALID_ARGUMENT, 256);
    CHECK(with_draw(&draw).digest != 1);
}

static void triangles(void *user, const float *vertices, size_t vertex_count, const uint32_t *numbers, size_t triangle_count)
{
    (void)user;
    (void)vertices;
    drawn = digest_of(digest_of(drawn, &vertex_count, sizeof vertex_count), numbers, triangle_count * 12);
}

static struct outcome with_guest_draw(void *structure)
{
    struct outcome outcome = {0, 0};
    drawn = 1;
    outcome.status = pj_gpu_draw(gpu, (const pj_guest_draw *)structure, NULL);
    outcome.digest = drawn;
    return outcome;
}

static void guest_draw_fields(void)
{
    static uint8_t every_number[24];
    static const uint8_t bytes[4];
    pj_region region = {bytes, 0, 0x18000000, 0};
    pj_guest_draw draw;
    struct subject s = {"pj_guest_draw", NULL, sizeof draw, with_guest_draw};
    size_t n;
    region.length = sizeof bytes;
    for (n = 0; n < 24; n++)
        every_number[n] = (uint8_t)n;
    s.structure = &draw;
    memset(&draw, 0, sizeof draw);
    draw.struct_size = sizeof draw;
    draw.regions = &region;
    draw.region_count = 1;
    draw.triangles = triangles;
    draw.effect = PJ_EFFECT_DRAW_ARRAYS;
    draw.stride = 24;
    write_register(gpu, 0x228, 6);
    FIELD(&s, pj_guest_draw, struct_size, REQUIRED, 0, PJ_INVALID_ARGUMENT, 8);
    FIELD(&s, pj_guest_draw, regions, REQUIRED, 0, PJ_MISALIGNED, 1);
    FIELD(&s, pj_guest_draw, region_count, NOTHING, 0, 0, 0);
    FIELD(&s, pj_guest_draw, memory, NOTHING, 0, 0, 0);
    FIELD(&s, pj_guest_draw, triangles, REQUIRED, 0, 0, 0);
    FIELD(&s, pj_guest_draw, offsets, EXPLICIT, ADDRESS(every_number), 0, 0);
    FIELD(&s, pj_guest_draw, user, NOTHING, 0, 0, 0);
    draw.offsets = every_number;
    FIELD(&s, pj_guest_draw, stride, REQUIRED, 0, PJ_INVALID_ARGUMENT, 256);
    draw.offsets = NULL;
    FIELD(&s, pj_guest_draw, limit, EXPLICIT, 0xFFFFFFFFu, 0, 0);
    FIELD(&s, pj_guest_draw, vertex_cache_entries, NOTHING, 0, PJ_INVALID_ARGUMENT, 256);
    FIELD(&s, pj_guest_draw, effect, REQUIRED, 0, PJ_INVALID_ARGUMENT, 3);
    CHECK(with_guest_draw(&draw).digest != 1);
    region.bytes = NULL;
    EXPECT(PJ_NULL, with_guest_draw(&draw).status);
    CHECK(strstr(pj_last_error(), "pj_region.bytes") != NULL);
}

static void draw_nothing(void *user, pj_gpu *of, pj_effect effect)
{
    (void)user, (void)of, (void)effect;
}

static struct outcome with_host(void *structure)
{
    struct outcome outcome = {0, 0};
    outcome.status = pj_gpu_execute(gpu, NULL, 0, (const pj_gpu_host *)structure);
    return outcome;
}

static void host_fields(void)
{
    pj_gpu_host host = {sizeof host, triangle, draw_nothing, NULL, NULL};
    struct subject s = {"pj_gpu_host", NULL, sizeof host, with_host};
    s.structure = &host;
    FIELD(&s, pj_gpu_host, struct_size, REQUIRED, 0, PJ_INVALID_ARGUMENT, 8);
    FIELD(&s, pj_gpu_host, triangle, REQUIRED, 0, 0, 0);
    FIELD(&s, pj_gpu_host, draw, REQUIRED, 0, 0, 0);
    FIELD(&s, pj_gpu_host, wrote, NOTHING, 0, 0, 0);
    FIELD(&s, pj_gpu_host, user, NOTHING, 0, 0, 0);
}

/* ---- Code for the host's GPU ---- */

static const pj_device unknown = {sizeof(pj_device), PJ_DEVICE_KNOWN, PJ_DEVICE_KNOWN, 0, 0};

static struct outcome made(const pj_interface *interface, const pj_device *device)
{
    struct outcome outcome = {0, 0};
    pj_gpu_code *code = NULL;
    outcome.status = pj_gpu_code_get(vertex, interface, device, &code);
    if (outcome.status == PJ_OK) {
        pj_gpu_code_info info;
        memset(&info, 0, sizeof info);
        info.struct_size = sizeof info;
        EXPECT(PJ_OK, pj_gpu_code_info_get(code, &info));
        outcome.digest = digest_of(1, info.spirv, 4 * info.spirv_words);
    }
    pj_gpu_code_free(code);
    return outcome;
}

static struct outcome with_interface(void *structure)
{
    return made((const pj_interface *)structure, &unknown);
}

static void interface_fields(void)
{
    static pj_attribute attributes[16];
    static const pj_varying colour = {0, 4, {4, 5, 6, 7}};
    pj_interface interface;
    struct subject s = {"pj_interface", NULL, sizeof interface, with_interface};
    uint32_t n;
    for (n = 0; n < 16; n++)
        attributes[n].location = n;
    s.structure = &interface;
    memset(&interface, 0, sizeof interface);
    interface.struct_size = sizeof interface;
    FIELD(&s, pj_interface, struct_size, REQUIRED, 0, PJ_INVALID_ARGUMENT, 8);
    FIELD(&s, pj_interface, attributes, EXPLICIT, ADDRESS(attributes), PJ_MISALIGNED, 1);
    FIELD(&s, pj_interface, outputs, NOTHING, 0, PJ_INVALID_ARGUMENT, 3);
    FIELD(&s, pj_interface, position, NOTHING, 0, PJ_INVALID_ARGUMENT, PJ_POSITION);
    FIELD(&s, pj_interface, varying_count, NOTHING, 0, PJ_INVALID_ARGUMENT, 1);
    interface.outputs = PJ_OUTPUT_MAPPED;
    interface.varying_count = 1;
    interface.varyings = &colour;
    interface.position = PJ_POSITION;
    FIELD(&s, pj_interface, varyings, REQUIRED, 0, PJ_MISALIGNED, 1);
    FIELD(&s, pj_interface, varying_count, NOTHING, 0, PJ_INVALID_ARGUMENT, 65);
    FIELD(&s, pj_interface, stage, NOTHING, 0, PJ_INVALID_ARGUMENT, 2);
    FIELD(&s, pj_interface, first_location, NOTHING, 0, 0, 0);
    FIELD(&s, pj_interface, position, NOTHING, 0, PJ_INVALID_ARGUMENT, PJ_POSITION_FLIP_Y);
    FIELD(&s, pj_interface, position, NOTHING, 0, PJ_INVALID_ARGUMENT, 33);
    FIELD(&s, pj_interface, position_components, NOTHING, 0, PJ_INVALID_ARGUMENT, 66);
    FIELD(&s, pj_interface, uniform_order, NOTHING, 0, PJ_INVALID_ARGUMENT, 6);
    FIELD(&s, pj_interface, packed_integers, NOTHING, 0, PJ_INVALID_ARGUMENT, 2);
    FIELD(&s, pj_interface, uniforms, NOTHING, 0, 0, 0);
    FIELD(&s, pj_interface, input_buffer, NOTHING, 0, 0, 0);
    FIELD(&s, pj_interface, output_buffer, NOTHING, 0, 0, 0);
    FIELD(&s, pj_interface, clip_block, NOTHING, 0, 0, 0);
    FIELD(&s, pj_interface, reserved, NOTHING, 0, PJ_INVALID_ARGUMENT, 1);
}

static struct outcome with_device(void *structure)
{
    return made(NULL, (const pj_device *)structure);
}

static void device_fields(void)
{
    pj_device device = unknown;
    struct subject s = {"pj_device", NULL, sizeof device, with_device};
    s.structure = &device;
    FIELD(&s, pj_device, struct_size, REQUIRED, 0, PJ_INVALID_ARGUMENT, 8);
    FIELD(&s, pj_device, subnormals, NOTHING, 0, PJ_INVALID_ARGUMENT, 3);
    FIELD(&s, pj_device, reserved, NOTHING, 0, PJ_INVALID_ARGUMENT, 1);
    /* A device that keeps no special values has no code, which is no default. */
    device.special_values = PJ_DEVICE_UNKNOWN;
    EXPECT(PJ_NO_GPU_CODE, with_device(&device).status);
    device.special_values = 3;
    EXPECT(PJ_INVALID_ARGUMENT, with_device(&device).status);
    puts("pj_device.special_values: 0 is unknown, 3 is refused");
    device = unknown;
    device.rounding = PJ_DEVICE_UNKNOWN;
    CHECK(with_device(&device).status == PJ_OK || with_device(&device).status == PJ_NO_GPU_CODE);
    device.rounding = 3;
    EXPECT(PJ_INVALID_ARGUMENT, with_device(&device).status);
    CHECK(strstr(pj_last_error(), "pj_device.rounding is 3") != NULL);
    puts("pj_device.rounding: 0 is unknown, 3 is refused");
}

int main(int argc, char **argv)
{
    pj_options o = PJ_OPTIONS_INIT;
    pj_engine *engine;
    size_t n;
    if (argc > 1 && strcmp(argv[1], "interpreter") == 0)
        backend = PJ_INTERPRETER;
    if (argc > 2 && backend == PJ_NATIVE)
        rounds = atoi(argv[2]);
    CHECK(strcmp(pj_last_error(), "") == 0);
    for (n = 0; n < 2; n++)
        inputs[n][0][0] = (float)n + 0.5f, inputs[n][1][3] = 2.0f;
    o.backend = backend;
    o.compile_after = 1;
    engine = engine_of(&o);
    vertex = SHADER_OF(engine, vertex, PJ_VERTEX);
    geometry = SHADER_OF(engine, geometry, PJ_GEOMETRY);
    constants = some_uniforms();
    EXPECT(PJ_OK, pj_gpu_new(engine, &gpu));
    write_program(gpu);
    options_fields();
    memory_fields();
    layout_fields();
    batch_fields();
    batch_in_its_outputs();
    emit_buffer_fields();
    draw_fields();
    guest_draw_fields();
    host_fields();
    interface_fields();
    device_fields();
    EXPECT(PJ_OK, pj_gpu_free(gpu));
    pj_shader_release(vertex);
    pj_shader_release(geometry);
    pj_engine_free(engine);
    free(constants);
    if (failures == 0)
        puts("as the header says");
    return failures != 0;
}
