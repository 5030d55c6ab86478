/*
 * Calls on threads whose stacks have the sizes of the header: 96 KiB for most calls, 256 KiB for states
 * of GPUs, and 512 KiB for calls that compile. With less than that a run does not compile and says so.
 */
#define _POSIX_C_SOURCE 200809L
#include "common.h"

#include <pthread.h>

static const pj_engine *engine;
static pj_uniforms *uniforms;
static int told;
/* With a compiler thread, whichever comes first. */
enum { ANY_TIER = 99 };
/* Whether the stack has room for whole states of GPUs. */
static int states;

static void event(void *user, uint32_t kind, const char *text)
{
    (void)user;
    told += kind == PJ_EVENT_FALLBACK && strstr(text, "stack") != NULL;
}

static void run(const uint32_t *code, size_t words, const uint32_t *opdescs, size_t count, uint32_t stage, uint32_t tier)
{
    pj_shader *shader = shader_of(engine, code, words, opdescs, count, stage);
    pj_unit *unit = (pj_unit *)block(sizeof *unit);
    pj_registers *registers = (pj_registers *)block(64 * sizeof *registers);
    pj_shader_info info;
    const pj_batch batch = batch_of_32(registers);
    memset(&info, 0, sizeof info);
    info.struct_size = sizeof info;
    EXPECT(PJ_END, pj_run(shader, unit, uniforms, NULL, NULL));
    if (stage == PJ_VERTEX)
        EXPECT(PJ_END, pj_run_batch(shader, unit, uniforms, &batch));
    EXPECT(PJ_OK, pj_shader_info_get(shader, &info));
    if (tier != ANY_TIER && info.tier != tier) {
        fprintf(stderr, "tier %u\n", (unsigned)info.tier);
        failures++;
    }
    pj_shader_release(shader);
    free(registers);
    free(unit);
}

static void triangles(void *user, const float *vertices, size_t vertex_count, const uint32_t *numbers, size_t count)
{
    (void)user, (void)vertices, (void)vertex_count, (void)numbers, (void)count;
}

/* Draws, states and code for the host's GPU. */
static void gpu_calls(void)
{
    static const pj_device device = {sizeof device, PJ_DEVICE_KNOWN, PJ_DEVICE_KNOWN, 0, 0};
    pj_gpu_state *state = (pj_gpu_state *)block(sizeof *state);
    pj_shader *shader = shader_of(engine, flow_code, COUNT(flow_code), flow_opdescs, COUNT(flow_opdescs), PJ_VERTEX);
    pj_gpu_code *code = NULL;
    pj_analysis analysis;
    pj_guest_draw draw;
    pj_gpu *gpu;
    memset(&analysis, 0, sizeof analysis);
    memset(&draw, 0, sizeof draw);
    analysis.struct_size = sizeof analysis;
    draw.struct_size = sizeof draw;
    draw.triangles = triangles;
    draw.effect = PJ_EFFECT_DRAW_ARRAYS;
    state->struct_size = sizeof *state;
    EXPECT(PJ_OK, pj_gpu_new(engine, &gpu));
    write_program(gpu);
    write_register(gpu, 0x228, 300);
    EXPECT(PJ_OK, pj_gpu_draw(gpu, &draw, NULL));
    if (states) {
        EXPECT(PJ_OK, pj_gpu_state_get(gpu, state));
        EXPECT(PJ_OK, pj_gpu_state_set(gpu, state));
    }
    EXPECT(PJ_OK, pj_gpu_free(gpu));
    EXPECT(PJ_OK, pj_shader_analyse(shader, &analysis));
    EXPECT(PJ_OK, pj_gpu_code_get(shader, NULL, &device, &code));
    pj_gpu_code_free(code);
    pj_shader_release(shader);
    free(state);
}

static void *calls(void *tier)
{
    const uint32_t t = *(const uint32_t *)tier;
    run(vertex_code, COUNT(vertex_code), vertex_opdescs, COUNT(vertex_opdescs), PJ_VERTEX, t);
    run(flow_code, COUNT(flow_code), flow_opdescs, COUNT(flow_opdescs), PJ_VERTEX, t);
    run(geometry_code, COUNT(geometry_code), geometry_opdescs, COUNT(geometry_opdescs), PJ_GEOMETRY, t);
    gpu_calls();
    return NULL;
}

static void on_a_stack(size_t kib, uint32_t tier)
{
    pthread_attr_t attributes;
    pthread_t thread;
    CHECK(pthread_attr_init(&attributes) == 0 && pthread_attr_setstacksize(&attributes, kib << 10) == 0);
    CHECK(pthread_create(&thread, &attributes, calls, &tier) == 0 && pthread_join(thread, NULL) == 0);
    pthread_attr_destroy(&attributes);
}

int main(int argc, char **argv)
{
    pj_options o = PJ_OPTIONS_INIT;
    pj_engine *made;
    const int alone = argc > 1 && strcmp(argv[1], "interpreter") == 0;
    const size_t kib = argc > 3 ? (size_t)atoi(argv[3]) : 96;
    uniforms = some_uniforms();
    o.backend = alone ? PJ_INTERPRETER : PJ_NATIVE;
    o.compile_after = 1;
    o.event = event;
    o.threads = argc > 1 && strcmp(argv[1], "background") == 0;
    engine = made = engine_of(&o);
    on_a_stack(kib, o.threads ? ANY_TIER : PJ_TIER_0);
    CHECK(told == !(alone || o.threads) );
    pj_engine_free(made);
    engine = made = engine_of(&o);
    states = 1;
    on_a_stack(256, o.threads ? ANY_TIER : PJ_TIER_0);
    pj_engine_free(made);
    engine = made = engine_of(&o);
    on_a_stack(512, o.threads ? ANY_TIER : alone ? PJ_TIER_0 : PJ_TIER_NATIVE);
    pj_engine_free(made);
    free(uniforms);
    if (failures == 0)
        puts("as the header says");
    return failures != 0;
}
