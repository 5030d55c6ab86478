/*
 * A host whose address space is limited, in steps: each child process gets some more than it has. Every
 * call gives a result or PJ_NO_MEMORY, and no child is killed. `memory_limit interpreter` requests no
 * native code, `memory_limit background` a compiler thread.
 */
#define _GNU_SOURCE
#include "common.h"

#include <sys/resource.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

/* The address space in use, in bytes. */
static size_t in_use(void)
{
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%lu", &pages) != 1)
        abort();
    fclose(file);
    return (size_t)pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* Each call may lack memory. Returns whether all had enough, 2 if native code was there too. */
static int calls(const pj_options *o)
{
    static pj_unit unit[2];
    static pj_registers registers[64];
    static const pj_device device = {sizeof device, PJ_DEVICE_KNOWN, PJ_DEVICE_KNOWN, 0, 0};
    pj_uniforms *uniforms = some_uniforms();
    pj_engine *engine = NULL;
    pj_shader *shader = NULL;
    pj_gpu *gpu = NULL;
    pj_gpu_code *code = NULL;
    const pj_batch batch = batch_of_32(registers);
    pj_shader_info info;
    pj_analysis analysis;
    uint32_t words[COUNT(vertex_code)], n;
    void *aligned = (void *)(((uintptr_t)unit + 15) & ~(uintptr_t)15);
    pj_status status = pj_engine_new(o, &engine);
    int native = 0, whole = status == PJ_OK;
    CHECK(status == PJ_OK || status == PJ_NO_MEMORY);
    for (n = 0; n < 20 && status == PJ_OK; n++) {
        vertex_code_from(n, words);
        status = pj_shader_get(engine, words, COUNT(words), vertex_opdescs, COUNT(vertex_opdescs), 0, PJ_VERTEX, &shader);
        CHECK(status == PJ_OK || status == PJ_NO_MEMORY);
        if (status != PJ_OK) {
            CHECK(strstr(pj_last_error(), "KiB of memory") != NULL);
            whole = 0;
            break;
        }
        EXPECT(PJ_END, pj_run(shader, aligned, uniforms, NULL, NULL));
        EXPECT(PJ_END, pj_run_batch(shader, aligned, uniforms, &batch));
        EXPECT(PJ_OK, pj_engine_wait(engine));
        EXPECT(PJ_END, pj_run_batch(shader, aligned, uniforms, &batch));
        memset(&info, 0, sizeof info);
        info.struct_size = sizeof info;
        EXPECT(PJ_OK, pj_shader_info_get(shader, &info));
        native += info.tier == PJ_TIER_NATIVE;
        memset(&analysis, 0, sizeof analysis);
        analysis.struct_size = sizeof analysis;
        status = pj_shader_analyse(shader, &analysis);
        CHECK(status == PJ_OK || status == PJ_NO_MEMORY);
        status = pj_gpu_code_get(shader, NULL, &device, &code);
        CHECK(status == PJ_OK || status == PJ_NO_MEMORY);
        if (status == PJ_OK)
            pj_gpu_code_free(code);
        whole &= status == PJ_OK;
        status = PJ_OK;
        pj_shader_release(shader);
    }
    if (engine) {
        status = pj_gpu_new(engine, &gpu);
        CHECK(status == PJ_OK || status == PJ_NO_MEMORY);
        if (status == PJ_OK)
            EXPECT(PJ_OK, pj_gpu_free(gpu));
    }
    pj_engine_free(engine);
    free(uniforms);
    return whole ? native == 20 ? 2 : 1 : 0;
}

static void ignore_event(void *user, uint32_t kind, const char *text)
{
    (void)user, (void)kind, (void)text;
}

int main(int argc, char **argv)
{
    pj_options o = PJ_OPTIONS_INIT;
    const int steps = 4 * (argc > 2 ? atoi(argv[2]) : 8);
    int step, kinds[3] = {0, 0, 0};
    o.backend = argc > 1 && strcmp(argv[1], "interpreter") == 0 ? PJ_INTERPRETER : PJ_NATIVE;
    o.threads = argc > 1 && strcmp(argv[1], "background") == 0;
    o.compile_after = 1;
    o.event = ignore_event;
    for (step = 0; step < steps; step++) {
        int status = 0;
        const pid_t child = fork();
        if (child == 0) {
            /* From nothing to 96 MiB, more densely where less is left. */
            const size_t more = (size_t)(96 << 10) * (size_t)step / (size_t)steps * (size_t)step / (size_t)steps << 10;
            const struct rlimit limit = {in_use() + more, in_use() + more};
            if (setrlimit(RLIMIT_AS, &limit) != 0)
                abort();
            status = calls(&o);
            _exit(failures ? 9 : status);
        }
        CHECK(child > 0 && waitpid(child, &status, 0) == child);
        if (!WIFEXITED(status) || WEXITSTATUS(status) > 2) {
            fprintf(stderr, "step %d of %d: wait status %x\n", step, steps, (unsigned)status);
            failures++;
        } else {
            kinds[WEXITSTATUS(status)]++;
        }
    }
    fprintf(stderr, "%d lacked memory, %d had no native code, %d had all\n", kinds[0], kinds[1], kinds[2]);
    CHECK(kinds[0] > 0 && (kinds[2] > 0) == (o.backend == PJ_NATIVE));
    if (failures == 0)
        puts("as the header says");
    return failures != 0;
}
