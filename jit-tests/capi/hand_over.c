/*
 * Draws on the host's GPU: what the header says of placements, streams, uniform blocks and wrong
 * arguments. All bytes of all streams are read, with guest memory in front of a page without access.
 * `hand_over interpreter 20` requests no native code; the number scales the rounds.
 */
#define _DEFAULT_SOURCE
#include "common.h"

#include <sys/mman.h>
#include <unistd.h>

#define START 0x18000000u


static void triangles(void *user, const float *vertices, size_t vertex_count, const uint32_t *numbers, size_t count)
{
    (void)vertices, (void)vertex_count, (void)numbers;
    *(size_t *)user += count;
}

static pj_placement a_placement(pj_gpu *gpu)
{
    pj_placement placement;
    memset(&placement, 0, sizeof placement);
    placement.struct_size = sizeof placement;
    EXPECT(PJ_OK, pj_gpu_placement(gpu, NULL, 0, &placement));
    return placement;
}

/* Code for a placement, which the host frees. */
static pj_gpu_code *code_of(const pj_placement *placement)
{
    const pj_device device = {sizeof device, PJ_DEVICE_DECLARED, PJ_DEVICE_DECLARED, PJ_DEVICE_UNKNOWN, 0};
    pj_interface interface;
    pj_gpu_code *code = NULL;
    memset(&interface, 0, sizeof interface);
    interface.struct_size = sizeof interface;
    interface.attributes = placement->attributes;
    interface.varyings = placement->varyings;
    interface.varying_count = placement->varying_count;
    interface.outputs = PJ_OUTPUT_MAPPED;
    interface.position = PJ_POSITION;
    memcpy(interface.position_components, placement->position_components, 4);
    EXPECT(PJ_OK, pj_gpu_code_get(placement->shader, &interface, &device, &code));
    return code;
}

/* Reads all that a draw points to. */
static size_t read_all(const pj_placement *placement, const pj_handed_draw *handed)
{
    size_t n, byte, sum = 0;
    for (n = 0; n < PJ_STREAMS; n++) {
        const pj_stream *stream = &handed->streams[n];
        for (byte = 0; byte < stream->length; byte++)
            sum += stream->bytes[byte];
        if (stream->length != 0 && placement->strides[n] != 0)
            CHECK(stream->length / placement->strides[n] <= handed->vertex_count);
    }
    for (n = 0; n < 3 * handed->triangle_count; n++)
        CHECK(handed->triangles[n] < handed->vertex_count);
    return sum;
}

