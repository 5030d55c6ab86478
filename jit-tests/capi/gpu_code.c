/*
 * Code for the host's GPU: what the header says of wrong arguments, sizes, texts, uniform blocks and
 * the self-test. `gpu_code interpreter` requests no native code.
 */
#define _DEFAULT_SOURCE
#include "common.h"


static pj_interface an_interface(void)
{
    pj_interface interface;
    memset(&interface, 0, sizeof interface);
    interface.struct_size = sizeof interface;
    return interface;
}

/* Attributes at the numbers of their registers. */
static void locate(pj_attribute attributes[16])
{
    uint32_t n;
    memset(attributes, 0, 16 * sizeof *attributes);
    for (n = 0; n < 16; n++)
        attributes[n].location = n;
}

static pj_device a_device(void)
{
    pj_device device = {sizeof device, PJ_DEVICE_DECLARED, PJ_DEVICE_DECLARED, PJ_DEVICE_UNKNOWN, 0};
    return device;
}

/* The status for an interface and a device; what it made is freed. */
static pj_status get(const pj_shader *shader, const pj_interface *interface, const pj_device *device)
{
    pj_gpu_code *code = NULL;
    pj_status status;
    status = pj_gpu_code_get(shader, interface, device, &code);
    CHECK((status == PJ_OK) == (code != NULL));
    pj_gpu_code_free(code);
    return status;
}

/* Whether it is the number of an output component, a constant or a colour. */
static int is_component(unsigned n)
{
    return n <= PJ_COMPONENT_ONE || (n >= PJ_COMPONENT_COLOUR && n < PJ_COMPONENT_COLOUR + 64);
}

static void null_pointers(const pj_shader *shader)
{
    const pj_device device = a_device();
    pj_gpu_code_info info;
    pj_gpu_self_test test;
    pj_gpu_code *code = NULL;
    memset(&info, 0, sizeof info);
    memset(&test, 0, sizeof test);
    info.struct_size = sizeof info;
    test.struct_size = sizeof test;
    EXPECT(PJ_OK, get(shader, NULL, &device));
    EXPECT(PJ_NULL, get(NULL, NULL, &device));
    EXPECT(PJ_NULL, get(shader, NULL, NULL));
    EXPECT(PJ_NULL, pj_gpu_code_get(shader, NULL, &device, NULL));
    EXPECT(PJ_NULL, pj_gpu_code_info_get(NULL, &info));
    EXPECT(PJ_NULL, pj_gpu_code_glsl(NULL, PJ_GLSL_VULKAN, NULL, 0));
    EXPECT(PJ_NULL, pj_gpu_code_uniforms(NULL, shader, NULL, NULL, NULL, 0));
    EXPECT(PJ_NULL, pj_gpu_self_test_get(PJ_F32, NULL, &device, NULL, &test));
    EXPECT(PJ_NULL, pj_gpu_self_test_get(PJ_F32, NULL, &device, &code, NULL));
    EXPECT(PJ_NULL, pj_gpu_self_test_get(PJ_F32, NULL, NULL, &code, &test));
    EXPECT(PJ_NULL, pj_gpu_self_test_differences(NULL, NULL, 0));
    CHECK(code == NULL);
    EXPECT(PJ_OK, pj_gpu_code_get(shader, NULL, &device, &code));
    EXPECT(PJ_NULL, pj_gpu_code_info_get(code, NULL));
    EXPECT(PJ_NULL, pj_gpu_code_uniforms(code, NULL, NULL, NULL, &info, sizeof info));
    EXPECT(PJ_NULL, pj_gpu_code_uniforms(code, shader, NULL, NULL, NULL, 0));
    /* No self-test. */
    EXPECT(PJ_INVALID_ARGUMENT, pj_gpu_self_test_differences(code, NULL, 0));
    pj_gpu_code_free(code);
    pj_gpu_code_free(NULL);
}

