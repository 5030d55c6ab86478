/*
 * A host compiled with the header of 0.3, without picajit.h: what it had of pj_options places
 * `store_directory` where a later version had another field. Each library since 0.7 refuses it, with a
 * text where that header had one. So does it refuse hosts of later headers.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef struct {
    size_t struct_size;
    uint32_t backend, precision, fuel, crosscheck;
    size_t cache_bytes;
    const void *layout;
    void (*event)(void *user, uint32_t kind, const char *text);
    void *user;
    const char *profile_directory;
    uint32_t profiler, threads;
    const void *memory;
    const char *store_directory;
} old_options;

int32_t pj_engine_new(const old_options *options, void **engine, char *message, size_t message_bytes);
int32_t pj_engine_new_for(uint32_t version, const void *options, void **engine);
const char *pj_status_text(int32_t status);
const char *pj_last_error(void);
uint32_t pj_version(void);
void pj_engine_free(void *engine);

int main(void)
{
    old_options options;
    char message[200] = "", expected[200];
    void *engine = &options;
    const unsigned version = pj_version(), next = (version >> 8 & 0xFF) + 1;
    int good = 1;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    options.store_directory = "/tmp";
    good &= pj_engine_new(&options, &engine, message, sizeof message) == -12 && engine == &options;
    good &= strstr(message, "the host was compiled with a header before 0.7, the library is ") != NULL;
    good &= strcmp(message, pj_last_error()) == 0 && strcmp(pj_status_text(-12), "unknown status") != 0;
    good &= pj_engine_new(NULL, NULL, NULL, 0) == -12;
    /* Nothing of the arguments is read. */
    good &= pj_engine_new_for((version & 0xFF0000) | next << 8, (const void *)&version, &engine) == -12 && engine == &options;
    snprintf(expected, sizeof expected, "the header of %u.%u.0, the library is %u.%u.%u;", version >> 16, next, version >> 16,
             version >> 8 & 0xFF, version & 0xFF);
    good &= strstr(pj_last_error(), expected) != NULL;
    good &= pj_engine_new_for(version ^ 0xFF, NULL, &engine) == 0; /* another patch */
    pj_engine_free(engine);
    puts(good ? "as the header says" : pj_last_error());
    return !good;
}
