/*
 * What each call costs from C: minimum and median of the nanoseconds a call. Link it with the
 * static and with the shared library to see what the kind of library costs.
 *
 *     cc -std=c99 -O2 -Iinclude examples/c/calls.c -lpicajit -o calls && ./calls
 *     ./calls [native | background | interpreter] [ROUNDS]
 *
 * The calls take turns, so that a slow-down of the machine affects all of them.
 */
#define _POSIX_C_SOURCE 200809L
#include "picajit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* dp4 o0.x, c0, v0; dp4 o0.y, c1, v0; dp4 o0.z, c2, v0; dp4 o0.w, c3, v0; mul o1, c4, v1; end */
static const uint32_t code[] = {0x08020000, 0x08021001, 0x08022002, 0x08023003, 0x20224084, 0x88000000};
static const uint32_t opdescs[] = {0x6C368, 0x6C364, 0x6C362, 0x6C361, 0x6C36F};

#define COUNT(array) (sizeof(array) / sizeof(array)[0])
/* Calls that are timed together. */
#define CALLS 256
#define MAX_ROUNDS 2001

struct host {
    pj_engine *engine;
    pj_shader *shader;
    pj_direct_call call;
    pj_unit *unit;
    pj_uniforms *uniforms;
    pj_batch batch, preserving_batch;
    pj_vec4 inputs[2], outputs[2];
    uint32_t memory[512], memory_opdescs[128]; /* a game's code memory, with the program first */
};

/* ---- The calls: each returns the exits of CALLS calls, or-ed ---- */

static int32_t by_run(struct host *host)
{
    int32_t exits = 0;
    int n;
    for (n = 0; n < CALLS; n++)
        exits |= pj_run(host->shader, host->unit, host->uniforms, NULL, NULL);
    return exits;
}

static int32_t by_pair(struct host *host)
{
    int32_t exits = 0;
    int n;
    for (n = 0; n < CALLS; n++)
        exits |= host->call.function(host->call.context, host->unit, host->uniforms);
    return exits;
}

static int32_t by_batch(struct host *host)
{
    int32_t exits = 0;
    int n;
    for (n = 0; n < CALLS; n++)
        exits |= pj_run_batch(host->shader, host->unit, host->uniforms, &host->batch);
    return exits;
}

static int32_t by_preserving_batch(struct host *host)
{
    int32_t exits = 0;
    int n;
    for (n = 0; n < CALLS; n++)
        exits |= pj_run_batch(host->shader, host->unit, host->uniforms, &host->preserving_batch);
    return exits;
}

static int32_t lookups(struct host *host, const uint32_t *words, size_t count, const uint32_t *descriptors,
                       size_t descriptor_count)
{
    int32_t status = 0;
    int n;
    for (n = 0; n < CALLS; n++) {
        pj_shader *found = NULL;
        status |= pj_shader_get(host->engine, words, count, descriptors, descriptor_count, 0, PJ_VERTEX, &found);
        status |= found != host->shader;
        pj_shader_release(found);
    }
    return status;
}

static int32_t by_lookup(struct host *host)
{
    return lookups(host, code, COUNT(code), opdescs, COUNT(opdescs));
}

static int32_t by_lookup_in_memory(struct host *host)
{
    return lookups(host, host->memory, COUNT(host->memory), host->memory_opdescs, COUNT(host->memory_opdescs));
}

static const struct call {
    const char *name;
    int32_t (*calls)(struct host *host);
    int in_batch; /* whether the outputs are those of the batch */
    int runs;
} calls[] = {
    {"pj_run", by_run, 0, 1},
    {"pj_direct_call", by_pair, 0, 1},
    {"pj_run_batch of one", by_batch, 1, 1},
    {"the same, preserve_unit", by_preserving_batch, 1, 1},
    {"pj_shader_get, own words", by_lookup, 0, 0},
    {"pj_shader_get, 512 words", by_lookup_in_memory, 0, 0},
};

/* ---- The measurement ---- */

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int fail(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why);
    return 1;
}

