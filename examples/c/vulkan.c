/*
 * A triangle list drawn twice without a window: its vertices run on the CPU, and on the host's GPU
 * with code from pj_gpu_code_get. The images must be equal, on every Vulkan driver.
 *
 *     cc -std=c11 -Iinclude examples/c/vulkan.c -lpicajit -lvulkan -o vulkan && ./vulkan
 *
 * Every device with Vulkan 1.3 is tested first: pj_gpu_self_test_get.
 */
#include "picajit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vulkan/vulkan.h>

#define SIZE 256 /* of the image */
#define VERTICES 300
#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* dp4 o0.x, c0, v0; dp4 o0.y, c1, v0; dp4 o0.z, c2, v0; dp4 o0.w, c3, v0; mul o1, c4, v1; end */
static const uint32_t program_code[] = {0x08020000, 0x08021001, 0x08022002, 0x08023003, 0x20224084, 0x88000000};
static const uint32_t program_opdescs[] = {0x6C368, 0x6C364, 0x6C362, 0x6C361, 0x6C36F};
/* mov o0, v0; mov o1, v1; end: for vertices that ran on the CPU */
static const uint32_t copy_code[] = {0x4C000000, 0x4C201000, 0x88000000};
static const uint32_t copy_opdescs[] = {0x0036F};

/* A fragment stage whose pixel is the varying at location 0. */
static const uint32_t fragment_code[] = {
    0x07230203, 0x00010000, 0x0008000B, 0x0000000D, 0x00000000, 0x00020011, 0x00000001, 0x0006000B, 0x00000001,
    0x4C534C47, 0x6474732E, 0x3035342E, 0x00000000, 0x0003000E, 0x00000000, 0x00000001, 0x0007000F, 0x00000004,
    0x00000004, 0x6E69616D, 0x00000000, 0x00000009, 0x0000000B, 0x00030010, 0x00000004, 0x00000007, 0x00040047,
    0x00000009, 0x0000001E, 0x00000000, 0x00040047, 0x0000000B, 0x0000001E, 0x00000000, 0x00020013, 0x00000002,
    0x00030021, 0x00000003, 0x00000002, 0x00030016, 0x00000006, 0x00000020, 0x00040017, 0x00000007, 0x00000006,
    0x00000004, 0x00040020, 0x00000008, 0x00000003, 0x00000007, 0x0004003B, 0x00000008, 0x00000009, 0x00000003,
    0x00040020, 0x0000000A, 0x00000001, 0x00000007, 0x0004003B, 0x0000000A, 0x0000000B, 0x00000001, 0x00050036,
    0x00000002, 0x00000004, 0x00000000, 0x00000003, 0x000200F8, 0x00000005, 0x0004003D, 0x00000007, 0x0000000C,
    0x0000000B, 0x0003003E, 0x00000009, 0x0000000C, 0x000100FD, 0x00010038};

