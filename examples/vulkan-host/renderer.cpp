#include "renderer.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace {

// Bindings of set 0.
enum { kUniforms = 0, kImage = 1, kCaptured = 2 };

constexpr VkFormat kFormat = VK_FORMAT_R8G8B8A8_UNORM;
constexpr VkDeviceSize kBlockBytes = 1616;
constexpr std::uint32_t kTextureSize = 64;
constexpr std::size_t kCapturedVertices = 1 << 16; // of a draw: indices have 16 bits

const std::uint32_t fragment_code[] = {
#include "fragment.inc"
};
// mov o0, v0; mov o1, v1; mov o2, v2; end: for vertices that ran on the CPU.
const std::uint32_t copy_code[] = {0x4C000000, 0x4C201000, 0x4C402000, 0x88000000};
const std::uint32_t copy_opdescs[] = {0x0036F};

void check(VkResult result, const char* what) {
    if (result != VK_SUCCESS)
        throw std::runtime_error(std::string(what) + ": " + std::to_string(result));
}
#define VK(call) check(call, #call)

void check(pj_status status, const char* what) {
    if (status != PJ_OK)
        throw std::runtime_error(std::string(what) + ": " + (status < 0 ? pj_last_error() : pj_status_text(status)));
}

template <typename T>
std::span<const std::uint8_t> as_bytes(std::span<const T> numbers) {
    return {reinterpret_cast<const std::uint8_t*>(numbers.data()), numbers.size_bytes()};
}

} // namespace

// ---- Device ----

Device::Device(VkPhysicalDevice physical) : physical(physical) {
    VkPhysicalDeviceFloatControlsProperties controls{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FLOAT_CONTROLS_PROPERTIES};
    VkPhysicalDeviceProperties2 properties{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, &controls};
    vkGetPhysicalDeviceProperties2(physical, &properties);
    name = properties.properties.deviceName;
    // What it does not report counts as known, once the self-test passes.
    keeps.struct_size = sizeof keeps;
    keeps.special_values = controls.shaderSignedZeroInfNanPreserveFloat32 ? PJ_DEVICE_DECLARED : PJ_DEVICE_KNOWN;
    keeps.rounding = controls.shaderRoundingModeRTEFloat32 ? PJ_DEVICE_DECLARED : PJ_DEVICE_KNOWN;
    keeps.subnormals = controls.shaderDenormPreserveFloat32 ? PJ_DEVICE_DECLARED : PJ_DEVICE_UNKNOWN;

    std::array<VkQueueFamilyProperties, 16> families{};
    std::uint32_t count = families.size(), family = 0;
    vkGetPhysicalDeviceQueueFamilyProperties(physical, &count, families.data());
    while (family < count && !(families[family].queueFlags & VK_QUEUE_GRAPHICS_BIT))
        family++;
    VkPhysicalDeviceFeatures available{}, features{};
    vkGetPhysicalDeviceFeatures(physical, &available);
    if (family == count || properties.properties.apiVersion < VK_API_VERSION_1_3 || !available.vertexPipelineStoresAndAtomics)
        throw std::runtime_error(name + " lacks Vulkan 1.3, graphics, or stores in the vertex stage");
    features.vertexPipelineStoresAndAtomics = VK_TRUE; // for the self-test
    const float priority = 1;
    VkDeviceQueueCreateInfo queues{VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, nullptr, 0, family, 1, &priority};
    VkPhysicalDeviceVulkan13Features rendering{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES};
    rendering.dynamicRendering = VK_TRUE;
    VkDeviceCreateInfo info{VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, &rendering};
    info.queueCreateInfoCount = 1;
    info.pQueueCreateInfos = &queues;
    info.pEnabledFeatures = &features;
    VK(vkCreateDevice(physical, &info, nullptr, &device));
    vkGetDeviceQueue(device, family, 0, &queue);
    const VkCommandPoolCreateInfo commands{VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO, nullptr, VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT, family};
    VK(vkCreateCommandPool(device, &commands, nullptr, &pool));
}

Device::~Device() {
    vkDestroyCommandPool(device, pool, nullptr);
    vkDestroyDevice(device, nullptr);
}

