/*
 * Draws from guest memory that ends where the process's own memory does: a page without access
 * follows. No registers, counts and indices make the library read it. `guest_draws interpreter 20`
 * requests no native code; the number scales the rounds.
 */
#define _DEFAULT_SOURCE
#include "common.h"

#include <sys/mman.h>
#include <unistd.h>

#define START 0x18000000u

struct host {
    const uint8_t *memory;
    size_t length, asked, triangles;
    uint32_t stride;
    float sum;
};

static void triangles(void *user, const float *vertices, size_t vertex_count, const uint32_t *numbers, size_t count)
{
    struct host *host = (struct host *)user;
    size_t n;
    for (n = 0; n < 3 * count; n++) {
        CHECK(numbers[n] < vertex_count);
        host->sum += vertices[numbers[n] * host->stride];
    }
    host->triangles += count;
}

/* The same memory as the region, by a callback. */
static const void *memory(void *user, uint32_t address, size_t length, size_t *available)
{
    struct host *host = (struct host *)user;
    (void)length;
    host->asked++;
    if (address < START || address - START >= host->length)
        return NULL;
    *available = host->length - (address - START);
    return host->memory + (address - START);
}

int main(int argc, char **argv)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const int rounds = 50 * (argc > 2 ? atoi(argv[2]) : 20);
    const int alone = argc > 1 && strcmp(argv[1], "interpreter") == 0;
    uint8_t *pages = (uint8_t *)mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pj_options options = PJ_OPTIONS_INIT;
    pj_engine *engine;
    pj_gpu *gpu;
    pj_guest_draw draw;
    pj_region region;
    pj_report report;
    struct host host;
    uint8_t offsets[24];
    uint32_t seed = 1;
    size_t n, drawn = 0;
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
    write_program(gpu);
    memset(offsets, 255, sizeof offsets);
    offsets[0] = 0;
    offsets[9] = 2;
    for (round = 0; round < rounds; round++) {
        const uint32_t length = number(&seed) % (round % 2 ? 64 : (uint32_t)page);
        memset(&host, 0, sizeof host);
        memset(&draw, 0, sizeof draw);
        memset(&region, 0, sizeof region);
        memset(&report, 0, sizeof report);
        host.memory = pages + page - length;
        host.length = length;
        region.bytes = host.memory;
        region.length = length;
        region.address = START;
        draw.struct_size = sizeof draw;
        report.struct_size = sizeof report;
        if (number(&seed) % 2) {
            draw.regions = &region;
            draw.region_count = 1;
        } else {
            draw.memory = memory;
        }
        draw.triangles = triangles;
        draw.user = &host;
        host.stride = 24;
        if (number(&seed) % 2) {
            draw.offsets = offsets;
            host.stride = draw.stride = 3 + number(&seed) % 250;
        }
        draw.limit = number(&seed) % 600;
        draw.vertex_cache_entries = 64;
        draw.effect = number(&seed) % 2 ? PJ_EFFECT_DRAW_ARRAYS : PJ_EFFECT_DRAW_ELEMENTS;
        write_register(gpu, 0x2B9, 0xA0000000 | number(&seed) % 16); /* attributes */
        write_register(gpu, 0x200, number(&seed) % 8 ? START >> 3 : number(&seed) << 8 | number(&seed));
        write_register(gpu, 0x201, number(&seed) << 8 | number(&seed) % 256);
        write_register(gpu, 0x202, number(&seed) % 0x10000);
        for (n = 0; n < 12; n++) {
            write_register(gpu, (uint16_t)(0x203 + 3 * n), number(&seed) % 4 ? number(&seed) % 128 : number(&seed) << 4);
            write_register(gpu, (uint16_t)(0x204 + 3 * n), number(&seed) << 8 | number(&seed) % 256);
            write_register(gpu, (uint16_t)(0x205 + 3 * n), number(&seed) << 8 | number(&seed) % 256);
        }
        write_register(gpu, 0x227, number(&seed) % 2 << 31 | (number(&seed) % 4 ? number(&seed) % 64 : number(&seed)));
        write_register(gpu, 0x228, number(&seed) % 4 ? number(&seed) % 400 : 0xFFFFFFFFu - number(&seed) % 4);
        write_register(gpu, 0x22A, number(&seed) % 4 ? number(&seed) % 64 : 0xFFFFFFFFu - number(&seed) % 64);
        write_register(gpu, 0x25E, number(&seed) % 4 << 8);
        EXPECT(PJ_OK, pj_gpu_draw(gpu, &draw, &report));
        CHECK(report.triangles == host.triangles);
        CHECK(report.vertex_exit == PJ_END);
        drawn += host.triangles;
    }
    CHECK(drawn > 10 * (size_t)rounds);

    /* Misuse returns a status and draws nothing. */
    host.triangles = 0;
    draw.effect = PJ_EFFECT_VERTEX;
    EXPECT(PJ_INVALID_ARGUMENT, pj_gpu_draw(gpu, &draw, &report));
    draw.effect = PJ_EFFECT_DRAW_ARRAYS;
    draw.offsets = offsets;
    draw.stride = 2;
    EXPECT(PJ_INVALID_ARGUMENT, pj_gpu_draw(gpu, &draw, &report));
    draw.stride = 256;
    EXPECT(PJ_INVALID_ARGUMENT, pj_gpu_draw(gpu, &draw, &report));
    draw.stride = 3;
    draw.vertex_cache_entries = 256;
    EXPECT(PJ_INVALID_ARGUMENT, pj_gpu_draw(gpu, &draw, &report));
    draw.vertex_cache_entries = 0;
    draw.triangles = NULL;
    EXPECT(PJ_NULL, pj_gpu_draw(gpu, &draw, &report));
    draw.triangles = triangles;
    region.bytes = NULL;
    region.length = 1;
    draw.regions = &region;
    draw.region_count = 1;
    EXPECT(PJ_NULL, pj_gpu_draw(gpu, &draw, &report));
    EXPECT(PJ_NULL, pj_gpu_draw(gpu, NULL, &report));
    CHECK(host.triangles == 0);
    EXPECT(PJ_OK, pj_gpu_free(gpu));
    pj_engine_free(engine);
    if (!failures)
        puts("as the header says");
    return failures != 0;
}
