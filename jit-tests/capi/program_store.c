/*
 * A host that starts twice. Its first engine writes programs to a store, and its second engine
 * knows them before the first request, whatever other files the directory holds. `program_store
 * interpreter` requests no native code, `program_store background` a compiler thread.
 */
#define _POSIX_C_SOURCE 200809L
#include "common.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PROGRAMS = 12 };

static char directory[4096], path[sizeof directory + 256];

struct events {
    int store_failures, other_events;
};

static void event(void *user, uint32_t kind, const char *text)
{
    struct events *events = (struct events *)user;
    *(kind == PJ_EVENT_STORE_FAILED ? &events->store_failures : &events->other_events) += 1;
    CHECK(strlen(text) > 10);
}

static const char *in_directory(const char *name)
{
    if ((size_t)snprintf(path, sizeof path, "%s/%s", directory, name) >= sizeof path)
        abort();
    return path;
}

static void put(const char *name, const void *bytes, size_t size)
{
    FILE *file = fopen(in_directory(name), "wb");
    if (!file || fwrite(bytes, 1, size, file) != size || fclose(file) != 0)
        abort();
}

/* Counts the files with names of programs; `name` receives one of them. May remove all files. */
static int files(char name[64], int unlinked)
{
    DIR *open = opendir(directory);
    struct dirent *entry;
    int count = 0;
    if (!open)
        return -1;
    while ((entry = readdir(open)) != NULL) {
        const size_t length = strlen(entry->d_name);
        if (unlinked && entry->d_name[0] != '.' && unlink(in_directory(entry->d_name)) != 0)
            rmdir(path);
        if (length == 37 && strcmp(entry->d_name + 32, ".pica") == 0) {
            memcpy(name, entry->d_name, length + 1);
            count++;
        }
    }
    closedir(open);
    return count;
}

/* Runs all programs, each on a unit of its own. */
static void run_all(const pj_engine *engine, pj_unit *units, const pj_uniforms *uniforms)
{
    uint32_t n, code[COUNT(vertex_code)];
    for (n = 0; n < PROGRAMS; n++) {
        pj_shader *shader;
        vertex_code_from(n, code);
        shader = n == 0 ? SHADER_OF(engine, geometry, PJ_GEOMETRY)
                        : shader_of(engine, code, COUNT(code), vertex_opdescs, COUNT(vertex_opdescs), PJ_VERTEX);
        memset(&units[n], 0, sizeof units[n]);
        units[n].v[0][0] = 2.0f + (float)n;
        units[n].v[1][3] = -1.0f;
        EXPECT(PJ_END, pj_run(shader, &units[n], uniforms, NULL, NULL));
        pj_shader_release(shader);
    }
}

static void check_stats(const pj_engine *engine, uint64_t hits, uint64_t misses, uint64_t entries)
{
    pj_stats stats;
    stats.struct_size = sizeof stats;
    EXPECT(PJ_OK, pj_engine_stats(engine, &stats));
    CHECK(stats.hits == hits && stats.misses == misses && stats.entries == entries && stats.evictions == 0);
}

static void check_preload(const pj_engine *engine, uint64_t programs, uint64_t rejected)
{
    pj_preloaded found;
    char message[100] = "before";
    memset(&found, 0xFF, sizeof found);
    found.struct_size = sizeof found;
    EXPECT(PJ_OK, pj_engine_preload(engine, &found, message, sizeof message));
    CHECK(found.programs == programs && found.rejected == rejected && found.skipped == 0);
    CHECK(strcmp(message, "before") == 0 && found.struct_size == sizeof found);
    EXPECT(PJ_OK, pj_engine_wait(engine));
}