std::uint32_t Device::memory_type(std::uint32_t allowed, VkMemoryPropertyFlags wanted) const {
    VkPhysicalDeviceMemoryProperties memory;
    vkGetPhysicalDeviceMemoryProperties(physical, &memory);
    for (std::uint32_t n = 0; n < memory.memoryTypeCount; n++)
        if ((allowed >> n & 1) && (memory.memoryTypes[n].propertyFlags & wanted) == wanted)
            return n;
    throw std::runtime_error("no memory of this type");
}

VkDeviceMemory Device::allocate(const VkMemoryRequirements& needs, VkMemoryPropertyFlags wanted) const {
    const VkMemoryAllocateInfo info{VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, nullptr, needs.size, memory_type(needs.memoryTypeBits, wanted)};
    VkDeviceMemory memory;
    VK(vkAllocateMemory(device, &info, nullptr, &memory));
    return memory;
}

// ---- Arena ----

Arena::Arena(const Device& device, VkDeviceSize size) : device_(device), size_(size) {
    VkBufferCreateInfo info{VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO};
    info.size = size;
    info.usage = VK_BUFFER_USAGE_VERTEX_BUFFER_BIT | VK_BUFFER_USAGE_INDEX_BUFFER_BIT | VK_BUFFER_USAGE_UNIFORM_BUFFER_BIT |
                 VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT;
    VK(vkCreateBuffer(device.device, &info, nullptr, &buffer));
    VkMemoryRequirements needs;
    vkGetBufferMemoryRequirements(device.device, buffer, &needs);
    memory_ = device.allocate(needs, VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT);
    VK(vkBindBufferMemory(device.device, buffer, memory_, 0));
    void* mapped;
    VK(vkMapMemory(device.device, memory_, 0, VK_WHOLE_SIZE, 0, &mapped));
    bytes = static_cast<std::uint8_t*>(mapped);
}

Arena::~Arena() {
    vkDestroyBuffer(device_.device, buffer, nullptr);
    vkFreeMemory(device_.device, memory_, nullptr);
}

VkDeviceSize Arena::put(std::span<const std::uint8_t> from) {
    const VkDeviceSize place = used_;
    std::memcpy(bytes + place, from.data(), from.size());
    used_ = (place + from.size() + 16 + 255) & ~VkDeviceSize{255};
    return place;
}

// ---- Renderer ----