#define CHECK(call)                                                                                                    \
    do {                                                                                                               \
        long long status_ = (long long)(call);                                                                         \
        if (status_ != 0) {                                                                                            \
            fprintf(stderr, "line %d: %s: %lld %s\n", __LINE__, #call, status_, message);                              \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

static char message[512];

/* ---- The Vulkan device ---- */

enum { UNIFORMS, INPUTS, OUTPUTS, BUFFERS }; /* bindings of set 0 */

struct buffer {
    VkBuffer buffer;
    VkDeviceMemory memory;
    void *bytes;
};

struct gpu {
    VkPhysicalDevice physical;
    VkDevice device;
    VkQueue queue;
    VkCommandPool pool;
    VkCommandBuffer commands;
    VkDescriptorSetLayout set_layout;
    VkPipelineLayout layout;
    VkDescriptorPool descriptors;
    VkDescriptorSet set;
    struct buffer buffers[BUFFERS], pixels;
    VkImage image;
    VkDeviceMemory image_memory;
    VkImageView view;
    pj_device properties;
};

static uint32_t memory_type(const struct gpu *gpu, uint32_t allowed, VkMemoryPropertyFlags wanted)
{
    VkPhysicalDeviceMemoryProperties memory;
    uint32_t n;
    vkGetPhysicalDeviceMemoryProperties(gpu->physical, &memory);
    for (n = 0; n < memory.memoryTypeCount; n++)
        if ((allowed >> n & 1) && (memory.memoryTypes[n].propertyFlags & wanted) == wanted)
            return n;
    fprintf(stderr, "no memory of this type\n");
    exit(1);
}

static VkDeviceMemory allocate(const struct gpu *gpu, VkMemoryRequirements needs, VkMemoryPropertyFlags wanted)
{
    VkMemoryAllocateInfo info = {VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, NULL, 0, 0};
    VkDeviceMemory memory;
    info.allocationSize = needs.size;
    info.memoryTypeIndex = memory_type(gpu, needs.memoryTypeBits, wanted);
    CHECK(vkAllocateMemory(gpu->device, &info, NULL, &memory));
    return memory;
}

static struct buffer new_buffer(const struct gpu *gpu, size_t bytes)
{
    VkBufferCreateInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO};
    VkMemoryRequirements needs;
    struct buffer buffer;
    info.size = bytes;
    info.usage = VK_BUFFER_USAGE_UNIFORM_BUFFER_BIT | VK_BUFFER_USAGE_STORAGE_BUFFER_BIT |
                 VK_BUFFER_USAGE_VERTEX_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT;
    CHECK(vkCreateBuffer(gpu->device, &info, NULL, &buffer.buffer));
    vkGetBufferMemoryRequirements(gpu->device, buffer.buffer, &needs);
    buffer.memory =
        allocate(gpu, needs, VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT);
    CHECK(vkBindBufferMemory(gpu->device, buffer.buffer, buffer.memory, 0));
    CHECK(vkMapMemory(gpu->device, buffer.memory, 0, VK_WHOLE_SIZE, 0, &buffer.bytes));
    return buffer;
}

static void new_image(struct gpu *gpu)
{
    VkImageCreateInfo info = {.sType = VK_STRUCTURE_TYPE_IMAGE_CREATE_INFO};
    VkImageViewCreateInfo view = {.sType = VK_STRUCTURE_TYPE_IMAGE_VIEW_CREATE_INFO};
    VkMemoryRequirements needs;
    info.imageType = VK_IMAGE_TYPE_2D;
    info.format = view.format = VK_FORMAT_R8G8B8A8_UNORM;
    info.extent.width = info.extent.height = SIZE;
    info.extent.depth = info.mipLevels = info.arrayLayers = 1;
    info.samples = VK_SAMPLE_COUNT_1_BIT;
    info.usage = VK_IMAGE_USAGE_COLOR_ATTACHMENT_BIT | VK_IMAGE_USAGE_TRANSFER_SRC_BIT;
    CHECK(vkCreateImage(gpu->device, &info, NULL, &gpu->image));
    vkGetImageMemoryRequirements(gpu->device, gpu->image, &needs);
    gpu->image_memory = allocate(gpu, needs, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT);
    CHECK(vkBindImageMemory(gpu->device, gpu->image, gpu->image_memory, 0));
    view.image = gpu->image;
    view.viewType = VK_IMAGE_VIEW_TYPE_2D;
    view.subresourceRange.aspectMask = VK_IMAGE_ASPECT_COLOR_BIT;
    view.subresourceRange.levelCount = view.subresourceRange.layerCount = 1;
    CHECK(vkCreateImageView(gpu->device, &view, NULL, &gpu->view));
}

/* What the device reports. What it does not report counts as known, once the self-test passes. */
static pj_device properties(VkPhysicalDevice physical)
{
    VkPhysicalDeviceFloatControlsProperties controls = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FLOAT_CONTROLS_PROPERTIES};
    VkPhysicalDeviceProperties2 all = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2};
    pj_device device = {.struct_size = sizeof(pj_device)};
    all.pNext = &controls;
    vkGetPhysicalDeviceProperties2(physical, &all);
    device.special_values =
        controls.shaderSignedZeroInfNanPreserveFloat32 ? PJ_DEVICE_DECLARED : PJ_DEVICE_KNOWN;
    device.rounding = controls.shaderRoundingModeRTEFloat32 ? PJ_DEVICE_DECLARED : PJ_DEVICE_KNOWN;
    device.subnormals = controls.shaderDenormPreserveFloat32 ? PJ_DEVICE_DECLARED : PJ_DEVICE_UNKNOWN;
    return device;
}

