/*
 * A host of the GPU's shader side: a recorded command list goes in, triangles come out. Native code
 * and the interpreter must give the same triangles. The list uploads its shaders itself. After the
 * first half of the list the state is saved, and another GPU continues from there.
 *
 *     cc -std=c99 -Iinclude examples/c/gpu.c -lpicajit -o gpu && ./gpu
 */
#include "picajit.h"

#include "gpu_list.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define VERTICES 7
#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* Guest memory: vertices of two attributes, and both index streams. */
#define START 0x18000000u
struct memory {
    pj_vec4 vertices[VERTICES][2];
    uint8_t strip[6], primitives[9];
};

/* The emulator's own parts: guest memory, and a page of text in place of a framebuffer. */
struct emulator {
    struct memory memory;
    uint32_t indices, index_count;
    unsigned writes;
    int failed;
    char text[16384];
    size_t length;
};

/* The index streams of the list: plain vertices, and primitives that begin with a vertex count. */
static const uint8_t strip[] = {0, 1, 2, 3, 2, 4};
static const uint8_t primitives[] = {3, 0, 1, 2, 4, 3, 4, 5, 6};

static void print(struct emulator *emulator, const char *format, ...)
{
    size_t room = sizeof emulator->text - emulator->length;
    va_list arguments;
    int length;
    va_start(arguments, format);
    length = vsnprintf(emulator->text + emulator->length, room, format, arguments);
    va_end(arguments);
    if (length < 0 || (size_t)length >= room)
        emulator->failed = 1;
    else
        emulator->length += (size_t)length;
}

/* The rasteriser's place. Prints bits, so that rounding hides no difference. */
static void print_triangle(struct emulator *emulator, const float *const corners[3])
{
    uint32_t bits[24];
    int vertex, n;
    for (vertex = 0; vertex < 3; vertex++) {
        memcpy(bits, corners[vertex], sizeof bits);
        print(emulator, vertex ? " |" : "  ");
        for (n = 0; n < 4; n++)
            print(emulator, " %08x", (unsigned)bits[n]);
        print(emulator, ",");
        for (n = 8; n < 12; n++)
            print(emulator, " %08x", (unsigned)bits[n]);
    }
    print(emulator, "\n");
}

/* Triangles of a draw. An emulator may upload the vertices to a graphics API as they are. */
static void triangles(void *user, const float *vertices, size_t vertex_count, const uint32_t *numbers, size_t count)
{
    size_t n;
    (void)vertex_count;
    for (n = 0; n < count; n++) {
        const float *const corners[3] = {vertices + 24 * numbers[3 * n], vertices + 24 * numbers[3 * n + 1],
            vertices + 24 * numbers[3 * n + 2]};
        print_triangle(user, corners);
    }
}

/* A triangle of immediate mode. */
static void triangle(void *user, const float *a, const float *b, const float *c)
{
    const float *const corners[3] = {a, b, c};
    print_triangle(user, corners);
}

/* Registers that say where attributes and indices are; a game's library writes them into the list. */
static void describe_memory(struct emulator *emulator, pj_gpu *gpu, uint32_t count)
{
    static pj_registers vertex;
    const uint32_t registers[][2] = {
        {0x200, START >> 3},
        {0x201, 0xFF},                      /* attributes 0 and 1: four floats */
        {0x203, offsetof(struct memory, vertices)},
        {0x204, 0x10},                      /* attributes 0 and 1 */
        {0x205, 2u << 28 | 32 << 16},       /* two attributes in 32 bytes */
        {0x227, emulator->indices},
        {0x228, count},
    };
    size_t n;
    for (n = 0; n < COUNT(registers); n++)
        if (pj_gpu_write(gpu, (uint16_t)registers[n][0], registers[n][1], 0xF, &vertex) != PJ_EFFECT_NONE)
            emulator->failed = 1;
}

/* What the library notes about a draw, once pj_gpu_diagnostics_set is on. */
static void print_notes(struct emulator *emulator, uint32_t notes)
{
    static const struct {
        uint32_t note;
        const char *text;
    } texts[] = {
        {PJ_NOTE_STRIDE, "a stride differs from the sum of the components"},
        {PJ_NOTE_UNIFORM, "a float uniform is read and was never written"},
        {PJ_NOTE_OUTPUT, "a mapped output is never written"},
        {PJ_NOTE_ATTRIBUTE, "an attribute has neither an array nor a default"},
        {PJ_NOTE_GEOMETRY_CODE, "geometry code was replaced while the unit was on"},
    };
    size_t n;
    for (n = 0; n < COUNT(texts); n++)
        if (notes & texts[n].note)
            print(emulator, "note: %s\n", texts[n].text);
}