static void wrong_arguments(pj_gpu *gpu, const pj_gpu_code *code, const pj_guest_draw *draw)
{
    pj_placement placement = a_placement(gpu);
    pj_handed_draw handed;
    pj_guest_draw wrong = *draw;
    pj_direct_call call;
    static pj_unit unit;
    static pj_uniforms uniforms;
    uint8_t offsets[24];
    uint8_t block[2048];
    size_t first = 7, count = 7;

    memset(&handed, 0, sizeof handed);
    handed.struct_size = sizeof handed;
    memset(offsets, 255, sizeof offsets);
    offsets[3] = 9;
    EXPECT(PJ_NULL, pj_gpu_placement(NULL, NULL, 0, &placement));
    EXPECT(PJ_NULL, pj_gpu_placement(gpu, NULL, 0, NULL));
    EXPECT(PJ_INVALID_ARGUMENT, pj_gpu_placement(gpu, offsets, 9, &placement));
    EXPECT(PJ_INVALID_ARGUMENT, pj_gpu_placement(gpu, offsets, 256, &placement));
    EXPECT(PJ_OK, pj_gpu_placement(gpu, offsets, 10, &placement));
    CHECK(placement.varying_count == 3 && placement.varyings[2].count == 2);
    placement.struct_size = 12;
    EXPECT(PJ_INVALID_ARGUMENT, pj_gpu_placement(gpu, NULL, 0, &placement));

    EXPECT(PJ_NULL, pj_gpu_hand_over(NULL, code, draw, &handed, NULL));
    EXPECT(PJ_NULL, pj_gpu_hand_over(gpu, NULL, draw, &handed, NULL));
    EXPECT(PJ_NULL, pj_gpu_hand_over(gpu, code, NULL, &handed, NULL));
    EXPECT(PJ_NULL, pj_gpu_hand_over(gpu, code, draw, NULL, NULL));
    wrong.effect = PJ_EFFECT_VERTEX;
    EXPECT(PJ_INVALID_ARGUMENT, pj_gpu_hand_over(gpu, code, &wrong, &handed, NULL));
    wrong.effect = draw->effect;
    wrong.vertex_cache_entries = 256;
    EXPECT(PJ_INVALID_ARGUMENT, pj_gpu_hand_over(gpu, code, &wrong, &handed, NULL));
    handed.struct_size = 8;
    EXPECT(PJ_INVALID_ARGUMENT, pj_gpu_hand_over(gpu, code, draw, &handed, NULL));

    EXPECT(PJ_NULL, pj_gpu_uniforms(NULL, code, block, sizeof block, NULL, NULL));
    EXPECT(PJ_NULL, pj_gpu_uniforms(gpu, NULL, block, sizeof block, NULL, NULL));
    EXPECT(PJ_NULL, pj_gpu_uniforms(gpu, code, NULL, sizeof block, NULL, NULL));
    EXPECT(PJ_INVALID_ARGUMENT, pj_gpu_uniforms(gpu, code, block, 1615, &first, &count));
    CHECK(first == 7 && count == 7);
    memset(block, 1, sizeof block);
    EXPECT(PJ_OK, pj_gpu_uniforms(gpu, code, block, sizeof block, &first, &count));
    CHECK(first == 0 && count == 1616 && block[1616] == 1);
    EXPECT(PJ_OK, pj_gpu_uniforms(gpu, code, block, sizeof block, &first, &count));
    CHECK(count == 0);
    write_register(gpu, 0x2B0, 0x8001);
    EXPECT(PJ_OK, pj_gpu_uniforms(gpu, code, block, sizeof block, &first, &count));
    CHECK(first == 0 && count == 4 && block[0] == 1 && block[1] == 0x80);
    EXPECT(PJ_OK, pj_gpu_uniforms(gpu, code, block, sizeof block, NULL, NULL));

    /* A shader of a GPU runs in draws only. */
    placement = a_placement(gpu);
    EXPECT(PJ_INVALID_ARGUMENT, pj_run(placement.shader, &unit, &uniforms, NULL, NULL));
    EXPECT(PJ_INVALID_ARGUMENT, pj_shader_direct_call(placement.shader, &call));
}