/* Every number of the structures beyond its bounds. */
static void numbers_out_of_range(const pj_shader *shader)
{
    static const uint32_t wrong[] = {0x7FFFFFFF, 0x80000000, 0xFFFFFFFF};
    const pj_interface good = an_interface();
    const pj_device device = a_device();
    size_t n, field;
    for (n = 0; n < COUNT(wrong); n++) {
        for (field = 0; field < 6; field++) {
            pj_interface interface = good;
            pj_varying varying = {0, 1, {0, 0, 0, 0}};
            pj_attribute attributes[16];
            locate(attributes);
            interface.outputs = PJ_OUTPUT_MAPPED;
            interface.attributes = attributes;
            interface.varyings = &varying;
            interface.varying_count = 1;
            EXPECT(PJ_OK, get(shader, &interface, &device));
            *(field == 0   ? &interface.stage
              : field == 1 ? &interface.outputs
              : field == 2 ? &interface.position
              : field == 3 ? &interface.uniform_order
              : field == 4 ? &interface.packed_integers
                           : &varying.count) = wrong[n];
            EXPECT(PJ_INVALID_ARGUMENT, get(shader, &interface, &device));
        }
        for (field = 0; field < 3; field++) {
            pj_device other = device;
            *(field == 0 ? &other.special_values : field == 1 ? &other.rounding : &other.subnormals) = wrong[n];
            EXPECT(PJ_INVALID_ARGUMENT, get(shader, &good, &other));
        }
    }
    for (n = 0; n < 256; n++) {
        pj_interface interface = good;
        pj_varying varying = {0, 1, {0, 0, 0, 0}};
        interface.outputs = PJ_OUTPUT_MAPPED;
        interface.varyings = &varying;
        interface.varying_count = 1;
        varying.components[0] = (uint8_t)n;
        EXPECT(is_component(n) ? PJ_OK : PJ_INVALID_ARGUMENT, get(shader, &interface, &device));
        varying.components[0] = 0;
        interface.position = PJ_POSITION | PJ_POSITION_CLIP_PLANE;
        interface.clip_block.binding = 1;
        interface.position_components[3] = (uint8_t)n;
        EXPECT(is_component(n) ? PJ_OK : PJ_INVALID_ARGUMENT, get(shader, &interface, &device));
    }
    for (n = 0; n < 9; n++) {
        pj_interface interface = good;
        pj_attribute attributes[16];
        locate(attributes);
        interface.attributes = attributes;
        attributes[15].kind = (uint32_t)n;
        EXPECT((n & ~4u) <= 2 ? PJ_OK : PJ_INVALID_ARGUMENT, get(shader, &interface, &device));
    }
    {
        static const pj_varying twice[65] = {{3, 1, {0, 0, 0, 0}}, {3, 1, {0, 0, 0, 0}}};
        pj_interface interface = good;
        interface.outputs = PJ_OUTPUT_MAPPED;
        interface.varyings = twice;
        interface.varying_count = 65;
        EXPECT(PJ_INVALID_ARGUMENT, get(shader, &interface, &device));
        interface.varying_count = 2;
        EXPECT(PJ_INVALID_ARGUMENT, get(shader, &interface, &device));
        CHECK(strstr(pj_last_error(), "varyings 0 and 1 have location 3") != NULL);
        interface.varyings = NULL;
        EXPECT(PJ_NULL, get(shader, &interface, &device));
        interface.varying_count = 0;
        interface.stage = PJ_STAGE_COMPUTE;
        EXPECT(PJ_INVALID_ARGUMENT, get(shader, &interface, &device));
        /* The bindings of all three are zero. */
        interface.outputs = PJ_OUTPUT_BUFFER;
        EXPECT(PJ_INVALID_ARGUMENT, get(shader, &interface, &device));
        CHECK(strstr(pj_last_error(), "the uniforms and the inputs have binding 0 of set 0; help: correct") != NULL);
        interface.input_buffer.binding = 1;
        interface.output_buffer.set = 1;
        EXPECT(PJ_OK, get(shader, &interface, &device));
        interface.clip_block.binding = 1; /* not in use */
        EXPECT(PJ_OK, get(shader, &interface, &device));
        interface.position = PJ_POSITION; /* there is no vertex to place */
        EXPECT(PJ_INVALID_ARGUMENT, get(shader, &interface, &device));
        CHECK(strstr(pj_last_error(), "pj_interface.position is 1") != NULL);
    }
    {
        pj_interface interface = good;
        pj_attribute attributes[16];
        locate(attributes);
        interface.attributes = attributes;
        attributes[1].location = 0;
        EXPECT(PJ_INVALID_ARGUMENT, get(shader, &interface, &device));
        CHECK(strstr(pj_last_error(), "the attributes of v0 and v1 have location 0") != NULL);
        locate(attributes);
        attributes[15].location = 0; /* the shader does not read v15 */
        EXPECT(PJ_OK, get(shader, &interface, &device));
    }
}

