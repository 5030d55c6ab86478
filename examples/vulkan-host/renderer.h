// A renderer on Vulkan without a window: triangles with one texture, into an image.
#pragma once

#include "shader_engine.h"

#include <vulkan/vulkan.h>

inline constexpr std::uint32_t kWidth = 400, kHeight = 240;

// A device and what all renderers of it share.
class Device {
public:
    explicit Device(VkPhysicalDevice physical);
    ~Device();
    Device(const Device&) = delete;
    Device& operator=(const Device&) = delete;

    VkPhysicalDevice physical;
    std::string name;
    VkDevice device = VK_NULL_HANDLE;
    VkQueue queue = VK_NULL_HANDLE;
    VkCommandPool pool = VK_NULL_HANDLE;
    pj_device keeps{}; // what it keeps exact

    std::uint32_t memory_type(std::uint32_t allowed, VkMemoryPropertyFlags wanted) const;
    VkDeviceMemory allocate(const VkMemoryRequirements& needs, VkMemoryPropertyFlags wanted) const;
};

// Memory that both sides see, filled from its start.
class Arena {
public:
    Arena(const Device& device, VkDeviceSize bytes);
    ~Arena();
    Arena(const Arena&) = delete;
    Arena& operator=(const Arena&) = delete;

    // Copies bytes to an offset that is a multiple of 256, with room of 16 bytes behind them.
    VkDeviceSize put(std::span<const std::uint8_t> bytes);
    bool has_room(std::size_t bytes, std::size_t parts) const { return used_ + bytes + 512 * (parts + 1) <= size_; }
    void clear() { used_ = 0; }

    VkBuffer buffer = VK_NULL_HANDLE;
    std::uint8_t* bytes = nullptr;

private:
    const Device& device_;
    VkDeviceMemory memory_ = VK_NULL_HANDLE;
    VkDeviceSize size_, used_ = 0;
};

class Renderer : public Target {
public:
    explicit Renderer(Device& device);
    ~Renderer() override;

    // Whether the device gives the bits of the self-test. If not, no program may run on it.
    bool passes_self_test(std::uint32_t precision);

    void begin_frame();
    // The pixels, RGBA, after all draws.
    std::vector<std::uint8_t> end_frame();

    pj_device device() const override { return device_.keeps; }
    void* make_pipeline(const pj_gpu_code& code, const pj_placement& placement) override;
    void free_pipeline(void* pipeline) override;
    void draw_vertices(std::span<const float> vertices, std::span<const std::uint32_t> triangles) override;
    void draw_streams(void* pipeline, const pj_placement& placement, const pj_handed_draw& draw, std::span<const std::uint8_t> uniforms) override;

    // For the comparison: a hash of all vertices of the frame's triangles, in order. It reads back what the GPU
    // computes, so it is slow. Subnormal numbers count as zeros.
    bool hashes_vertices = false;
    std::uint64_t vertex_hash = 0;

private:
    struct Pipeline {
        VkPipeline pipeline = VK_NULL_HANDLE;
        VkPipeline capture = VK_NULL_HANDLE; // stores output registers in a buffer
    };
    // The streams of a draw, in the arena.
    using Places = std::array<VkDeviceSize, PJ_STREAMS>;

    void begin_commands();
    void begin_rendering(bool clear);
    void submit();
    void make_room(std::size_t bytes, std::size_t parts);
    void bind(VkPipeline pipeline, const Places& places);
    Places put_streams(const pj_handed_draw& draw);
    VkPipeline make(const pj_gpu_code& code, const pj_placement& placement, bool captures);
    void make_copy_pipeline();
    void make_texture();
    // The output registers of each vertex that a triangle has.
    const float* capture(VkPipeline pipeline, const Places& places, std::span<const std::uint32_t> triangles, std::size_t count);
    void hash(const float* vertices, std::span<const std::uint32_t> triangles);
    static std::vector<float> numbers(const pj_placement& placement, const float* registers, std::size_t count);

    Device& device_;
    Arena arena_, captured_, pixels_;
    VkCommandBuffer commands_ = VK_NULL_HANDLE;
    VkImage image_ = VK_NULL_HANDLE, texture_ = VK_NULL_HANDLE;
    VkDeviceMemory image_memory_ = VK_NULL_HANDLE, texture_memory_ = VK_NULL_HANDLE;
    VkImageView view_ = VK_NULL_HANDLE, texture_view_ = VK_NULL_HANDLE;
    VkSampler sampler_ = VK_NULL_HANDLE;
    VkDescriptorSetLayout set_layout_ = VK_NULL_HANDLE;
    VkPipelineLayout layout_ = VK_NULL_HANDLE;
    VkDescriptorPool descriptors_ = VK_NULL_HANDLE;
    VkDescriptorSet set_ = VK_NULL_HANDLE;
    VkShaderModule fragment_ = VK_NULL_HANDLE;
    void* copy_ = nullptr; // the pipeline for vertices of the CPU
    pj_placement copy_placement_{};
    std::vector<std::uint8_t> uniforms_; // of the last draw on the GPU
    VkDeviceSize uniforms_place_ = 0;
    bool renders_ = false;
};
