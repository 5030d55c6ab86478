/*
 * Eight threads compile, run and exchange shaders of one engine, while others clear its cache and
 * at last free it. Each result must equal that of an interpreter on one thread. `threads
 * interpreter` requests no native code, `threads background` two compiler threads; `threads native
 * N` makes N rounds.
 */
#define _POSIX_C_SOURCE 200809L
#include "common.h"

#include <pthread.h>

enum {
    THREADS = 8,
    PROGRAMS = 24,  /* all threads share one half; of the other each uses one, in turn */
    VERTICES = 600, /* in a batch: enough for a shader's second batch to run as groups */
    /* The default stack of threads on macOS, the smallest of the common systems. */
    STACK = 512 << 10
};

/* The results of one program for the inputs below: outputs of the batch, and the unit after it. */
struct result {
    pj_registers outputs[VERTICES];
    pj_unit unit;
    int emitted;
};

static pj_registers inputs[VERTICES];
static pj_uniforms *uniforms;
static struct result expected[PROGRAMS];
static int rounds = 30;

/* Shared by all threads: the engine, and a shader of each program that any thread may replace. */
static pj_engine *engine;
static pthread_mutex_t exchange = PTHREAD_MUTEX_INITIALIZER;
static pj_shader *shared_shaders[PROGRAMS];
static pthread_barrier_t engine_barrier;

static void emit(void *user, const pj_vec4 *outputs, uint32_t vertex, uint32_t primitive, uint32_t winding)
{
    (void)outputs, (void)vertex, (void)primitive, (void)winding;
    ++*(int *)user;
}

static int is_geometry(int program)
{
    return program % 6 == 5;
}

/* Requests a program's shader. */
static pj_shader *get(const pj_engine *from, int program)
{
    uint32_t code[COUNT(vertex_code)];
    if (is_geometry(program))
        return SHADER_OF(from, geometry, PJ_GEOMETRY);
    if (program % 6 == 4)
        return SHADER_OF(from, flow, PJ_VERTEX);
    vertex_code_from((uint32_t)program, code);
    return shader_of(from, code, COUNT(code), vertex_opdescs, COUNT(vertex_opdescs), PJ_VERTEX);
}

static void compute(const pj_shader *shader, int program, pj_unit *unit, struct result *result)
{
    pj_batch batch;
    memset(result, 0, sizeof *result);
    memset(unit, 0, sizeof *unit);
    unit->v[0][1] = (float)program;
    if (is_geometry(program)) {
        EXPECT(PJ_END, pj_run(shader, unit, uniforms, emit, &result->emitted));
    } else {
        memset(&batch, 0, sizeof batch);
        batch.struct_size = sizeof batch;
        batch.count = VERTICES;
        batch.inputs = inputs[0][0];
        batch.outputs = result->outputs[0][0];
        batch.input_mask = batch.output_mask = 3;
        EXPECT(PJ_END, pj_run_batch(shader, unit, uniforms, &batch));
        EXPECT(PJ_END, pj_run(shader, unit, uniforms, NULL, NULL));
    }
    memcpy(&result->unit, unit, sizeof *unit);
}

static void *work(void *argument)
{
    const int thread = *(const int *)argument;
    pj_unit *unit = (pj_unit *)block(sizeof *unit);
    struct result *result = (struct result *)block(sizeof *result);
    uint32_t random = 77 + (uint32_t)thread;
    int round;
    for (round = 0; round < 2 * rounds; round++) {
        int program, reuse;
        pj_shader *shader, *old;
        random = random * 1664525 + 1013904223;
        program = random >> 8 & 1 ? (int)(random >> 9) % (PROGRAMS / 2) : PROGRAMS / 2 + (thread + round) % (PROGRAMS / 2);
        if (round == rounds) {
            /* From here on shaders outlive the engine. */
            if (pthread_barrier_wait(&engine_barrier) == PTHREAD_BARRIER_SERIAL_THREAD)
                pj_engine_free(engine);
        }
        reuse = round >= rounds || random >> 20 & 1;
        if (reuse) {
            /* Use the shader that another thread left. */
            pthread_mutex_lock(&exchange);
            shader = shared_shaders[program];
            pj_shader_retain(shader);
            pthread_mutex_unlock(&exchange);
        } else {
            shader = get(engine, program);
            pj_shader_retain(shader);
            pthread_mutex_lock(&exchange);
            old = shared_shaders[program];
            shared_shaders[program] = shader;
            pthread_mutex_unlock(&exchange);
            pj_shader_release(old);
            if (random >> 21 & 1)
                EXPECT(PJ_OK, pj_engine_clear(engine));
        }
        compute(shader, program, unit, result);
        pj_shader_release(shader);
        if (memcmp(result, &expected[program], sizeof *result) != 0) {
            fprintf(stderr, "thread %d: program %d has a wrong result in round %d\n", thread, program, round);
            failures++;
        }
    }
    free(unit);
    free(result);
    return NULL;
}

int main(int argc, char **argv)
{
    pj_options options = PJ_OPTIONS_INIT;
    pthread_t threads[THREADS];
    pthread_attr_t small;
    pj_unit *unit = (pj_unit *)block(sizeof *unit);
    int numbers[THREADS], n, k, interpreter;
    uniforms = some_uniforms();
    uniforms->i[1][0] = 3;
    for (n = 0; n < VERTICES; n++)
        for (k = 0; k < 4; k++) {
            inputs[n][0][k] = (float)(n % 80 - 40 * (k == 1)) * 0.5f;
            inputs[n][1][k] = 1.0f / (float)(n + k + 1);
        }
    interpreter = argc > 1 && strcmp(argv[1], "interpreter") == 0;
    if (argc > 2)
        rounds = atoi(argv[2]);

    options.backend = PJ_ORACLE;
    engine = engine_of(&options);
    for (n = 0; n < PROGRAMS; n++) {
        pj_shader *shader = get(engine, n);
        compute(shader, n, unit, &expected[n]);
        pj_shader_release(shader);
    }
    CHECK(memcmp(&expected[0], &expected[1], sizeof expected[0]) != 0 && expected[5].emitted == 3);
    pj_engine_free(engine);

    options.backend = interpreter ? PJ_INTERPRETER : PJ_NATIVE_REQUIRED;
    if (argc > 1 && strcmp(argv[1], "background") == 0) {
        options.backend = PJ_NATIVE;
        options.threads = 2;
    }
    /* Small enough for constant eviction. */
    options.cache_bytes = 40000;
    options.crosscheck = 1009;
    engine = engine_of(&options);
    for (n = 0; n < PROGRAMS; n++)
        shared_shaders[n] = get(engine, n);
    pthread_barrier_init(&engine_barrier, NULL, THREADS);
    pthread_attr_init(&small);
    if (pthread_attr_setstacksize(&small, STACK) != 0)
        abort();
    for (n = 0; n < THREADS; n++) {
        numbers[n] = n;
        if (pthread_create(&threads[n], &small, work, &numbers[n]) != 0)
            abort();
    }
    for (n = 0; n < THREADS; n++)
        pthread_join(threads[n], NULL);
    for (n = 0; n < PROGRAMS; n++) {
        CHECK(pj_shader_text(shared_shaders[n], PJ_TEXT_DIVERGENCE, NULL, 0) == 0);
        pj_shader_release(shared_shaders[n]);
    }
    pthread_attr_destroy(&small);
    pthread_barrier_destroy(&engine_barrier);
    free(unit);
    free(uniforms);
    if (failures == 0)
        printf("%d threads, %d runs: the same bits\n", (int)THREADS, THREADS * 2 * rounds);
    return failures != 0;
}