int main(int argc, char **argv)
{
    const char *temporary = getenv("TMPDIR");
    pj_unit *first = (pj_unit *)block(PROGRAMS * sizeof *first), *second = (pj_unit *)block(PROGRAMS * sizeof *second);
    pj_uniforms *uniforms = some_uniforms();
    struct events events = {0, 0};
    char name[64] = "", message[100] = "", *own;
    pj_preloaded found;
    pj_options o;
    pj_engine *engine;
    FILE *file;
    if (argc > 1 && strcmp(argv[1], "interpreter") == 0)
        backend = PJ_INTERPRETER;
    o = options();
    o.threads = argc > 1 && strcmp(argv[1], "background") == 0;
    o.event = event;
    o.user = &events;
    /* Names in the directory must fit, too. */
    if ((size_t)snprintf(directory, sizeof directory, "%s/picajit-store-XXXXXX", temporary ? temporary : "/tmp") + 16
        > sizeof directory)
        abort();
    if (!mkdtemp(directory))
        abort();

    /* Nothing to load without a directory, or if it does not exist. The engine copies the text. */
    engine = engine_of(&o);
    check_preload(engine, 0, 0);
    pj_engine_free(engine);
    own = (char *)block(sizeof path);
    strcpy(own, in_directory("game"));
    strcpy(directory, own);
    o.store_directory = own;
    engine = engine_of(&o);
    free(own);
    o.store_directory = directory;
    CHECK(files(name, 0) == -1);
    check_preload(engine, 0, 0);
    run_all(engine, first, uniforms);
    EXPECT(PJ_OK, pj_engine_wait(engine));
    CHECK(files(name, 0) == PROGRAMS);
    pj_engine_free(engine);

    /* The second start. */
    engine = engine_of(&o);
    check_preload(engine, PROGRAMS, 0);
    check_stats(engine, 0, 0, PROGRAMS);
    run_all(engine, second, uniforms);
    check_stats(engine, PROGRAMS, 0, PROGRAMS);
    CHECK(memcmp(first, second, PROGRAMS * sizeof *first) == 0);
    EXPECT(PJ_OK, pj_engine_preload(engine, NULL, NULL, 1000));
    EXPECT(PJ_NULL, pj_engine_preload(NULL, NULL, NULL, 0));
    found.struct_size = sizeof found - 1;
    EXPECT(PJ_INVALID_ARGUMENT, pj_engine_preload(engine, &found, message, sizeof message));
    CHECK(strcmp(message, "an argument is out of range") == 0);
    pj_engine_free(engine);

    /* Foreign files: a program cut off at many lengths, rubbish, a pipe, a directory. */
    file = fopen(in_directory(name), "rb");
    {
        unsigned char bytes[300];
        const size_t size = file ? fread(bytes, 1, sizeof bytes, file) : 0;
        size_t length;
        CHECK(file && fclose(file) == 0 && size > 60 && size < sizeof bytes);
        for (length = 0; length < size; length += 7) {
            put(name, bytes, length);
            engine = engine_of(&o);
            check_preload(engine, PROGRAMS - 1, 1);
            pj_engine_free(engine);
        }
        bytes[size - 20] ^= 1;
        put(name, bytes, size);
        put("ffffffffffffffffffffffffffffffff.pica", bytes, size);
        put("rubbish", "rubbish", 7);
    }
    if (mkfifo(in_directory("fffffffffffffffffffffffffffffffe.pica"), 0600) != 0 ||
        mkdir(in_directory("fffffffffffffffffffffffffffffffd.pica"), 0700) != 0)
        abort();
    engine = engine_of(&o);
    check_preload(engine, PROGRAMS - 1, 5);
    run_all(engine, second, uniforms);
    EXPECT(PJ_OK, pj_engine_wait(engine));
    check_stats(engine, PROGRAMS - 1, 1, PROGRAMS);
    CHECK(memcmp(first, second, PROGRAMS * sizeof *first) == 0);
    /* The engine has written the broken program again. */
    check_preload(engine, PROGRAMS, 4);
    CHECK(events.store_failures == 0);
    pj_engine_free(engine);

    /* An unwritable directory is one event; everything else works. */
    o.store_directory = in_directory("rubbish");
    strcat(path, "/within");
    engine = engine_of(&o);
    run_all(engine, second, uniforms);
    EXPECT(PJ_OK, pj_engine_wait(engine));
    CHECK(memcmp(first, second, PROGRAMS * sizeof *first) == 0);
    CHECK(events.store_failures == 1 && events.other_events == 0);
    EXPECT(PJ_IO, pj_engine_preload(engine, NULL, message, sizeof message));
    CHECK(strncmp(message, "the store directory can't be read: ", 35) == 0);
    pj_engine_free(engine);
    o.store_directory = "";
    EXPECT(PJ_INVALID_ARGUMENT, pj_engine_new(&o, &engine, NULL, 0));
    o.store_directory = "\xFF\xFE is no UTF-8";
    EXPECT(PJ_INVALID_ARGUMENT, pj_engine_new(&o, &engine, NULL, 0));

    files(name, 1);
    CHECK(rmdir(directory) == 0);
    directory[strlen(directory) - strlen("/game")] = 0;
    CHECK(rmdir(directory) == 0);
    free(first);
    free(second);
    free(uniforms);
    if (failures == 0)
        puts("the next start has the same bits");
    return failures != 0;
}