static int queue_family(VkPhysicalDevice physical)
{
    VkQueueFamilyProperties families[16];
    uint32_t count = 16, n;
    const VkQueueFlags wanted = VK_QUEUE_GRAPHICS_BIT | VK_QUEUE_COMPUTE_BIT;
    vkGetPhysicalDeviceQueueFamilyProperties(physical, &count, families);
    for (n = 0; n < count; n++)
        if ((families[n].queueFlags & wanted) == wanted)
            return (int)n;
    return -1;
}

static void new_descriptors(struct gpu *gpu)
{
    VkDescriptorSetLayoutBinding bindings[BUFFERS] = {{0}};
    VkDescriptorSetLayoutCreateInfo layout = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO};
    VkPipelineLayoutCreateInfo pipeline = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO};
    VkDescriptorPoolSize sizes[2] = {{VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER, 1}, {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 2}};
    VkDescriptorPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO};
    VkDescriptorSetAllocateInfo set = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO};
    uint32_t n;
    for (n = 0; n < BUFFERS; n++) {
        bindings[n].binding = n;
        bindings[n].descriptorCount = 1;
        bindings[n].descriptorType =
            n == UNIFORMS ? VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER : VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
        bindings[n].stageFlags = VK_SHADER_STAGE_VERTEX_BIT | VK_SHADER_STAGE_COMPUTE_BIT;
    }
    layout.bindingCount = BUFFERS;
    layout.pBindings = bindings;
    CHECK(vkCreateDescriptorSetLayout(gpu->device, &layout, NULL, &gpu->set_layout));
    pipeline.setLayoutCount = 1;
    pipeline.pSetLayouts = &gpu->set_layout;
    CHECK(vkCreatePipelineLayout(gpu->device, &pipeline, NULL, &gpu->layout));
    pool.maxSets = 1;
    pool.poolSizeCount = COUNT(sizes);
    pool.pPoolSizes = sizes;
    CHECK(vkCreateDescriptorPool(gpu->device, &pool, NULL, &gpu->descriptors));
    set.descriptorPool = gpu->descriptors;
    set.descriptorSetCount = 1;
    set.pSetLayouts = &gpu->set_layout;
    CHECK(vkAllocateDescriptorSets(gpu->device, &set, &gpu->set));
    for (n = 0; n < BUFFERS; n++) {
        VkDescriptorBufferInfo buffer = {gpu->buffers[n].buffer, 0, VK_WHOLE_SIZE};
        VkWriteDescriptorSet write = {.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET};
        write.dstSet = gpu->set;
        write.dstBinding = n;
        write.descriptorCount = 1;
        write.descriptorType = bindings[n].descriptorType;
        write.pBufferInfo = &buffer;
        vkUpdateDescriptorSets(gpu->device, 1, &write, 0, NULL);
    }
}

static void new_gpu(struct gpu *gpu, VkPhysicalDevice physical, uint32_t family)
{
    static const float priority = 1;
    VkDeviceQueueCreateInfo queue = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO};
    VkPhysicalDeviceVulkan13Features features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES};
    VkDeviceCreateInfo device = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO};
    VkCommandPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO};
    VkCommandBufferAllocateInfo commands = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO};
    int n;
    gpu->physical = physical;
    gpu->properties = properties(physical);
    queue.queueFamilyIndex = pool.queueFamilyIndex = family;
    queue.queueCount = 1;
    queue.pQueuePriorities = &priority;
    features.dynamicRendering = VK_TRUE;
    device.pNext = &features;
    device.queueCreateInfoCount = 1;
    device.pQueueCreateInfos = &queue;
    CHECK(vkCreateDevice(physical, &device, NULL, &gpu->device));
    vkGetDeviceQueue(gpu->device, family, 0, &gpu->queue);
    pool.flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT;
    CHECK(vkCreateCommandPool(gpu->device, &pool, NULL, &gpu->pool));
    commands.commandPool = gpu->pool;
    commands.commandBufferCount = 1;
    CHECK(vkAllocateCommandBuffers(gpu->device, &commands, &gpu->commands));
    for (n = 0; n < BUFFERS; n++)
        gpu->buffers[n] = new_buffer(gpu, VERTICES * sizeof(pj_registers));
    gpu->pixels = new_buffer(gpu, 4 * SIZE * SIZE);
    new_image(gpu);
    new_descriptors(gpu);
}

