/*
 * A host that commits every misuse of emit buffers that the header says is detected, with one invocation
 * and with batches. `emit_buffers interpreter` requests no native code.
 */
#define _POSIX_C_SOURCE 200809L
#include "common.h"

/* Each field of an emit buffer with invalid values: nothing runs, and nothing is written. */
static void invalid_emit_buffers(struct running *with)
{
    pj_emitted *vertices = (pj_emitted *)block(4 * sizeof *vertices);
    pj_unit *before = (pj_unit *)block(sizeof *before);
    const size_t too_many[] = {SIZE_MAX, SIZE_MAX / 2, SIZE_MAX / sizeof *vertices, SIZE_MAX / sizeof *vertices + 1};
    pj_emit_buffer buffer;
    size_t passed = 0, n;
    memset(&buffer, 0, sizeof buffer);
    buffer.struct_size = sizeof buffer;
    buffer.vertices = vertices;
    buffer.capacity = 3;
    buffer.full = count_full;
    buffer.user = &passed;
    memcpy(before, with->unit, sizeof *before);
    EXPECT(PJ_NULL, pj_run_geometry(NULL, with->unit, with->uniforms, &buffer));
    EXPECT(PJ_NULL, pj_run_geometry(with->geometry, NULL, with->uniforms, &buffer));
    EXPECT(PJ_NULL, pj_run_geometry(with->geometry, with->unit, NULL, &buffer));
    EXPECT(PJ_NULL, pj_run_geometry(with->geometry, with->unit, with->uniforms, NULL));
    buffer.full = NULL;
    EXPECT(PJ_NULL, try_emit_buffer(&buffer, with));
    buffer.full = count_full;
    buffer.vertices = NULL;
    EXPECT(PJ_NULL, try_emit_buffer(&buffer, with));
    for (n = 1; n < 64; n++) {
        buffer.vertices = (pj_emitted *)(void *)((unsigned char *)vertices + n);
        EXPECT(PJ_MISALIGNED, try_emit_buffer(&buffer, with));
    }
    buffer.vertices = vertices;
    buffer.capacity = 0;
    EXPECT(PJ_INVALID_ARGUMENT, try_emit_buffer(&buffer, with));
    for (n = 0; n < COUNT(too_many); n++) {
        buffer.capacity = too_many[n];
        EXPECT(PJ_INVALID_ARGUMENT, try_emit_buffer(&buffer, with));
        buffer.capacity = 3;
        buffer.count = too_many[n];
        EXPECT(PJ_INVALID_ARGUMENT, try_emit_buffer(&buffer, with));
        buffer.count = 0;
    }
    buffer.count = 4;
    EXPECT(PJ_INVALID_ARGUMENT, try_emit_buffer(&buffer, with));
    CHECK(buffer.count == 4 && passed == 0 && memcmp(before, with->unit, sizeof *before) == 0);
    for (n = 0; n < 4 * sizeof *vertices; n++)
        CHECK(((unsigned char *)vertices)[n] == 0);
    /* A full buffer is valid, and a program that emits nothing leaves it so. */
    buffer.count = 3;
    EXPECT(PJ_END, pj_run_geometry(with->shader, with->unit, with->uniforms, &buffer));
    CHECK(buffer.count == 3 && passed == 0);
    EXPECT(PJ_END, try_emit_buffer(&buffer, with));
    CHECK(buffer.count == 3 && passed == 3);
    free(vertices);
    free(before);
}