Renderer::Renderer(Device& device) : device_(device), arena_(device, 64 << 20), captured_(device, kCapturedVertices * sizeof(pj_registers)), pixels_(device, 4 * kWidth * kHeight) {
    const auto vulkan = device.device;
    const VkCommandBufferAllocateInfo commands{VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, nullptr, device.pool, VK_COMMAND_BUFFER_LEVEL_PRIMARY, 1};
    VK(vkAllocateCommandBuffers(vulkan, &commands, &commands_));

    const auto new_image = [&](VkImage& image, VkDeviceMemory& memory, VkImageView& view, VkExtent3D extent, VkImageUsageFlags usage) {
        VkImageCreateInfo info{VK_STRUCTURE_TYPE_IMAGE_CREATE_INFO};
        info.imageType = VK_IMAGE_TYPE_2D;
        info.format = kFormat;
        info.extent = extent;
        info.mipLevels = info.arrayLayers = 1;
        info.samples = VK_SAMPLE_COUNT_1_BIT;
        info.usage = usage;
        VK(vkCreateImage(vulkan, &info, nullptr, &image));
        VkMemoryRequirements needs;
        vkGetImageMemoryRequirements(vulkan, image, &needs);
        memory = device_.allocate(needs, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT);
        VK(vkBindImageMemory(vulkan, image, memory, 0));
        VkImageViewCreateInfo view_info{VK_STRUCTURE_TYPE_IMAGE_VIEW_CREATE_INFO};
        view_info.image = image;
        view_info.viewType = VK_IMAGE_VIEW_TYPE_2D;
        view_info.format = kFormat;
        view_info.subresourceRange = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1};
        VK(vkCreateImageView(vulkan, &view_info, nullptr, &view));
    };
    new_image(image_, image_memory_, view_, {kWidth, kHeight, 1}, VK_IMAGE_USAGE_COLOR_ATTACHMENT_BIT | VK_IMAGE_USAGE_TRANSFER_SRC_BIT);
    new_image(texture_, texture_memory_, texture_view_, {kTextureSize, kTextureSize, 1}, VK_IMAGE_USAGE_SAMPLED_BIT | VK_IMAGE_USAGE_TRANSFER_DST_BIT);
    VkSamplerCreateInfo sampler{VK_STRUCTURE_TYPE_SAMPLER_CREATE_INFO};
    sampler.addressModeU = sampler.addressModeV = VK_SAMPLER_ADDRESS_MODE_REPEAT;
    VK(vkCreateSampler(vulkan, &sampler, nullptr, &sampler_));

    const std::array<VkDescriptorSetLayoutBinding, 3> bindings = {{
        {kUniforms, VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER_DYNAMIC, 1, VK_SHADER_STAGE_VERTEX_BIT, nullptr},
        {kImage, VK_DESCRIPTOR_TYPE_COMBINED_IMAGE_SAMPLER, 1, VK_SHADER_STAGE_FRAGMENT_BIT, nullptr},
        {kCaptured, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1, VK_SHADER_STAGE_VERTEX_BIT, nullptr},
    }};
    VkDescriptorSetLayoutCreateInfo set_info{VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO};
    set_info.bindingCount = bindings.size();
    set_info.pBindings = bindings.data();
    VK(vkCreateDescriptorSetLayout(vulkan, &set_info, nullptr, &set_layout_));
    VkPipelineLayoutCreateInfo layout_info{VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO};
    layout_info.setLayoutCount = 1;
    layout_info.pSetLayouts = &set_layout_;
    VK(vkCreatePipelineLayout(vulkan, &layout_info, nullptr, &layout_));
    std::array<VkDescriptorPoolSize, 3> sizes{};
    for (std::size_t n = 0; n < sizes.size(); n++)
        sizes[n] = {bindings[n].descriptorType, 1};
    VkDescriptorPoolCreateInfo pool_info{VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO};
    pool_info.maxSets = 1;
    pool_info.poolSizeCount = sizes.size();
    pool_info.pPoolSizes = sizes.data();
    VK(vkCreateDescriptorPool(vulkan, &pool_info, nullptr, &descriptors_));
    const VkDescriptorSetAllocateInfo allocate{VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO, nullptr, descriptors_, 1, &set_layout_};
    VK(vkAllocateDescriptorSets(vulkan, &allocate, &set_));
    const VkDescriptorBufferInfo uniforms{arena_.buffer, 0, kBlockBytes}, captured{captured_.buffer, 0, VK_WHOLE_SIZE};
    const VkDescriptorImageInfo image{sampler_, texture_view_, VK_IMAGE_LAYOUT_SHADER_READ_ONLY_OPTIMAL};
    std::array<VkWriteDescriptorSet, 3> writes{};
    for (std::uint32_t n = 0; n < writes.size(); n++)
        writes[n] = {VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET, nullptr, set_, n, 0, 1, bindings[n].descriptorType, &image, n == kUniforms ? &uniforms : &captured, nullptr};
    vkUpdateDescriptorSets(vulkan, writes.size(), writes.data(), 0, nullptr);

    const VkShaderModuleCreateInfo module{VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO, nullptr, 0, sizeof fragment_code, fragment_code};
    VK(vkCreateShaderModule(vulkan, &module, nullptr, &fragment_));
    make_texture();
    make_copy_pipeline();
}

Renderer::~Renderer() {
    const auto vulkan = device_.device;
    free_pipeline(copy_);
    vkDestroyShaderModule(vulkan, fragment_, nullptr);
    vkDestroyDescriptorPool(vulkan, descriptors_, nullptr);
    vkDestroyPipelineLayout(vulkan, layout_, nullptr);
    vkDestroyDescriptorSetLayout(vulkan, set_layout_, nullptr);
    vkDestroySampler(vulkan, sampler_, nullptr);
    for (VkImageView view : {view_, texture_view_})
        vkDestroyImageView(vulkan, view, nullptr);
    for (VkImage image : {image_, texture_})
        vkDestroyImage(vulkan, image, nullptr);
    for (VkDeviceMemory memory : {image_memory_, texture_memory_})
        vkFreeMemory(vulkan, memory, nullptr);
    vkFreeCommandBuffers(vulkan, device_.pool, 1, &commands_);
}