static void free_buffer(const struct gpu *gpu, struct buffer *buffer)
{
    vkDestroyBuffer(gpu->device, buffer->buffer, NULL);
    vkFreeMemory(gpu->device, buffer->memory, NULL);
}

static void free_gpu(struct gpu *gpu)
{
    int n;
    for (n = 0; n < BUFFERS; n++)
        free_buffer(gpu, &gpu->buffers[n]);
    free_buffer(gpu, &gpu->pixels);
    vkDestroyImageView(gpu->device, gpu->view, NULL);
    vkDestroyImage(gpu->device, gpu->image, NULL);
    vkFreeMemory(gpu->device, gpu->image_memory, NULL);
    vkDestroyDescriptorPool(gpu->device, gpu->descriptors, NULL);
    vkDestroyPipelineLayout(gpu->device, gpu->layout, NULL);
    vkDestroyDescriptorSetLayout(gpu->device, gpu->set_layout, NULL);
    vkDestroyCommandPool(gpu->device, gpu->pool, NULL);
    vkDestroyDevice(gpu->device, NULL);
}

static VkShaderModule new_module(const struct gpu *gpu, const uint32_t *words, size_t count)
{
    VkShaderModuleCreateInfo info = {.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO};
    VkShaderModule module;
    info.codeSize = 4 * count;
    info.pCode = words;
    CHECK(vkCreateShaderModule(gpu->device, &info, NULL, &module));
    return module;
}

static VkPipelineShaderStageCreateInfo stage(VkShaderStageFlagBits stage, VkShaderModule module)
{
    VkPipelineShaderStageCreateInfo info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO};
    info.stage = stage;
    info.module = module;
    info.pName = "main";
    return info;
}

static void begin(const struct gpu *gpu)
{
    VkCommandBufferBeginInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    CHECK(vkBeginCommandBuffer(gpu->commands, &info));
}

static void submit(const struct gpu *gpu)
{
    VkSubmitInfo info = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO};
    info.commandBufferCount = 1;
    info.pCommandBuffers = &gpu->commands;
    CHECK(vkEndCommandBuffer(gpu->commands));
    CHECK(vkQueueSubmit(gpu->queue, 1, &info, VK_NULL_HANDLE));
    CHECK(vkQueueWaitIdle(gpu->queue));
}

/* ---- The self-test, as a compute program ---- */