/* Invalid batches of geometry invocations, and invalid buffers for them: nothing runs. */
static void invalid_emitting_batches(struct running *with)
{
    pj_emitted *vertices = (pj_emitted *)block(9 * sizeof *vertices);
    pj_registers *inputs = (pj_registers *)block(sizeof *inputs);
    pj_unit *before = (pj_unit *)block(sizeof *before);
    pj_batch batch = geometry_batch(inputs[0][0]);
    pj_emit_buffer buffer;
    size_t passed = 0, n;
#define TRY(shader, unit, uniforms) pj_run_geometry_batch(shader, unit, uniforms, &batch, &buffer)
#define TRY_VALID() TRY(with->geometry, with->unit, with->uniforms)
    memset(&buffer, 0, sizeof buffer);
    buffer.struct_size = sizeof buffer;
    buffer.vertices = vertices;
    buffer.capacity = 9;
    buffer.full = count_full;
    buffer.user = &passed;
    memcpy(before, with->unit, sizeof *before);
    EXPECT(PJ_NULL, TRY(NULL, with->unit, with->uniforms));
    EXPECT(PJ_NULL, TRY(with->geometry, NULL, with->uniforms));
    EXPECT(PJ_NULL, TRY(with->geometry, with->unit, NULL));
    EXPECT(PJ_NULL, pj_run_geometry_batch(with->geometry, with->unit, with->uniforms, NULL, &buffer));
    EXPECT(PJ_NULL, pj_run_geometry_batch(with->geometry, with->unit, with->uniforms, &batch, NULL));
    batch.inputs = NULL;
    EXPECT(PJ_NULL, TRY_VALID());
    for (n = 1; n < 4; n++) {
        batch.inputs = (const float *)(const void *)((const unsigned char *)inputs + n);
        EXPECT(PJ_MISALIGNED, TRY_VALID());
    }
    batch.inputs = with->unit->v[0];
    EXPECT(PJ_OVERLAP, TRY_VALID());
    batch.inputs = vertices[8].outputs[15];
    batch.count = 1;
    EXPECT(PJ_OVERLAP, TRY_VALID());
    batch = geometry_batch(inputs[0][0]);
    batch.count = SIZE_MAX / 16;
    EXPECT(PJ_INVALID_ARGUMENT, TRY_VALID());
    batch.count = 3;
    batch.input_stride = 17;
    EXPECT(PJ_INVALID_ARGUMENT, TRY_VALID());
    batch.input_stride = 1;
    batch.output_mask = 1;
    EXPECT(PJ_INVALID_ARGUMENT, TRY_VALID());
    batch.output_mask = 0;
    INVALID(PJ_INVALID_ARGUMENT, batch, preserve_unit, 1, TRY_VALID());
    INVALID(PJ_INVALID_ARGUMENT, batch, reserved, 1, TRY_VALID());
    buffer.count = 10;
    EXPECT(PJ_INVALID_ARGUMENT, TRY_VALID());
    buffer.count = 0;
    buffer.capacity = 0;
    EXPECT(PJ_INVALID_ARGUMENT, TRY_VALID());
    buffer.capacity = 9;
    buffer.full = NULL;
    EXPECT(PJ_NULL, TRY_VALID());
    buffer.full = count_full;
    buffer.vertices = NULL;
    EXPECT(PJ_NULL, TRY_VALID());
    buffer.vertices = (pj_emitted *)(void *)with->unit;
    EXPECT(PJ_OVERLAP, TRY_VALID());
    buffer.vertices = vertices;
    CHECK(buffer.count == 0 && passed == 0 && memcmp(before, with->unit, sizeof *before) == 0);
    for (n = 0; n < 9 * sizeof *vertices; n++)
        CHECK(((unsigned char *)vertices)[n] == 0);
    /* Of no invocation the inputs may be null. */
    batch.count = 0;
    batch.inputs = NULL;
    EXPECT(PJ_END, TRY_VALID());
    CHECK(buffer.count == 0);
    batch = geometry_batch(inputs[0][0]);
    EXPECT(PJ_END, TRY_VALID());
    CHECK(buffer.count == 9 && passed == 0);
    EXPECT(PJ_END, TRY_VALID());
    CHECK(buffer.count == 9 && passed == 9);
#undef TRY
#undef TRY_VALID
    free(vertices);
    free(inputs);
    free(before);
}

/* Units, uniforms, vertices and the structure at random addresses in one block. */
static void overlapping_emit_buffers(struct running *with)
{
    enum { ARENA = 8192 };
    unsigned char *arena = (unsigned char *)block(ARENA), *before = (unsigned char *)block(ARENA);
    int ran = 0, rejected = 0;
    size_t n;
    random_state = 2;
    for (n = 0; n < 4000; n++) {
        const size_t capacity = 1 + random_number() % 4, bytes = capacity * sizeof(pj_emitted);
        const size_t unit = random_number() % (ARENA - sizeof(pj_unit)) & ~(size_t)15;
        const size_t uniforms = random_number() % (ARENA - sizeof(pj_uniforms)) & ~(size_t)15;
        const size_t vertices = random_number() % (ARENA - bytes) & ~(size_t)63;
        const size_t inside = random_number() % (ARENA - sizeof(pj_emit_buffer)) & ~(size_t)7;
        const int apart = !overlap(inside, sizeof(pj_emit_buffer), unit, sizeof(pj_unit)) &&
                          !overlap(inside, sizeof(pj_emit_buffer), uniforms, sizeof(pj_uniforms)) && n % 2;
        pj_emit_buffer outside, *buffer = apart ? (pj_emit_buffer *)(void *)(arena + inside) : &outside;
        int32_t status, want = PJ_END;
        size_t passed = 0, k;
        memset(buffer, 0, sizeof *buffer);
        buffer->struct_size = sizeof *buffer;
        buffer->vertices = (pj_emitted *)(void *)(arena + vertices);
        buffer->capacity = capacity;
        buffer->full = count_full;
        buffer->user = &passed;
        if (overlap(vertices, bytes, unit, sizeof(pj_unit)) || overlap(vertices, bytes, uniforms, sizeof(pj_uniforms)) ||
            (apart && overlap(vertices, bytes, inside, sizeof *buffer)))
            want = PJ_OVERLAP;
        memcpy(before, arena, ARENA);
        status = pj_run_geometry(with->geometry, arena + unit, arena + uniforms, buffer);
        EXPECT(want, status);
        *(status < 0 ? &rejected : &ran) += 1;
        if (status == PJ_END)
            CHECK(passed + buffer->count == 3 && buffer->count <= capacity);
        for (k = 0; k < ARENA; k++)
            if (arena[k] != before[k] &&
                (status < 0 || !(overlap(k, 1, unit, sizeof(pj_unit)) || overlap(k, 1, vertices, bytes) ||
                                 (apart && overlap(k, 1, inside, sizeof *buffer))))) {
                fprintf(stderr, "byte %u changed in round %u\n", (unsigned)k, (unsigned)n);
                failures++;
                break;
            }
    }
    CHECK(ran > 100 && rejected > 100);
    free(arena);
    free(before);
}

int main(int argc, char **argv)
{
    struct running with;
    begin(&with, argc, argv);
    invalid_emit_buffers(&with);
    overlapping_emit_buffers(&with);
    invalid_emitting_batches(&with);
    return end(&with);
}
