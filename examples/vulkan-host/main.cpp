// Plays recordings of frames: the vertices of each draw run on the CPU or on the GPU, and nobody can tell.
//
//     vulkan-host [OPTION]... RECORDING...
//
//     --policy cpu|ready|gpu|random   who runs the vertices; ready: the GPU, once the pipeline is ready
//     --seed N                        of random
//     --frames N                      plays each recording N times (8)
//     --precision f32|f24|f24z        float24: rounded to nearest, or toward zero
//     --device N                      a Vulkan device; without it the first, and with --check all
//     --png FILE                      writes the last frame
//     --check N                       compares all CPU, all GPU and N random mixtures: vertices, images, states
#include "png.h"
#include "recording.h"
#include "renderer.h"

#include <charconv>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <optional>

namespace {

using Policy = ShaderEngine::Policy;

struct Options {
    Policy policy = Policy::WhenReady;
    std::uint32_t seed = 0, frames = 8, precision = PJ_F32;
    std::optional<std::uint32_t> device, check;
    std::filesystem::path png;
    std::vector<std::filesystem::path> recordings;
};

template <typename T>
T one_of(const std::string& text, std::initializer_list<std::pair<const char*, T>> choices) {
    for (const auto& [name, value] : choices)
        if (text == name)
            return value;
    throw std::runtime_error("unknown choice " + text);
}

Options read_options(std::span<char*> arguments) {
    Options options;
    for (std::size_t n = 0; n < arguments.size(); n++) {
        const std::string name = arguments[n];
        if (!name.starts_with("--")) {
            options.recordings.emplace_back(name);
            continue;
        }
        if (name == "--help" || ++n == arguments.size())
            throw std::runtime_error("usage: vulkan-host [OPTION VALUE]... RECORDING... (main.cpp lists the options)");
        const std::string value = arguments[n];
        const auto number = [&] {
            std::uint32_t parsed = 0;
            const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), parsed);
            if (error != std::errc{} || end != value.data() + value.size())
                throw std::runtime_error(name + " needs a number");
            return parsed;
        };
        if (name == "--policy")
            options.policy = one_of<Policy>(value, {{"cpu", Policy::Cpu}, {"ready", Policy::WhenReady}, {"gpu", Policy::Gpu}, {"random", Policy::Random}});
        else if (name == "--seed")
            options.seed = number();
        else if (name == "--frames")
            options.frames = number();
        else if (name == "--precision")
            options.precision = one_of<std::uint32_t>(value, {{"f32", PJ_F32}, {"f24", PJ_F24_NEAREST}, {"f24z", PJ_F24_TOWARD_ZERO}});
        else if (name == "--device")
            options.device = number();
        else if (name == "--png")
            options.png = value;
        else if (name == "--check")
            options.check = number();
        else
            throw std::runtime_error("unknown option " + name);
    }
    if (options.frames == 0)
        throw std::runtime_error("--frames is at least 1");
    if (options.recordings.empty())
        throw std::runtime_error("usage: vulkan-host [OPTION]... RECORDING...");
    return options;
}

std::uint64_t hash_of(std::span<const std::uint8_t> bytes) {
    std::uint64_t hash = 0xCBF29CE484222325;
    for (std::uint8_t byte : bytes)
        hash = (hash ^ byte) * 0x100000001B3;
    return hash;
}

// The part of an emulator around ShaderEngine.
class Player {
public:
    Player(Device& device, const Options& options) : renderer_(device), options_(options) {
        renderer_.hashes_vertices = options.check.has_value();
        ShaderEngine::Settings settings;
        settings.precision = options.precision;
        settings.policy = options.policy;
        settings.seed = options.seed;
        engine_ = std::make_unique<ShaderEngine>(renderer_, settings);
        engine_->save(power_on_);
    }

    // The pixels of a recording's frame.
    std::vector<std::uint8_t> frame(const Recording& recording) {
        const pj_region memory{recording.memory.data(), recording.memory.size(), recording.address, 0};
        renderer_.begin_frame();
        engine_->begin_frame();
        engine_->execute(recording.list, {&memory, 1});
        return renderer_.end_frame();
    }

