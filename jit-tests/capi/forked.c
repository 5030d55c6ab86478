/*
 * A host that forks, with and without compiler threads: the child runs, gets, waits, analyses, frees, and
 * has the bits of the parent. `forked interpreter` requests no native code, `forked background` a thread.
 */
#define _POSIX_C_SOURCE 200809L
#include "common.h"

#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

/* Runs a shader, known or new, and adds its outputs. */
static float run(const pj_engine *engine, uint32_t from, const pj_uniforms *uniforms)
{
    uint32_t code[COUNT(vertex_code)];
    pj_unit *unit = (pj_unit *)block(sizeof *unit);
    pj_shader *shader;
    float sum = 0.0f;
    int n;
    vertex_code_from(from, code);
    shader = shader_of(engine, code, COUNT(code), vertex_opdescs, COUNT(vertex_opdescs), PJ_VERTEX);
    for (n = 0; n < 8; n++)
        unit->v[n / 4][n % 4] = (float)n;
    EXPECT(PJ_END, pj_run(shader, unit, uniforms, NULL, NULL));
    for (n = 0; n < 8; n++)
        sum += unit->o[0][n / 4][n % 4];
    pj_shader_release(shader);
    free(unit);
    return sum;
}

int main(int argc, char **argv)
{
    const int threads = argc > 1 && strcmp(argv[1], "background") == 0, rounds = argc > 2 ? atoi(argv[2]) : 8;
    pj_uniforms *uniforms = some_uniforms();
    pj_options o = PJ_OPTIONS_INIT;
    pj_engine *engine;
    pj_gpu *gpu;
    int round;
    if (argc > 1 && strcmp(argv[1], "interpreter") == 0)
        o.backend = PJ_INTERPRETER;
    o.threads = (uint32_t)threads;
    o.compile_after = 2;
    engine = engine_of(&o);
    EXPECT(PJ_OK, pj_gpu_new(engine, &gpu));
    for (round = 0; round < rounds; round++) {
        const uint32_t known = (uint32_t)round % 80, fresh = (uint32_t)(round + 1) % 80;
        float want[2];
        pid_t child;
        int status = 0;
        want[0] = run(engine, known, uniforms);
        want[1] = run(engine, fresh, uniforms);
        EXPECT(PJ_OK, pj_engine_clear(engine));
        CHECK(run(engine, known, uniforms) == want[0]);
        EXPECT(PJ_OK, pj_engine_wait(engine));
        child = fork();
        if (child == 0) {
            int again;
            pj_stats stats;
            memset(&stats, 0, sizeof stats);
            stats.struct_size = sizeof stats;
            for (again = 0; again < 4; again++) {
                CHECK(run(engine, known, uniforms) == want[0]);
                CHECK(run(engine, fresh, uniforms) == want[1]);
                EXPECT(PJ_OK, pj_engine_wait(engine));
            }
            EXPECT(PJ_OK, pj_engine_stats(engine, &stats));
            CHECK(stats.compilations == 0);
            EXPECT(PJ_OK, pj_engine_clear(engine));
            EXPECT(PJ_OK, pj_gpu_free(gpu));
            pj_engine_free(engine);
            free(uniforms);
            /* An engine of its own has its threads. */
            engine = engine_of(&o);
            uniforms = some_uniforms();
            CHECK(run(engine, known, uniforms) == want[0]);
            EXPECT(PJ_OK, pj_engine_wait(engine));
            pj_engine_free(engine);
            free(uniforms);
            /* Without the sanitizers' search for leaks, which finds what the parent's threads hold. */
            _exit(failures != 0);
        }
        CHECK(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    EXPECT(PJ_OK, pj_gpu_free(gpu));
    pj_engine_free(engine);
    free(uniforms);
    if (failures == 0)
        puts("as the header says");
    return failures != 0;
}