int main(int argc, char **argv)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const int rounds = 50 * (argc > 2 ? atoi(argv[2]) : 20);
    const int alone = argc > 1 && strcmp(argv[1], "interpreter") == 0;
    uint8_t *pages = (uint8_t *)mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pj_options options = PJ_OPTIONS_INIT;
    pj_engine *engine;
    pj_gpu *gpu, *twin;
    pj_guest_draw draw;
    pj_region region;
    static pj_gpu_state states[2];
    uint32_t seed = 1;
    size_t n, handed_over = 0, refused = 0, sum = 0;
    int round;

    CHECK(pages != MAP_FAILED);
    if (pages == MAP_FAILED)
        return 1;
    for (n = 0; n < page; n++)
        pages[n] = (uint8_t)(number(&seed) % 61);
    CHECK(mprotect(pages + page, page, PROT_NONE) == 0);
    if (alone)
        options.backend = PJ_INTERPRETER;
    EXPECT(PJ_OK, pj_engine_new(&options, &engine));
    EXPECT(PJ_OK, pj_gpu_new(engine, &gpu));
    EXPECT(PJ_OK, pj_gpu_new(engine, &twin));
    for (round = 0; round < rounds; round++) {
        const uint32_t length = number(&seed) % (round % 2 ? 64 : (uint32_t)page);
        pj_gpu *const both[2] = {gpu, twin};
        const uint32_t formats = number(&seed), first = number(&seed) % 16 << 24 | number(&seed),
                       stride = number(&seed) % 40, count = number(&seed) % 70, topology = number(&seed) % 3,
                       index = number(&seed) % 2 << 31 | number(&seed) % 80;
        pj_report report, other;
        pj_handed_draw handed;
        pj_placement placement;
        pj_gpu_code *code;
        size_t drawn = 0;
        pj_status status;

        memset(&draw, 0, sizeof draw);
        memset(&region, 0, sizeof region);
        memset(&report, 0, sizeof report);
        memset(&handed, 0, sizeof handed);
        region.bytes = pages + page - length;
        region.length = length;
        region.address = START;
        draw.struct_size = sizeof draw;
        report.struct_size = sizeof report;
        handed.struct_size = sizeof handed;
        other = report;
        draw.regions = &region;
        draw.region_count = 1;
        draw.triangles = triangles;
        draw.user = &drawn;
        draw.effect = number(&seed) % 2 ? PJ_EFFECT_DRAW_ELEMENTS : PJ_EFFECT_DRAW_ARRAYS;
        for (n = 0; n < 2; n++) {
            if (round == 0) {
                write_program(both[n]);
                write_register(both[n], 0x2B9, 0xA0000001);
                write_register(both[n], 0x200, START >> 3);
            }
            write_register(both[n], 0x201, formats);
            write_register(both[n], 0x203, formats % 32);
            write_register(both[n], 0x204, 0x10);
            write_register(both[n], 0x205, (first % 3) << 28 | stride << 16);
            write_register(both[n], 0x227, index);
            write_register(both[n], 0x228, count);
            write_register(both[n], 0x22A, first % 5);
            write_register(both[n], 0x25E, topology << 8);
            if (first % 7 != 0)
                write_register(both[n], 0x25F, 1);
        }
        placement = a_placement(gpu);
        pj_shader_retain(placement.shader);
        code = code_of(&placement);
        if (round == 0) {
            wrong_arguments(gpu, code, &draw);
            write_register(twin, 0x2B0, 0x8001);
        }
        draw.triangles = NULL;
        status = pj_gpu_hand_over(gpu, code, &draw, &handed, &report);
        draw.triangles = triangles;
        if (status == PJ_OK) {
            CHECK(placement.cpu_only == PJ_CPU_OR_GPU);
            sum += read_all(&placement, &handed);
            handed_over++;
        } else {
            EXPECT(PJ_CPU_ONLY, status);
            CHECK(placement.cpu_only == PJ_CPU_CONTINUES && strstr(pj_last_error(), "continues") != NULL);
            EXPECT(PJ_OK, pj_gpu_draw(gpu, &draw, &report));
            handed.triangle_count = drawn;
            drawn = 0;
            refused++;
        }
        EXPECT(PJ_OK, pj_gpu_draw(twin, &draw, &other));
        CHECK(report.triangles == other.triangles && handed.triangle_count == drawn);
        if (round % 8 == 0) {
            states[0].struct_size = states[1].struct_size = sizeof states[0];
            EXPECT(PJ_OK, pj_gpu_state_get(gpu, &states[0]));
            EXPECT(PJ_OK, pj_gpu_state_get(twin, &states[1]));
            CHECK(memcmp(&states[0], &states[1], sizeof states[0]) == 0);
        }
        pj_gpu_code_free(code);
        pj_shader_release(placement.shader);
    }
    CHECK(handed_over > (size_t)rounds / 2 && refused > 0 && sum > 0);
    EXPECT(PJ_OK, pj_gpu_free(gpu));
    EXPECT(PJ_OK, pj_gpu_free(twin));
    pj_engine_free(engine);
    CHECK(munmap(pages, 2 * page) == 0);
    if (!failures)
        puts("as the header says");
    return failures != 0;
}