static int64_t self_test(const struct gpu *gpu, uint32_t precision)
{
    pj_interface interface = {.struct_size = sizeof interface};
    pj_gpu_code_info info = {.struct_size = sizeof info};
    pj_gpu_self_test test = {.struct_size = sizeof test};
    VkComputePipelineCreateInfo pipeline_info = {.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO};
    VkShaderModule module;
    VkPipeline pipeline;
    pj_gpu_code *code;
    int64_t differences;

    interface.stage = PJ_STAGE_COMPUTE;
    interface.outputs = PJ_OUTPUT_BUFFER;
    interface.uniforms.binding = UNIFORMS;
    interface.input_buffer.binding = INPUTS;
    interface.output_buffer.binding = OUTPUTS;
    CHECK(pj_gpu_self_test_get(precision, &interface, &gpu->properties, &code, &test, message, sizeof message));
    CHECK(pj_gpu_code_info_get(code, &info));
    CHECK(test.count > VERTICES);
    memcpy(gpu->buffers[UNIFORMS].bytes, test.block, test.block_bytes);
    memcpy(gpu->buffers[INPUTS].bytes, test.inputs, test.count * sizeof(pj_registers));
    memset(gpu->buffers[OUTPUTS].bytes, 0, test.count * sizeof(pj_registers));

    module = new_module(gpu, info.spirv, info.spirv_words);
    pipeline_info.stage = stage(VK_SHADER_STAGE_COMPUTE_BIT, module);
    pipeline_info.layout = gpu->layout;
    CHECK(vkCreateComputePipelines(gpu->device, VK_NULL_HANDLE, 1, &pipeline_info, NULL, &pipeline));
    begin(gpu);
    vkCmdBindPipeline(gpu->commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
    vkCmdBindDescriptorSets(gpu->commands, VK_PIPELINE_BIND_POINT_COMPUTE, gpu->layout, 0, 1, &gpu->set, 0, NULL);
    /* Groups are whole: the buffers have room for vertices up to a multiple of 64. */
    vkCmdDispatch(gpu->commands, (uint32_t)(test.count + 63) / 64, 1, 1);
    submit(gpu);
    differences = pj_gpu_self_test_differences(code, gpu->buffers[OUTPUTS].bytes, test.count);
    vkDestroyPipeline(gpu->device, pipeline, NULL);
    vkDestroyShaderModule(gpu->device, module, NULL);
    pj_gpu_code_free(code);
    return differences;
}

/* ---- The drawing ---- */

static VkPipeline new_pipeline(const struct gpu *gpu, const pj_gpu_code_info *info)
{
    VkShaderModule modules[2];
    VkPipelineShaderStageCreateInfo stages[2];
    VkVertexInputBindingDescription binding = {0, sizeof(pj_registers), VK_VERTEX_INPUT_RATE_VERTEX};
    VkVertexInputAttributeDescription attributes[16];
    VkPipelineVertexInputStateCreateInfo inputs = {.sType = VK_STRUCTURE_TYPE_PIPELINE_VERTEX_INPUT_STATE_CREATE_INFO};
    VkPipelineInputAssemblyStateCreateInfo assembly = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_INPUT_ASSEMBLY_STATE_CREATE_INFO};
    VkViewport viewport = {0, 0, SIZE, SIZE, 0, 1};
    VkRect2D scissor = {{0, 0}, {SIZE, SIZE}};
    VkPipelineViewportStateCreateInfo view = {.sType = VK_STRUCTURE_TYPE_PIPELINE_VIEWPORT_STATE_CREATE_INFO};
    VkPipelineRasterizationStateCreateInfo raster = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_RASTERIZATION_STATE_CREATE_INFO};
    VkPipelineMultisampleStateCreateInfo samples = {.sType = VK_STRUCTURE_TYPE_PIPELINE_MULTISAMPLE_STATE_CREATE_INFO};
    VkPipelineColorBlendAttachmentState blending = {.colorWriteMask = 15};
    VkPipelineColorBlendStateCreateInfo blend = {.sType = VK_STRUCTURE_TYPE_PIPELINE_COLOR_BLEND_STATE_CREATE_INFO};
    VkPipelineRenderingCreateInfo rendering = {.sType = VK_STRUCTURE_TYPE_PIPELINE_RENDERING_CREATE_INFO};
    VkFormat format = VK_FORMAT_R8G8B8A8_UNORM;
    VkGraphicsPipelineCreateInfo all = {.sType = VK_STRUCTURE_TYPE_GRAPHICS_PIPELINE_CREATE_INFO};
    VkPipeline pipeline;
    uint32_t n, count = 0;

    modules[0] = new_module(gpu, info->spirv, info->spirv_words);
    modules[1] = new_module(gpu, fragment_code, COUNT(fragment_code));
    stages[0] = stage(VK_SHADER_STAGE_VERTEX_BIT, modules[0]);
    stages[1] = stage(VK_SHADER_STAGE_FRAGMENT_BIT, modules[1]);
    for (n = 0; n < 16; n++) {
        VkVertexInputAttributeDescription attribute = {n, 0, VK_FORMAT_R32G32B32A32_SFLOAT, n * 16};
        if (info->inputs >> n & 1)
            attributes[count++] = attribute;
    }
    inputs.vertexBindingDescriptionCount = 1;
    inputs.pVertexBindingDescriptions = &binding;
    inputs.vertexAttributeDescriptionCount = count;
    inputs.pVertexAttributeDescriptions = attributes;
    assembly.topology = VK_PRIMITIVE_TOPOLOGY_TRIANGLE_LIST;
    view.viewportCount = view.scissorCount = 1;
    view.pViewports = &viewport;
    view.pScissors = &scissor;
    raster.lineWidth = 1;
    samples.rasterizationSamples = VK_SAMPLE_COUNT_1_BIT;
    blend.attachmentCount = rendering.colorAttachmentCount = 1;
    blend.pAttachments = &blending;
    rendering.pColorAttachmentFormats = &format;
    all.pNext = &rendering;
    all.stageCount = 2;
    all.pStages = stages;
    all.pVertexInputState = &inputs;
    all.pInputAssemblyState = &assembly;
    all.pViewportState = &view;
    all.pRasterizationState = &raster;
    all.pMultisampleState = &samples;
    all.pColorBlendState = &blend;
    all.layout = gpu->layout;
    CHECK(vkCreateGraphicsPipelines(gpu->device, VK_NULL_HANDLE, 1, &all, NULL, &pipeline));
    vkDestroyShaderModule(gpu->device, modules[0], NULL);
    vkDestroyShaderModule(gpu->device, modules[1], NULL);
    return pipeline;
}