void Renderer::begin_commands() {
    const VkCommandBufferBeginInfo info{VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO, nullptr, 0, nullptr};
    VK(vkBeginCommandBuffer(commands_, &info));
}

void Renderer::submit() {
    if (renders_)
        vkCmdEndRendering(commands_);
    renders_ = false;
    // This thread reads what the commands have written.
    const VkMemoryBarrier written{VK_STRUCTURE_TYPE_MEMORY_BARRIER, nullptr, VK_ACCESS_MEMORY_WRITE_BIT, VK_ACCESS_HOST_READ_BIT};
    vkCmdPipelineBarrier(commands_, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &written, 0, nullptr, 0, nullptr);
    VK(vkEndCommandBuffer(commands_));
    VkSubmitInfo info{VK_STRUCTURE_TYPE_SUBMIT_INFO};
    info.commandBufferCount = 1;
    info.pCommandBuffers = &commands_;
    VK(vkQueueSubmit(device_.queue, 1, &info, VK_NULL_HANDLE));
    VK(vkQueueWaitIdle(device_.queue));
}

static void barrier(VkCommandBuffer commands, VkImage image, VkImageLayout from, VkImageLayout to) {
    VkImageMemoryBarrier info{VK_STRUCTURE_TYPE_IMAGE_MEMORY_BARRIER};
    info.srcAccessMask = info.dstAccessMask = VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT;
    info.oldLayout = from;
    info.newLayout = to;
    info.srcQueueFamilyIndex = info.dstQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED;
    info.image = image;
    info.subresourceRange = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1};
    vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, 0, 0, nullptr, 0, nullptr, 1, &info);
}

// White and grey squares.
void Renderer::make_texture() {
    std::vector<std::uint8_t> texels;
    for (std::uint32_t n = 0; n < kTextureSize * kTextureSize; n++) {
        const auto shade = static_cast<std::uint8_t>((n / 8 + n / (8 * kTextureSize)) % 2 ? 255 : 208);
        texels.insert(texels.end(), {shade, shade, shade, 255});
    }
    const VkDeviceSize place = arena_.put(texels);
    begin_commands();
    barrier(commands_, texture_, VK_IMAGE_LAYOUT_UNDEFINED, VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL);
    const VkBufferImageCopy copy{place, 0, 0, {VK_IMAGE_ASPECT_COLOR_BIT, 0, 0, 1}, {}, {kTextureSize, kTextureSize, 1}};
    vkCmdCopyBufferToImage(commands_, arena_.buffer, texture_, VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL, 1, &copy);
    barrier(commands_, texture_, VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL, VK_IMAGE_LAYOUT_SHADER_READ_ONLY_OPTIMAL);
    submit();
    arena_.clear();
}

// ---- Pipelines ----

// The CPU's vertices take the way of a program that copies its inputs, so that both ways have one form: the numbers of
// a vertex are three vectors.
void Renderer::make_copy_pipeline() {
    pj_placement& copy = copy_placement_;
    copy.struct_size = sizeof copy;
    copy.varying_count = kVertexNumbers / 4;
    copy.strides[0] = kVertexNumbers * sizeof(float);
    for (std::uint32_t n = 0; n < 16; n++) {
        copy.streams[n] = {0, n < copy.varying_count ? 16 * n : 0, VK_FORMAT_R32G32B32A32_SFLOAT};
        copy.attributes[n] = {n, 0};
    }
    for (std::uint8_t n = 0; n < copy.varying_count; n++) {
        copy.varyings[n] = {n, 4, {}};
        for (std::uint8_t c = 0; c < 4; c++)
            copy.varyings[n].components[c] = static_cast<std::uint8_t>(4 * n + c);
    }
    for (std::uint8_t c = 0; c < 4; c++)
        copy.position_components[c] = c;
    pj_engine* engine;
    pj_shader* shader;
    pj_gpu_code* code;
    pj_interface surroundings{};
    surroundings.struct_size = sizeof surroundings;
    surroundings.varyings = copy.varyings;
    surroundings.varying_count = copy.varying_count;
    surroundings.outputs = PJ_OUTPUT_MAPPED;
    surroundings.position = PJ_POSITION | PJ_POSITION_NEGATE_Z | PJ_POSITION_FLIP_Y;
    std::memcpy(surroundings.position_components, copy.position_components, 4);
    check(pj_engine_new(nullptr, &engine), "pj_engine_new");
    check(pj_shader_get(engine, copy_code, std::size(copy_code), copy_opdescs, std::size(copy_opdescs), 0, PJ_VERTEX, &shader), "pj_shader_get");
    check(pj_gpu_code_get(shader, &surroundings, &device_.keeps, &code), "pj_gpu_code_get");
    copy_ = make_pipeline(*code, copy);
    pj_gpu_code_free(code);
    pj_shader_release(shader);
    pj_engine_free(engine);
    if (!copy_)
        throw std::runtime_error("the driver makes no pipeline");
}