/* Every size but those of the structures. */
static void sizes(const pj_shader *shader)
{
    size_t size;
    for (size = 0; size <= 4104; size++) {
        pj_interface *interface = (pj_interface *)block(size < 8 ? 8 : size);
        pj_device *device = (pj_device *)block(size < 8 ? 8 : size);
        const pj_device good = a_device();
        memcpy(device, &good, size < sizeof good ? (size < 8 ? 8 : size) : sizeof good);
        interface->struct_size = device->struct_size = size;
        EXPECT(size == sizeof *interface ? PJ_OK : PJ_INVALID_ARGUMENT, get(shader, interface, &good));
        EXPECT(size == sizeof *device ? PJ_OK : PJ_INVALID_ARGUMENT, get(shader, NULL, device));
        free(interface);
        free(device);
    }
}

static void reasons(const pj_engine *engine, const pj_shader *shader)
{
    /* add o0, r0, v0: r0 is that of the vertex before; mov r0, v0 */
    static const uint32_t carried_code[] = {0x00000800 | 0x10 << 12, 0x4E000000, 0x88000000};
    static const uint32_t carried_opdescs[] = {0x6C36F};
    pj_shader *geometry = SHADER_OF(engine, geometry, PJ_GEOMETRY);
    pj_shader *carried = SHADER_OF(engine, carried, PJ_VERTEX);
    pj_device device = a_device();
    EXPECT(PJ_NO_GPU_CODE, get(geometry, NULL, &device));
    CHECK(strstr(pj_last_error(), "a geometry program has no code for a GPU") != NULL);
    EXPECT(PJ_NO_GPU_CODE, get(carried, NULL, &device));
    CHECK(strstr(pj_last_error(), "may hold values of an earlier vertex") != NULL);
    device.special_values = PJ_DEVICE_UNKNOWN;
    EXPECT(PJ_NO_GPU_CODE, get(shader, NULL, &device));
    CHECK(strstr(pj_last_error(), "shaderSignedZeroInfNanPreserveFloat32") != NULL);
    device = a_device();
    device.rounding = PJ_DEVICE_UNKNOWN;
    EXPECT(PJ_NO_GPU_CODE, get(shader, NULL, &device));
    CHECK(strstr(pj_last_error(), "shaderRoundingModeRTEFloat32") != NULL);
    pj_shader_release(geometry);
    pj_shader_release(carried);
}

static void contents(const pj_shader *shader)
{
    const pj_device device = a_device();
    pj_interface interface = an_interface();
    pj_gpu_code *code = NULL;
    pj_gpu_code_info info;
    pj_unit *unit = (pj_unit *)block(sizeof *unit);
    pj_uniforms *uniforms = some_uniforms();
    uint32_t order, packed;
    memset(&info, 0, sizeof info);
    info.struct_size = sizeof info;
    for (order = 0; order < 6; order++)
        for (packed = 0; packed < 2; packed++) {
            static const uint32_t bools_at[6][2] = {{0, 0}, {0, 0}, {64, 16}, {1600, 1552}, {1536, 1536}, {1600, 1552}};
            static const uint32_t floats_at[6][2] = {{80, 32}, {16, 16}, {80, 32}, {64, 16}, {0, 0}, {0, 0}};
            static const uint32_t ints_at[6][2] = {{16, 16}, {1552, 1552}, {0, 0}, {0, 0}, {1552, 1552}, {1536, 1536}};
            unsigned char *bytes;
            uint32_t number;
            size_t n;
            interface.uniform_order = order;
            interface.packed_integers = packed;
            EXPECT(PJ_OK, pj_gpu_code_get(shader, &interface, &device, &code));
            EXPECT(PJ_OK, pj_gpu_code_info_get(code, &info));
            CHECK(info.inputs == 3 && info.outputs == 3 && info.spirv[0] == 0x07230203 && info.spirv_words > 100);
            CHECK(!info.equal_subnormals && !info.assumed_state && !info.assumed_temps && !info.assumed_outputs);
            bytes = (unsigned char *)block(info.block_bytes);
            EXPECT(PJ_INVALID_ARGUMENT, pj_gpu_code_uniforms(code, shader, unit, uniforms, bytes, info.block_bytes - 1));
            EXPECT(PJ_NULL, pj_gpu_code_uniforms(code, shader, unit, NULL, bytes, info.block_bytes));
            EXPECT(PJ_MISALIGNED, pj_gpu_code_uniforms(code, shader, (char *)unit + 4, uniforms, bytes, info.block_bytes));
            EXPECT(PJ_OK, pj_gpu_code_uniforms(code, shader, unit, uniforms, bytes, info.block_bytes));
            memcpy(&number, bytes + bools_at[order][packed], 4);
            CHECK(number == 1 << 3);
            CHECK(memcmp(bytes + floats_at[order][packed], uniforms->c, sizeof uniforms->c) == 0);
            for (n = 0; n < 3; n++) {
                const uint32_t at = ints_at[order][packed] + 16;
                memcpy(&number, bytes + (packed ? at - 16 + 4 : at + 4 * n), 4);
                CHECK((packed ? number >> 8 * n & 255 : number) == uniforms->i[1][n]);
            }
            free(bytes);
            pj_gpu_code_free(code);
        }
    free(unit);
    free(uniforms);
}