static void transition(const struct gpu *gpu, VkImageLayout from, VkImageLayout to)
{
    VkImageMemoryBarrier barrier = {.sType = VK_STRUCTURE_TYPE_IMAGE_MEMORY_BARRIER};
    barrier.srcAccessMask = VK_ACCESS_MEMORY_WRITE_BIT;
    barrier.dstAccessMask = VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT;
    barrier.oldLayout = from;
    barrier.newLayout = to;
    barrier.srcQueueFamilyIndex = barrier.dstQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED;
    barrier.image = gpu->image;
    barrier.subresourceRange.aspectMask = VK_IMAGE_ASPECT_COLOR_BIT;
    barrier.subresourceRange.levelCount = barrier.subresourceRange.layerCount = 1;
    vkCmdPipelineBarrier(gpu->commands, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, 0, 0,
                         NULL, 0, NULL, 1, &barrier);
}

/* Draws VERTICES vertices of the input buffer into `pixels`. */
static void draw(const struct gpu *gpu, VkPipeline pipeline, uint8_t *pixels)
{
    VkRenderingAttachmentInfo colour = {.sType = VK_STRUCTURE_TYPE_RENDERING_ATTACHMENT_INFO};
    VkRenderingInfo rendering = {.sType = VK_STRUCTURE_TYPE_RENDERING_INFO};
    VkBufferImageCopy copy = {0};
    VkDeviceSize offset = 0;
    colour.imageView = gpu->view;
    colour.imageLayout = VK_IMAGE_LAYOUT_COLOR_ATTACHMENT_OPTIMAL;
    colour.loadOp = VK_ATTACHMENT_LOAD_OP_CLEAR;
    colour.storeOp = VK_ATTACHMENT_STORE_OP_STORE;
    rendering.renderArea.extent.width = rendering.renderArea.extent.height = SIZE;
    rendering.layerCount = rendering.colorAttachmentCount = 1;
    rendering.pColorAttachments = &colour;
    copy.imageSubresource.aspectMask = VK_IMAGE_ASPECT_COLOR_BIT;
    copy.imageSubresource.layerCount = 1;
    copy.imageExtent.width = copy.imageExtent.height = SIZE;
    copy.imageExtent.depth = 1;
    begin(gpu);
    transition(gpu, VK_IMAGE_LAYOUT_UNDEFINED, VK_IMAGE_LAYOUT_COLOR_ATTACHMENT_OPTIMAL);
    vkCmdBeginRendering(gpu->commands, &rendering);
    vkCmdBindPipeline(gpu->commands, VK_PIPELINE_BIND_POINT_GRAPHICS, pipeline);
    vkCmdBindDescriptorSets(gpu->commands, VK_PIPELINE_BIND_POINT_GRAPHICS, gpu->layout, 0, 1, &gpu->set, 0, NULL);
    vkCmdBindVertexBuffers(gpu->commands, 0, 1, &gpu->buffers[INPUTS].buffer, &offset);
    vkCmdDraw(gpu->commands, VERTICES, 1, 0, 0);
    vkCmdEndRendering(gpu->commands);
    transition(gpu, VK_IMAGE_LAYOUT_COLOR_ATTACHMENT_OPTIMAL, VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL);
    vkCmdCopyImageToBuffer(gpu->commands, gpu->image, VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL, gpu->pixels.buffer, 1,
                           &copy);
    submit(gpu);
    memcpy(pixels, gpu->pixels.bytes, 4 * SIZE * SIZE);
}