VkPipeline Renderer::make(const pj_gpu_code& code, const pj_placement& placement, bool captures) {
    pj_gpu_code_info info{};
    info.struct_size = sizeof info;
    check(pj_gpu_code_info_get(&code, &info), "pj_gpu_code_info_get");
    const VkShaderModuleCreateInfo module_info{VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO, nullptr, 0, 4 * info.spirv_words, info.spirv};
    VkShaderModule module;
    if (vkCreateShaderModule(device_.device, &module_info, nullptr, &module) != VK_SUCCESS)
        return VK_NULL_HANDLE;
    std::array<VkPipelineShaderStageCreateInfo, 2> stages{};
    for (auto& stage : stages)
        stage = {VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO, nullptr, 0, VK_SHADER_STAGE_VERTEX_BIT, module, "main", nullptr};
    stages[1].stage = VK_SHADER_STAGE_FRAGMENT_BIT;
    stages[1].module = fragment_;

    std::vector<VkVertexInputBindingDescription> bindings;
    for (std::uint32_t n = 0; n < PJ_STREAMS; n++)
        bindings.push_back({n, placement.strides[n], VK_VERTEX_INPUT_RATE_VERTEX});
    std::vector<VkVertexInputAttributeDescription> attributes;
    for (std::uint32_t n = 0; n < 16; n++) {
        const pj_stream_attribute& from = placement.streams[n];
        if (info.inputs >> n & 1)
            attributes.push_back({n, from.stream, static_cast<VkFormat>(from.vk_format), from.offset});
    }
    VkPipelineVertexInputStateCreateInfo input{VK_STRUCTURE_TYPE_PIPELINE_VERTEX_INPUT_STATE_CREATE_INFO};
    input.vertexBindingDescriptionCount = static_cast<std::uint32_t>(bindings.size());
    input.pVertexBindingDescriptions = bindings.data();
    input.vertexAttributeDescriptionCount = static_cast<std::uint32_t>(attributes.size());
    input.pVertexAttributeDescriptions = attributes.data();
    VkPipelineInputAssemblyStateCreateInfo assembly{VK_STRUCTURE_TYPE_PIPELINE_INPUT_ASSEMBLY_STATE_CREATE_INFO};
    assembly.topology = VK_PRIMITIVE_TOPOLOGY_TRIANGLE_LIST;
    const VkViewport viewport{0, 0, kWidth, kHeight, 0, 1};
    const VkRect2D scissor{{0, 0}, {kWidth, kHeight}};
    const VkPipelineViewportStateCreateInfo viewports{VK_STRUCTURE_TYPE_PIPELINE_VIEWPORT_STATE_CREATE_INFO, nullptr, 0, 1, &viewport, 1, &scissor};
    VkPipelineRasterizationStateCreateInfo raster{VK_STRUCTURE_TYPE_PIPELINE_RASTERIZATION_STATE_CREATE_INFO};
    raster.rasterizerDiscardEnable = captures;
    raster.lineWidth = 1;
    VkPipelineMultisampleStateCreateInfo samples{VK_STRUCTURE_TYPE_PIPELINE_MULTISAMPLE_STATE_CREATE_INFO};
    samples.rasterizationSamples = VK_SAMPLE_COUNT_1_BIT;
    VkPipelineColorBlendAttachmentState attachment{};
    attachment.colorWriteMask = 15;
    VkPipelineColorBlendStateCreateInfo blend{VK_STRUCTURE_TYPE_PIPELINE_COLOR_BLEND_STATE_CREATE_INFO};
    blend.attachmentCount = 1;
    blend.pAttachments = &attachment;
    VkPipelineRenderingCreateInfo rendering{VK_STRUCTURE_TYPE_PIPELINE_RENDERING_CREATE_INFO};
    rendering.colorAttachmentCount = 1;
    rendering.pColorAttachmentFormats = &kFormat;
    VkGraphicsPipelineCreateInfo all{VK_STRUCTURE_TYPE_GRAPHICS_PIPELINE_CREATE_INFO, &rendering};
    all.stageCount = captures ? 1 : 2;
    all.pStages = stages.data();
    all.pVertexInputState = &input;
    all.pInputAssemblyState = &assembly;
    all.pViewportState = &viewports;
    all.pRasterizationState = &raster;
    all.pMultisampleState = &samples;
    all.pColorBlendState = &blend;
    all.layout = layout_;
    VkPipeline pipeline = VK_NULL_HANDLE;
    if (vkCreateGraphicsPipelines(device_.device, VK_NULL_HANDLE, 1, &all, nullptr, &pipeline) != VK_SUCCESS)
        pipeline = VK_NULL_HANDLE;
    vkDestroyShaderModule(device_.device, module, nullptr);
    return pipeline;
}