/* Runs every call once. All calls must give the same outputs. */
static int check(struct host *host)
{
    pj_vec4 expected[2];
    size_t n;
    for (n = 0; n < COUNT(calls); n++) {
        memset(host->unit->o, 0, sizeof host->unit->o);
        memset(host->outputs, 0, sizeof host->outputs);
        if (calls[n].calls(host) != 0)
            return fail(calls[n].name, "not the end of a run");
        if (n == 0)
            memcpy(expected, host->unit->o[0], sizeof expected);
        if (calls[n].runs && memcmp(expected, calls[n].in_batch ? host->outputs : host->unit->o[0], sizeof expected) != 0)
            return fail(calls[n].name, "other outputs");
    }
    return expected[0][0] == 0.0f ? fail("the shader", "no outputs") : 0;
}

static int measure(struct host *host, int rounds)
{
    static double times[COUNT(calls)][MAX_ROUNDS];
    int32_t exits = 0;
    size_t n;
    int round;
    for (round = 0; round < rounds; round++)
        for (n = 0; n < COUNT(calls); n++) {
            const double start = now();
            exits |= calls[n].calls(host);
            times[n][round] = (now() - start) / CALLS;
        }
    if (exits != 0)
        return fail("a call", "not the end of a run");
    for (n = 0; n < COUNT(calls); n++) {
        qsort(times[n], (size_t)rounds, sizeof *times[n], ascending);
        printf("%-26s minimum %7.1f, median %7.1f ns a call\n", calls[n].name, times[n][0], times[n][rounds / 2]);
    }
    return 0;
}

int main(int argc, char **argv)
{
    static struct host host;
    const char *engine = argc > 1 ? argv[1] : "native";
    const int rounds = argc > 2 ? atoi(argv[2]) : MAX_ROUNDS;
    pj_options options = PJ_OPTIONS_INIT;
    void *unit, *uniforms;
    int failed;
    size_t n;

    if (rounds < 1 || rounds > MAX_ROUNDS)
        return fail(argv[2], "not a number from 1 to 2001");
    options.backend = strcmp(engine, "interpreter") == 0 ? PJ_INTERPRETER : PJ_NATIVE;
    options.threads = strcmp(engine, "background") == 0;
    options.compile_after = 1;
    if (posix_memalign(&unit, 16, sizeof(pj_unit)) != 0 || posix_memalign(&uniforms, 16, sizeof(pj_uniforms)) != 0)
        return fail("memory", "none");
    host.unit = (pj_unit *)memset(unit, 0, sizeof(pj_unit));
    host.uniforms = (pj_uniforms *)memset(uniforms, 0, sizeof(pj_uniforms));
    for (n = 0; n < 4; n++) {
        host.uniforms->c[n][n] = 2.0f;
        host.uniforms->c[4][n] = 0.5f;
        host.inputs[0][n] = host.inputs[1][n] = 1.5f + (float)n;
    }
    memcpy(host.unit->v[0], host.inputs, sizeof host.inputs);
    host.batch.struct_size = sizeof host.batch;
    host.batch.count = 1;
    host.batch.inputs = host.inputs[0];
    host.batch.outputs = host.outputs[0];
    host.batch.input_mask = host.batch.output_mask = 3;
    host.batch.input_stride = host.batch.output_stride = 2;
    host.preserving_batch = host.batch;
    host.preserving_batch.preserve_unit = 1;
    memcpy(host.memory, code, sizeof code);
    memcpy(host.memory_opdescs, opdescs, sizeof opdescs);
    for (n = COUNT(code); n < COUNT(host.memory); n++)
        host.memory[n] = 0x02000000 | (uint32_t)n;

    if (pj_engine_new(&options, &host.engine) != PJ_OK)
        return fail("pj_engine_new", pj_last_error());
    if (pj_shader_get(host.engine, code, COUNT(code), opdescs, COUNT(opdescs), 0, PJ_VERTEX, &host.shader) != PJ_OK)
        return fail("pj_shader_get", pj_last_error());
    if (pj_shader_direct_call(host.shader, &host.call) != PJ_OK)
        return fail("pj_shader_direct_call", "no pair");
    failed = check(&host);
    pj_engine_wait(host.engine);
    failed = failed || check(&host) || measure(&host, rounds);
    pj_shader_release(host.shader);
    pj_engine_free(host.engine);
    free(unit);
    free(uniforms);
    if (!failed)
        puts("the same bits");
    return failed;
}
