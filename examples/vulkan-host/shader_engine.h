// The class between an emulator and picajit: register writes and guest memory go in, vertices come
// out, on the CPU or on the host's GPU, and nobody can tell which.
//
// An emulator takes this class over and implements `Target`, which is its renderer. It adapts two things: the format of
// its vertices (`kVertexNumbers`, `kVertexOffsets`), and position and clip planes (`surroundings_of`).
#pragma once

#include "picajit.h"

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

// Numbers of a vertex that the CPU gives, and locations of what the GPU gives: four numbers each.
inline constexpr std::uint32_t kVertexNumbers = 12; // position, colour, texture coordinates 0 and two zeros
extern const std::array<std::uint8_t, 24> kVertexOffsets;

// An emulator's renderer.
class Target {
public:
    virtual ~Target() = default;

    // What the device keeps exact.
    virtual pj_device device() const = 0;
    // Makes a pipeline from code for its vertex stage, on any thread. Null: there is none, the CPU serves.
    virtual void* make_pipeline(const pj_gpu_code& code, const pj_placement& placement) = 0;
    // Frames that the GPU has not finished may use it.
    virtual void free_pipeline(void* pipeline) = 0;
    // Whether it can draw now. Asked before a draw is handed over, for renderers whose pipelines depend on more, such as
    // blending: `make_pipeline` then makes the vertex stage, and this requests the rest. False: the CPU runs the draw.
    virtual bool is_ready(void*) { return true; }
    // After each register write, before the draw that it triggers: textures, blending, viewport.
    virtual void wrote(std::uint16_t, std::uint32_t, std::uint8_t) {}
    // Draws vertices of `kVertexNumbers` numbers: three indices for each triangle.
    virtual void draw_vertices(std::span<const float> vertices, std::span<const std::uint32_t> triangles) = 0;
    // Draws with a pipeline. `uniforms` is empty if it did not change since the last such draw of the frame.
    virtual void draw_streams(void* pipeline, const pj_placement& placement, const pj_handed_draw& draw, std::span<const std::uint8_t> uniforms) = 0;
};

class ShaderEngine {
public:
    // Who runs the vertices of a draw.
    enum class Policy {
        Cpu,
        WhenReady, // the GPU, once its pipeline is ready: what users want
        Gpu,       // the GPU, after waiting for its pipeline
        Random     // as Gpu, or the CPU, by a seed: for tests
    };

    struct Settings {
        std::uint32_t precision = PJ_F32; // change it with a new engine: save, load
        std::uint32_t threads = 1;        // that compile for the CPU
        Policy policy = Policy::WhenReady;
        std::uint32_t seed = 0;
    };

    struct Statistics {
        std::uint64_t draws = 0, on_gpu = 0, waiting = 0; // waiting: on the CPU, since a pipeline is not ready
        std::uint64_t vertices = 0, triangles = 0, immediate_triangles = 0;
        std::map<std::string, std::uint64_t> cpu_only; // why other draws run on the CPU
        double longest_draw = 0, all_draws = 0; // CPU time of their thread, in seconds
    };

    ShaderEngine(Target& target, const Settings& settings);
    ~ShaderEngine();
    ShaderEngine(const ShaderEngine&) = delete;
    ShaderEngine& operator=(const ShaderEngine&) = delete;

    // Executes a command list; jumps to other lists are the host's. The list must not change meanwhile, and guest memory
    // not during a draw. `memory` is the guest's.
    void execute(std::span<const std::uint32_t> list, std::span<const pj_region> memory);
    // The GPU forgets the uniforms at the end of a frame, since their buffer is used again.
    void begin_frame() { uniforms_.clear(); }

    void set_policy(Policy policy, std::uint32_t seed = 0);
    // Savestates: plain data. Programs and pipelines are not part of it, and stay.
    void save(pj_gpu_state& state) const;
    void load(const pj_gpu_state& state);

    Statistics statistics;

private:
    // All that a pipeline depends on: the placement, with its shader.
    using Key = std::string;
    enum class State { Building, Ready, Impossible };
    struct Pipeline {
        pj_placement placement{};
        pj_gpu_code* code = nullptr;
        void* target = nullptr;
        std::size_t block_bytes = 0; // of its uniform block
        std::string reason;
        std::atomic<State> state = State::Building;
    };

    // Does what a callback wants. An exception waits until the call of the library has returned.
    template <typename Work>
    void guarded(Work work) noexcept {
        try {
            if (!error_)
                work(*this);
        } catch (...) {
            error_ = std::current_exception();
        }
    }

    void draw(pj_effect effect);
    Pipeline* pipeline(const pj_placement& placement);
    Pipeline* choose(const pj_placement& placement);
    bool hand_over(Pipeline& pipeline, const pj_guest_draw& draw);
    void build(Pipeline& pipeline);
    void build_pipelines(std::stop_token stop);

    Target& target_;
    Settings settings_;
    std::mt19937 random_;
    pj_engine* engine_ = nullptr;
    pj_gpu* gpu_ = nullptr;
    std::exception_ptr error_;
    std::span<const pj_region> memory_;
    std::map<Key, std::unique_ptr<Pipeline>> pipelines_;
    Pipeline* last_ = nullptr;            // of the last draw
    std::vector<std::uint8_t> uniforms_;  // the uniform block; empty: none is in use
    std::mutex mutex_;                    // guards `queue_`, and the change of states
    std::condition_variable_any changed_; // the queue, or a state
    std::deque<Pipeline*> queue_;
    std::jthread builder_; // last, so that it ends first
};