void* Renderer::make_pipeline(const pj_gpu_code& code, const pj_placement& placement) {
    auto made = std::make_unique<Pipeline>();
    made->pipeline = make(code, placement, false);
    if (made->pipeline && hashes_vertices && placement.shader) {
        // The same program, with its registers in a buffer.
        pj_interface surroundings{};
        surroundings.struct_size = sizeof surroundings;
        surroundings.attributes = placement.attributes;
        surroundings.outputs = PJ_OUTPUT_BUFFER;
        surroundings.output_buffer.binding = kCaptured;
        pj_gpu_code* registers;
        check(pj_gpu_code_get(placement.shader, &surroundings, &device_.keeps, &registers), "pj_gpu_code_get");
        made->capture = make(*registers, placement, true);
        pj_gpu_code_free(registers);
        if (!made->capture) {
            free_pipeline(made.release());
            return nullptr;
        }
    }
    return made->pipeline ? made.release() : nullptr;
}

void Renderer::free_pipeline(void* pipeline) {
    const std::unique_ptr<Pipeline> owned(static_cast<Pipeline*>(pipeline));
    vkDestroyPipeline(device_.device, owned->pipeline, nullptr);
    vkDestroyPipeline(device_.device, owned->capture, nullptr);
}

// ---- Frames ----

void Renderer::begin_rendering(bool clear) {
    VkRenderingAttachmentInfo attachment{VK_STRUCTURE_TYPE_RENDERING_ATTACHMENT_INFO};
    attachment.imageView = view_;
    attachment.imageLayout = VK_IMAGE_LAYOUT_COLOR_ATTACHMENT_OPTIMAL;
    attachment.loadOp = clear ? VK_ATTACHMENT_LOAD_OP_CLEAR : VK_ATTACHMENT_LOAD_OP_LOAD;
    attachment.storeOp = VK_ATTACHMENT_STORE_OP_STORE;
    attachment.clearValue.color = {{0.1f, 0.1f, 0.15f, 1}};
    VkRenderingInfo info{VK_STRUCTURE_TYPE_RENDERING_INFO};
    info.renderArea.extent = {kWidth, kHeight};
    info.layerCount = 1;
    info.colorAttachmentCount = 1;
    info.pColorAttachments = &attachment;
    vkCmdBeginRendering(commands_, &info);
    renders_ = true;
}

void Renderer::begin_frame() {
    arena_.clear();
    // The code takes its zeros from the uniform block, also the code that copies.
    uniforms_.assign(kBlockBytes, 0);
    uniforms_place_ = arena_.put(uniforms_);
    vertex_hash = 0xCBF29CE484222325;
    begin_commands();
    barrier(commands_, image_, VK_IMAGE_LAYOUT_UNDEFINED, VK_IMAGE_LAYOUT_COLOR_ATTACHMENT_OPTIMAL);
    begin_rendering(true);
}