/* The console's data: uniforms, inputs, and the outputs of the CPU. */
struct scene {
    pj_shader *program, *copy;
    pj_unit *unit;
    pj_uniforms *uniforms;
    pj_registers *inputs, *outputs;
};

static uint32_t random_bits(void)
{
    static uint32_t state = 12345;
    state = state * 1664525 + 1013904223;
    return state >> 8;
}

static float random_number(void)
{
    return (float)random_bits() / (float)(1 << 23) - 1;
}

static void new_scene(struct scene *scene)
{
    int n, c;
    memset(scene->unit, 0, sizeof *scene->unit);
    memset(scene->uniforms, 0, sizeof *scene->uniforms);
    for (n = 0; n < 4; n++)
        for (c = 0; c < 4; c++)
            scene->uniforms->c[n][c] = (n == c ? 1.0f : 0.0f) + random_number() / 8;
    for (c = 0; c < 4; c++)
        scene->uniforms->c[4][c] = 0.5f + random_number() / 3;
    memset(scene->inputs, 0, VERTICES * sizeof *scene->inputs);
    for (n = 0; n < VERTICES; n++) {
        for (c = 0; c < 2; c++)
            scene->inputs[n][0][c] = random_number();
        scene->inputs[n][0][2] = random_number() / 4 - 0.5f; /* the console's depth is 0 to -w */
        scene->inputs[n][0][3] = 1;
        for (c = 0; c < 4; c++)
            scene->inputs[n][1][c] = random_number() / 2 + 0.5f;
    }
}

static void run_on_cpu(struct scene *scene)
{
    pj_batch batch = {.struct_size = sizeof batch};
    batch.count = VERTICES;
    batch.inputs = scene->inputs[0][0];
    batch.outputs = scene->outputs[0][0];
    batch.input_mask = batch.output_mask = 3;
    batch.input_stride = batch.output_stride = 16;
    CHECK(pj_run_batch(scene->program, scene->unit, scene->uniforms, &batch));
}

/* Draws the scene both ways. Returns the number of pixels that are not black, 0 if they differ. */
static int compare(const struct gpu *gpu, struct scene *scene)
{
    static uint8_t pixels[2][4 * SIZE * SIZE];
    static const pj_varying colour = {0, 4, {4 * 1 + 0, 4 * 1 + 1, 4 * 1 + 2, 4 * 1 + 3}};
    pj_interface interface = {.struct_size = sizeof interface};
    int way, n, drawn = 0;

    interface.outputs = PJ_OUTPUT_MAPPED;
    interface.varyings = &colour;
    interface.varying_count = 1;
    interface.position = PJ_POSITION | PJ_POSITION_NEGATE_Z;
    for (n = 0; n < 4; n++)
        interface.position_components[n] = (uint8_t)n; /* o0 */
    interface.uniforms.binding = UNIFORMS;
    for (way = 0; way < 2; way++) {
        pj_shader *shader = way ? scene->program : scene->copy;
        pj_gpu_code_info info = {.struct_size = sizeof info};
        pj_gpu_code *code;
        VkPipeline pipeline;
        CHECK(pj_gpu_code_get(shader, &interface, &gpu->properties, &code, message, sizeof message));
        CHECK(pj_gpu_code_info_get(code, &info));
        CHECK(pj_gpu_code_uniforms(code, shader, scene->unit, scene->uniforms, gpu->buffers[UNIFORMS].bytes,
                                   info.block_bytes));
        memcpy(gpu->buffers[INPUTS].bytes, way ? scene->inputs : scene->outputs, VERTICES * sizeof(pj_registers));
        pipeline = new_pipeline(gpu, &info);
        draw(gpu, pipeline, pixels[way]);
        vkDestroyPipeline(gpu->device, pipeline, NULL);
        pj_gpu_code_free(code);
    }
    if (memcmp(pixels[0], pixels[1], sizeof pixels[0]) != 0)
        return 0;
    for (n = 0; n < SIZE * SIZE; n++)
        drawn += (pixels[0][4 * n] | pixels[0][4 * n + 1] | pixels[0][4 * n + 2]) != 0;
    return drawn;
}