    void play(const std::filesystem::path& path) {
        const Recording recording = read_recording(path);
        engine_->load(power_on_);
        std::vector<std::uint8_t> pixels;
        std::printf("%s\n", path.filename().string().c_str());
        for (std::uint32_t n = 0; n < options_.frames; n++) {
            engine_->statistics = {};
            pixels = frame(recording);
            const auto& s = engine_->statistics;
            std::printf("  frame %u: %" PRIu64 " draws: %" PRIu64 " on the GPU, %" PRIu64 " on the CPU until a pipeline is ready", n, s.draws, s.on_gpu, s.waiting);
            for (const auto& [reason, count] : s.cpu_only)
                std::printf(", %" PRIu64 " on the CPU: %s", count, reason.c_str());
            if (s.immediate_triangles != 0)
                std::printf(", %" PRIu64 " triangles of immediate mode", s.immediate_triangles);
            std::printf("; longest draw %.0f us, all %.0f us; image %016" PRIx64 "\n", 1e6 * s.longest_draw, 1e6 * s.all_draws, hash_of(pixels));
        }
        if (!options_.png.empty())
            Png::write(options_.png, pixels, kWidth, kHeight);
    }

    // Whether all mixtures give the same vertices, images and states.
    bool check(const std::filesystem::path& path) {
        const Recording recording = read_recording(path);
        std::uint64_t draws = 0, on_gpu = 0;
        bool equal = true;
        std::array<std::uint64_t, 2> want{};
        auto state = std::make_unique<pj_gpu_state>(), first = std::make_unique<pj_gpu_state>();
        for (std::uint32_t n = 0; n < *options_.check + 2; n++) {
            engine_->set_policy(n == 0 ? Policy::Cpu : n == 1 ? Policy::Gpu : Policy::Random, n);
            engine_->load(power_on_);
            engine_->statistics = {};
            const std::array got = {hash_of(frame(recording)), renderer_.vertex_hash};
            std::memset(static_cast<void*>(state.get()), 0, sizeof *state);
            engine_->save(*state);
            draws += engine_->statistics.draws;
            on_gpu += engine_->statistics.on_gpu;
            if (n == 0) {
                want = got;
                *first = *state;
            } else if (got != want || std::memcmp(state.get(), first.get(), sizeof *state) != 0) {
                equal = false;
                std::printf("  mixture %u differs: %s%s%s\n", n, got[0] != want[0] ? " image" : "", got[1] != want[1] ? " vertices" : "", got == want ? " state" : "");
            }
        }
        std::printf("%s: %s: %" PRIu64 " draws, %" PRIu64 " on the GPU, image %016" PRIx64 ", vertices %016" PRIx64 "\n", path.filename().string().c_str(), equal ? "equal" : "DIFFERENT", draws, on_gpu, want[0], want[1]);
        return equal;
    }

private:
    Renderer renderer_; // outlives the engine, whose pipelines it frees
    Options options_;
    std::unique_ptr<ShaderEngine> engine_;
    pj_gpu_state power_on_{};
};

int run(const Options& options) {
    VkApplicationInfo application{VK_STRUCTURE_TYPE_APPLICATION_INFO};
    application.apiVersion = VK_API_VERSION_1_3;
    VkInstanceCreateInfo info{VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO};
    info.pApplicationInfo = &application;
    VkInstance instance = VK_NULL_HANDLE;
    std::vector<VkPhysicalDevice> devices;
    if (vkCreateInstance(&info, nullptr, &instance) == VK_SUCCESS) {
        std::uint32_t count = 0;
        vkEnumeratePhysicalDevices(instance, &count, nullptr);
        devices.resize(count);
        vkEnumeratePhysicalDevices(instance, &count, devices.data());
    }
    int status = 0, used = 0;
    for (std::uint32_t n = 0; n < devices.size(); n++) {
        if (options.device && *options.device != n)
            continue;
        try {
            Device device(devices[n]);
            Options chosen = options;
            std::printf("%s\n", device.name.c_str());
            if (!Renderer(device).passes_self_test(options.precision)) {
                std::puts("the self-test fails, so the CPU runs all vertices");
                if (options.check) {
                    status = 1;
                    continue;
                }
                chosen.policy = Policy::Cpu;
            }
            Player player(device, chosen);
            used++;
            for (const auto& recording : options.recordings) {
                if (options.check)
                    status |= !player.check(recording);
                else
                    player.play(recording);
            }
            // A comparison tries every device.
            if (!options.check)
                break;
        } catch (const std::exception& error) {
            std::printf("device %u: %s\n", n, error.what());
            status = 1;
        }
    }
    if (used == 0) {
        std::puts("no Vulkan device");
        status = 1;
    }
    vkDestroyInstance(instance, nullptr);
    return status;
}

} // namespace

int main(int argc, char** argv) {
    try {
        return run(read_options({argv + 1, argv + argc}));
    } catch (const std::exception& error) {
        std::cerr << error.what() << '\n';
        return 2;
    }
}