static void draw(void *user, pj_gpu *gpu, pj_effect effect)
{
    struct emulator *emulator = user;
    pj_report report;
    pj_guest_draw draw;
    pj_region region;
    pj_status status;
    memset(&report, 0, sizeof report);
    report.struct_size = sizeof report;
    memset(&region, 0, sizeof region);
    region.bytes = (const uint8_t *)&emulator->memory;
    region.length = sizeof emulator->memory;
    region.address = START;
    memset(&draw, 0, sizeof draw);
    draw.struct_size = sizeof draw;
    draw.regions = &region;
    draw.region_count = 1;
    draw.triangles = triangles;
    draw.user = emulator;
    draw.limit = 1000;
    draw.vertex_cache_entries = 64;
    draw.effect = effect;
    describe_memory(emulator, gpu, effect == PJ_EFFECT_DRAW_ARRAYS ? VERTICES : emulator->index_count);
    status = pj_gpu_draw(gpu, &draw, &report);
    if (effect == PJ_EFFECT_DRAW_ELEMENTS) {
        /* The next indexed draw has primitives of variable size. */
        emulator->indices = offsetof(struct memory, primitives);
        emulator->index_count = COUNT(primitives);
    }
    if (status != PJ_OK || report.vertex_exit != PJ_END || report.geometry_exit != PJ_END) {
        fprintf(stderr, "a draw: %s\n", status < 0 ? pj_last_error() : pj_status_text(status));
        emulator->failed = 1;
    }
    print(emulator, "%s: %u vertices, %u reused, %u geometry runs, %u triangles\n",
        effect == PJ_EFFECT_DRAW_ARRAYS ? "arrays" : "elements", (unsigned)report.vertices, (unsigned)report.reused,
        (unsigned)report.geometry_runs, (unsigned)report.triangles);
    print_notes(emulator, report.notes);
}

/* An emulator handles registers unrelated to shaders here. */
static void wrote(void *user, const pj_gpu *gpu, uint16_t id, uint32_t value, uint8_t mask)
{
    struct emulator *emulator = user;
    uint32_t now;
    (void)value;
    (void)mask;
    if (pj_gpu_read(gpu, id, &now) != PJ_OK)
        emulator->failed = 1;
    emulator->writes++;
}

static int fail(const char *what, pj_status status)
{
    fprintf(stderr, "%s: %s\n", what, pj_status_text(status));
    return 1;
}

static int play(uint32_t backend, struct emulator *emulator)
{
    static pj_gpu_state state;
    pj_options options = PJ_OPTIONS_INIT;
    pj_engine *engine;
    pj_gpu *gpu, *other;
    pj_gpu_host host;
    pj_gpu_upload_stats uploads;
    pj_status status;
    int n;

    memset(emulator, 0, sizeof *emulator);
    for (n = 0; n < VERTICES; n++) {
        const pj_vec4 position = {(float)n, 0.25f * (float)(n * n), -1.5f, 1.0f};
        const pj_vec4 colour = {0.125f * (float)n, 0.5f, 1.0f - 0.125f * (float)n, 1.0f};
        memcpy(emulator->memory.vertices[n][0], position, sizeof position);
        memcpy(emulator->memory.vertices[n][1], colour, sizeof colour);
    }
    memcpy(emulator->memory.strip, strip, sizeof strip);
    memcpy(emulator->memory.primitives, primitives, sizeof primitives);
    emulator->indices = offsetof(struct memory, strip);
    emulator->index_count = COUNT(strip);

    options.backend = backend;
    status = pj_engine_new(&options, &engine);
    if (status != PJ_OK) {
        fprintf(stderr, "pj_engine_new: %s\n", pj_last_error());
        return 1;
    }
    status = pj_gpu_new(engine, &gpu);
    if (status != PJ_OK)
        return fail("pj_gpu_new", status);
    status = pj_gpu_diagnostics_set(gpu, 1);
    if (status != PJ_OK)
        return fail("pj_gpu_diagnostics_set", status);
    memset(&host, 0, sizeof host);
    host.struct_size = sizeof host;
    host.triangle = triangle;
    host.draw = draw;
    host.wrote = wrote;
    host.user = emulator;
    status = pj_gpu_execute(gpu, first_list, COUNT(first_list), &host);
    if (status != PJ_OK)
        return fail("pj_gpu_execute", status);

    /* A savestate, from which another GPU continues. */
    state.struct_size = sizeof state;
    status = pj_gpu_state_get(gpu, &state);
    if (status != PJ_OK)
        return fail("pj_gpu_state_get", status);
    status = pj_gpu_free(gpu);
    if (status != PJ_OK)
        return fail("pj_gpu_free", status);
    status = pj_gpu_new(engine, &other);
    if (status != PJ_OK)
        return fail("pj_gpu_new", status);
    status = pj_gpu_state_set(other, &state);
    if (status != PJ_OK)
        return fail("pj_gpu_state_set", status);
    status = pj_gpu_diagnostics_set(other, 1);
    if (status != PJ_OK)
        return fail("pj_gpu_diagnostics_set", status);
    print(emulator, "restored\n");
    status = pj_gpu_execute(other, second_list, COUNT(second_list), &host);
    if (status != PJ_OK)
        return fail("pj_gpu_execute", status);

    uploads.struct_size = sizeof uploads;
    status = pj_gpu_upload_stats_get(other, &uploads);
    if (status != PJ_OK)
        return fail("pj_gpu_upload_stats_get", status);
    print(emulator, "%u writes; %u lookups after the savestate\n", emulator->writes, (unsigned)uploads.lookups);
    pj_gpu_free(other);
    pj_engine_free(engine);
    return emulator->failed;
}

int main(int argc, char **argv)
{
    static struct emulator native, interpreted;
    /* `gpu interpreter` skips native code, for tools that can't analyse generated code. */
    int alone = argc > 1 && strcmp(argv[1], "interpreter") == 0;
    if (play(PJ_INTERPRETER, &interpreted) || (!alone && play(PJ_NATIVE_REQUIRED, &native)))
        return 1;
    fputs(interpreted.text, stdout);
    if (!alone && strcmp(native.text, interpreted.text) != 0) {
        fputs(native.text, stdout);
        fputs("native code and interpreter differ\n", stderr);
        return 1;
    }
    return 0;
}