std::vector<std::uint8_t> Renderer::end_frame() {
    vkCmdEndRendering(commands_);
    renders_ = false;
    barrier(commands_, image_, VK_IMAGE_LAYOUT_COLOR_ATTACHMENT_OPTIMAL, VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL);
    const VkBufferImageCopy copy{0, 0, 0, {VK_IMAGE_ASPECT_COLOR_BIT, 0, 0, 1}, {}, {kWidth, kHeight, 1}};
    vkCmdCopyImageToBuffer(commands_, image_, VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL, pixels_.buffer, 1, &copy);
    submit();
    return {pixels_.bytes, pixels_.bytes + 4 * kWidth * kHeight};
}

// Draws what is recorded if the arena is full.
void Renderer::make_room(std::size_t bytes, std::size_t parts) {
    if (arena_.has_room(bytes, parts))
        return;
    submit();
    arena_.clear();
    if (!arena_.has_room(bytes, parts))
        throw std::runtime_error("a draw exceeds the arena");
    uniforms_place_ = arena_.put(uniforms_);
    begin_commands();
    begin_rendering(false);
}

void Renderer::bind(VkPipeline pipeline, const Places& places) {
    std::array<VkBuffer, PJ_STREAMS> buffers;
    buffers.fill(arena_.buffer);
    const auto offset = static_cast<std::uint32_t>(uniforms_place_);
    vkCmdBindPipeline(commands_, VK_PIPELINE_BIND_POINT_GRAPHICS, pipeline);
    vkCmdBindDescriptorSets(commands_, VK_PIPELINE_BIND_POINT_GRAPHICS, layout_, 0, 1, &set_, 1, &offset);
    vkCmdBindVertexBuffers(commands_, 0, PJ_STREAMS, buffers.data(), places.data());
}

Renderer::Places Renderer::put_streams(const pj_handed_draw& draw) {
    Places places{};
    for (std::size_t n = 0; n < PJ_STREAMS; n++)
        if (draw.streams[n].length)
            places[n] = arena_.put({draw.streams[n].bytes, draw.streams[n].length});
    return places;
}

void Renderer::draw_vertices(std::span<const float> vertices, std::span<const std::uint32_t> triangles) {
    if (hashes_vertices)
        hash(vertices.data(), triangles);
    make_room(vertices.size_bytes() + triangles.size_bytes() + kBlockBytes, 3);
    const Places places{arena_.put(as_bytes(vertices))};
    const VkDeviceSize indices = arena_.put(as_bytes(triangles));
    bind(static_cast<Pipeline*>(copy_)->pipeline, places);
    vkCmdBindIndexBuffer(commands_, arena_.buffer, indices, VK_INDEX_TYPE_UINT32);
    vkCmdDrawIndexed(commands_, static_cast<std::uint32_t>(triangles.size()), 1, 0, 0, 0);
}

void Renderer::draw_streams(void* pipeline, const pj_placement& placement, const pj_handed_draw& draw, std::span<const std::uint8_t> uniforms) {
    const auto& made = *static_cast<const Pipeline*>(pipeline);
    const std::span triangles(draw.triangles, 3 * draw.triangle_count);
    std::size_t bytes = 2 * (triangles.size_bytes() + kBlockBytes);
    for (const pj_stream& stream : draw.streams)
        bytes += stream.length;
    make_room(bytes, PJ_STREAMS + 4);
    if (!uniforms.empty()) {
        uniforms_.assign(uniforms.begin(), uniforms.end());
        uniforms_place_ = arena_.put(uniforms_);
    }
    const Places places = put_streams(draw);
    const VkDeviceSize indices = arena_.put(as_bytes(triangles));
    if (hashes_vertices) {
        submit();
        hash(numbers(placement, capture(made.capture, places, triangles, draw.vertex_count), draw.vertex_count).data(), triangles);
        begin_commands();
        begin_rendering(false);
    }
    if (triangles.empty())
        return;
    bind(made.pipeline, places);
    vkCmdBindIndexBuffer(commands_, arena_.buffer, indices, VK_INDEX_TYPE_UINT32);
    vkCmdDrawIndexed(commands_, static_cast<std::uint32_t>(triangles.size()), 1, 0, 0, 0);
}

// ---- Comparison ----