static int try_device(VkPhysicalDevice physical, uint32_t precision)
{
    static const char *const names[] = {"f32", "float24 nearest", "float24 toward zero"};
    VkPhysicalDeviceProperties device;
    pj_options options = {.struct_size = sizeof options};
    struct scene scene;
    struct gpu gpu;
    pj_engine *engine;
    int64_t differences;
    int drawn, family = queue_family(physical);

    vkGetPhysicalDeviceProperties(physical, &device);
    if (device.apiVersion < VK_API_VERSION_1_3 || family < 0)
        return 0;
    new_gpu(&gpu, physical, (uint32_t)family);
    differences = self_test(&gpu, precision);

    options.precision = precision;
    CHECK(pj_engine_new(&options, &engine, message, sizeof message));
    CHECK(pj_shader_get(engine, program_code, COUNT(program_code), program_opdescs, COUNT(program_opdescs), 0,
                        PJ_VERTEX, &scene.program, message, sizeof message));
    CHECK(pj_shader_get(engine, copy_code, COUNT(copy_code), copy_opdescs, COUNT(copy_opdescs), 0, PJ_VERTEX,
                        &scene.copy, message, sizeof message));
    scene.unit = aligned_alloc(16, sizeof *scene.unit);
    scene.uniforms = aligned_alloc(16, sizeof *scene.uniforms);
    scene.inputs = aligned_alloc(16, VERTICES * sizeof *scene.inputs);
    scene.outputs = aligned_alloc(16, VERTICES * sizeof *scene.outputs);
    new_scene(&scene);
    run_on_cpu(&scene);
    drawn = compare(&gpu, &scene);
    printf("%s, %s: self-test %lld differences, %d pixels, %s\n", device.deviceName, names[precision],
           (long long)differences, drawn, drawn ? "equal images" : "DIFFERENT IMAGES");

    free(scene.unit);
    free(scene.uniforms);
    free(scene.inputs);
    free(scene.outputs);
    pj_shader_release(scene.program);
    pj_shader_release(scene.copy);
    pj_engine_free(engine);
    free_gpu(&gpu);
    return differences == 0 && drawn > 0 ? 1 : -1;
}

int main(void)
{
    VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .apiVersion = VK_API_VERSION_1_3};
    VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, .pApplicationInfo = &application};
    VkPhysicalDevice devices[8];
    VkInstance instance;
    uint32_t count = COUNT(devices), n, precision;
    int tried = 0;
    if (vkCreateInstance(&info, NULL, &instance) != VK_SUCCESS) {
        puts("no Vulkan device");
        return 0;
    }
    vkEnumeratePhysicalDevices(instance, &count, devices);
    for (n = 0; n < count; n++)
        for (precision = PJ_F32; precision <= PJ_F24_TOWARD_ZERO; precision++) {
            int result = try_device(devices[n], precision);
            if (result < 0)
                return 1;
            tried += result;
        }
    vkDestroyInstance(instance, NULL);
    if (!tried)
        puts("no Vulkan device");
    return 0;
}