static void texts(const pj_shader *shader)
{
    static const char *const starts[] = {"#version 450", "#version 430", "#version 310 es"};
    const pj_device device = a_device();
    pj_gpu_code *code = NULL;
    uint32_t dialect;
    EXPECT(PJ_OK, pj_gpu_code_get(shader, NULL, &device, &code));
    for (dialect = 0; dialect < 3; dialect++) {
        const int64_t length = pj_gpu_code_glsl(code, dialect, NULL, 0);
        char *text = (char *)block((size_t)length + 1);
        CHECK(length > 100);
        EXPECT(length, pj_gpu_code_glsl(code, dialect, text, 10));
        CHECK(strlen(text) == 9);
        EXPECT(length, pj_gpu_code_glsl(code, dialect, text, (size_t)length + 1));
        CHECK(strlen(text) == (size_t)length && strncmp(text, starts[dialect], strlen(starts[dialect])) == 0);
        free(text);
    }
    EXPECT(PJ_INVALID_ARGUMENT, pj_gpu_code_glsl(code, 3, NULL, 0));
    pj_gpu_code_free(code);
}

static void self_tests(const pj_engine *engine)
{
    pj_device device = a_device();
    size_t counts[2];
    uint32_t precision, n;
    (void)engine;
    for (precision = PJ_F32; precision <= PJ_F24_TOWARD_ZERO; precision++) {
        pj_gpu_code *code = NULL;
        pj_gpu_self_test test;
        pj_registers *outputs;
        memset(&test, 0, sizeof test);
        test.struct_size = sizeof test;
        for (n = 0; n < 2; n++) {
            device.subnormals = n ? PJ_DEVICE_DECLARED : PJ_DEVICE_UNKNOWN;
            pj_gpu_code_free(code);
            EXPECT(PJ_OK, pj_gpu_self_test_get(precision, NULL, &device, &code, &test));
            counts[n] = test.count;
        }
        /* In single precision subnormal numbers are among the inputs if the device keeps them. */
        CHECK(counts[1] > 100 && (counts[0] < counts[1]) == (precision == PJ_F32));
        CHECK(test.block_bytes == 1616 && test.block != NULL && test.inputs != NULL);
        outputs = (pj_registers *)block(test.count * sizeof *outputs);
        memcpy(outputs, test.outputs, test.count * sizeof *outputs);
        EXPECT(0, pj_gpu_self_test_differences(code, outputs[0][0], test.count));
        EXPECT(64, pj_gpu_self_test_differences(code, outputs[0][0], test.count - 1));
        outputs[test.count - 1][15][3] += 1;
        outputs[0][0][0] += 1;
        EXPECT(2, pj_gpu_self_test_differences(code, outputs[0][0], test.count));
        EXPECT(PJ_NULL, pj_gpu_self_test_differences(code, NULL, 1));
        free(outputs);
        pj_gpu_code_free(code);
    }
    {
        pj_gpu_code *code = NULL;
        pj_gpu_self_test test;
        memset(&test, 0, sizeof test);
        test.struct_size = sizeof test;
        EXPECT(PJ_INVALID_ARGUMENT, pj_gpu_self_test_get(3, NULL, &device, &code, &test));
        test.struct_size--;
        EXPECT(PJ_INVALID_ARGUMENT, pj_gpu_self_test_get(0, NULL, &device, &code, &test));
        CHECK(code == NULL);
    }
}

int main(int argc, char **argv)
{
    pj_options o;
    pj_engine *engine;
    pj_shader *shader;
    if (argc > 1 && strcmp(argv[1], "interpreter") == 0)
        backend = PJ_INTERPRETER;
    o = options();
    engine = engine_of(&o);
    shader = SHADER_OF(engine, vertex, PJ_VERTEX);
    null_pointers(shader);
    numbers_out_of_range(shader);
    sizes(shader);
    reasons(engine, shader);
    contents(shader);
    texts(shader);
    self_tests(engine);
    pj_shader_release(shader);
    pj_engine_free(engine);
    if (!failures)
        puts("as the header says");
    return failures != 0;
}