const float* Renderer::capture(VkPipeline pipeline, const Places& places, std::span<const std::uint32_t> triangles, std::size_t count) {
    if (count > kCapturedVertices)
        throw std::runtime_error("more vertices than are compared");
    std::memset(captured_.bytes, 0, count * sizeof(pj_registers));
    const VkDeviceSize indices = arena_.put(as_bytes(triangles));
    begin_commands();
    begin_rendering(false);
    bind(pipeline, places);
    vkCmdBindIndexBuffer(commands_, arena_.buffer, indices, VK_INDEX_TYPE_UINT32);
    vkCmdDrawIndexed(commands_, static_cast<std::uint32_t>(triangles.size()), 1, 0, 0, 0);
    submit();
    return reinterpret_cast<const float*>(captured_.bytes);
}

// The numbers of each vertex, as the CPU gives them.
std::vector<float> Renderer::numbers(const pj_placement& placement, const float* registers, std::size_t count) {
    std::vector<float> all;
    for (std::size_t vertex = 0; vertex < count; vertex++, registers += 64)
        for (std::uint32_t n = 0; n < placement.varying_count; n++)
            for (std::uint32_t c = 0; c < placement.varyings[n].count; c++) {
                const std::uint8_t component = placement.varyings[n].components[c];
                if (component >= PJ_COMPONENT_COLOUR) {
                    const float magnitude = std::fabs(registers[component - PJ_COMPONENT_COLOUR]);
                    all.push_back(magnitude < 1 ? magnitude : 1);
                } else {
                    all.push_back(component < PJ_COMPONENT_ZERO ? registers[component] : component == PJ_COMPONENT_ONE);
                }
            }
    return all;
}

void Renderer::hash(const float* vertices, std::span<const std::uint32_t> triangles) {
    for (std::uint32_t index : triangles)
        for (std::size_t n = 0; n < kVertexNumbers; n++) {
            float number = vertices[kVertexNumbers * index + n];
            if (std::fpclassify(number) == FP_SUBNORMAL)
                number = std::copysign(0.0f, number);
            std::uint32_t bits;
            std::memcpy(&bits, &number, 4);
            for (int byte = 0; byte < 4; byte++)
                vertex_hash = (vertex_hash ^ ((std::isnan(number) ? ~0u : bits) >> 8 * byte & 255)) * 0x100000001B3;
        }
}

bool Renderer::passes_self_test(std::uint32_t precision) {
    pj_interface surroundings{};
    surroundings.struct_size = sizeof surroundings;
    surroundings.outputs = PJ_OUTPUT_BUFFER;
    surroundings.output_buffer.binding = kCaptured;
    pj_gpu_code* code;
    pj_gpu_self_test test{};
    test.struct_size = sizeof test;
    const pj_status status = pj_gpu_self_test_get(precision, &surroundings, &device_.keeps, &code, &test);
    if (status == PJ_NO_GPU_CODE)
        return false;
    check(status, "pj_gpu_self_test_get");
    pj_placement placement{};
    placement.strides[0] = sizeof(pj_registers);
    for (std::uint32_t n = 0; n < 16; n++)
        placement.streams[n] = {0, 16 * n, VK_FORMAT_R32G32B32A32_SFLOAT};
    arena_.clear();
    uniforms_place_ = arena_.put({static_cast<const std::uint8_t*>(test.block), test.block_bytes});
    const Places places{arena_.put(as_bytes(std::span(test.inputs, 64 * test.count)))};
    const VkPipeline pipeline = make(*code, placement, true);
    begin_commands();
    barrier(commands_, image_, VK_IMAGE_LAYOUT_UNDEFINED, VK_IMAGE_LAYOUT_COLOR_ATTACHMENT_OPTIMAL);
    submit();
    // Triangles with each vertex.
    std::vector<std::uint32_t> triangles;
    for (std::uint32_t n = 0; n < test.count || n % 3 != 0; n++)
        triangles.push_back(std::min(n, static_cast<std::uint32_t>(test.count - 1)));
    const std::int64_t differences = pipeline ? pj_gpu_self_test_differences(code, capture(pipeline, places, triangles, test.count), test.count) : -1;
    vkDestroyPipeline(device_.device, pipeline, nullptr);
    pj_gpu_code_free(code);
    return differences == 0;
}
