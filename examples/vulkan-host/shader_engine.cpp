#include "shader_engine.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <ctime>
#include <utility>

namespace {

constexpr std::uint8_t kAbsent = 255;

void check(std::int64_t status, const char* what) {
    if (status < 0)
        throw std::runtime_error(std::string(what) + ": " + pj_last_error());
}

// CPU time of this thread in seconds; of the process where threads have none.
double cpu_time() {
#ifdef CLOCK_THREAD_CPUTIME_ID
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
#else
    return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
#endif
}

pj_interface surroundings_of(const pj_placement& placement) {
    pj_interface surroundings{};
    surroundings.struct_size = sizeof surroundings;
    surroundings.attributes = placement.attributes;
    surroundings.varyings = placement.varyings;
    surroundings.varying_count = placement.varying_count;
    surroundings.outputs = PJ_OUTPUT_MAPPED;
    surroundings.position = PJ_POSITION | PJ_POSITION_NEGATE_Z | PJ_POSITION_FLIP_Y;
    std::memcpy(surroundings.position_components, placement.position_components, sizeof surroundings.position_components);
    return surroundings;
}

} // namespace

const std::array<std::uint8_t, 24> kVertexOffsets = {
    0, 1, 2, 3,                             // position
    kAbsent, kAbsent, kAbsent, kAbsent,     // quaternion
    4, 5, 6, 7,                             // colour
    8, 9,                                   // texture coordinates 0
    kAbsent, kAbsent, kAbsent, kAbsent, kAbsent, kAbsent, kAbsent, kAbsent, kAbsent, kAbsent,
};

ShaderEngine::ShaderEngine(Target& target, const Settings& settings) : target_(target), settings_(settings), random_(settings.seed) {
    pj_options options{};
    options.struct_size = sizeof options;
    options.precision = settings.precision;
    options.threads = settings.threads;
    check(pj_engine_new(&options, &engine_), "pj_engine_new");
    check(pj_gpu_new(engine_, &gpu_), "pj_gpu_new");
    builder_ = std::jthread([this](std::stop_token stop) { build_pipelines(stop); });
}

ShaderEngine::~ShaderEngine() {
    builder_.request_stop();
    builder_.join();
    for (auto& [key, pipeline] : pipelines_) {
        if (pipeline->target)
            target_.free_pipeline(pipeline->target);
        pj_gpu_code_free(pipeline->code);
        pj_shader_release(pipeline->placement.shader);
    }
    pj_gpu_free(gpu_);
    pj_engine_free(engine_);
}

void ShaderEngine::set_policy(Policy policy, std::uint32_t seed) {
    settings_.policy = policy;
    random_.seed(seed);
}

void ShaderEngine::save(pj_gpu_state& state) const {
    state.struct_size = sizeof state;
    check(pj_gpu_state_get(gpu_, &state), "pj_gpu_state_get");
}

void ShaderEngine::load(const pj_gpu_state& state) {
    check(pj_gpu_state_set(gpu_, &state), "pj_gpu_state_set");
}

void ShaderEngine::execute(std::span<const std::uint32_t> list, std::span<const pj_region> memory) {
    memory_ = memory;
    pj_gpu_host host{};
    host.struct_size = sizeof host;
    host.user = this;
    // No exception may leave a callback.
    host.draw = [](void* user, pj_gpu*, pj_effect effect) { static_cast<ShaderEngine*>(user)->guarded([&](ShaderEngine& engine) { engine.draw(effect); }); };
    host.wrote = [](void* user, const pj_gpu*, std::uint16_t id, std::uint32_t value, std::uint8_t mask) {
        static_cast<ShaderEngine*>(user)->guarded([&](ShaderEngine& engine) { engine.target_.wrote(id, value, mask); });
    };
    // Immediate mode: always on the CPU.
    host.triangle = [](void* user, const float* a, const float* b, const float* c) {
        std::array<float, 3 * kVertexNumbers> vertices{};
        const std::array corners = {a, b, c};
        for (std::size_t corner = 0; corner < 3; corner++)
            for (std::size_t n = 0; n < kVertexOffsets.size(); n++)
                if (kVertexOffsets[n] != kAbsent)
                    vertices[kVertexNumbers * corner + kVertexOffsets[n]] = corners[corner][n];
        static_cast<ShaderEngine*>(user)->guarded([&](ShaderEngine& engine) {
            engine.statistics.immediate_triangles++;
            engine.target_.draw_vertices(vertices, std::array<std::uint32_t, 3>{0, 1, 2});
        });
    };
    // Positive: cancelled, or more vertices than a limit. What was drawn until then stays.
    const pj_status status = pj_gpu_execute(gpu_, list.data(), list.size(), &host);
    if (error_)
        std::rethrow_exception(std::exchange(error_, nullptr));
    check(status, "pj_gpu_execute");
}

void ShaderEngine::draw(pj_effect effect) {
    const double start = cpu_time();
    pj_guest_draw draw{};
    draw.struct_size = sizeof draw;
    draw.regions = memory_.data();
    draw.region_count = memory_.size();
    draw.offsets = kVertexOffsets.data();
    draw.stride = kVertexNumbers;
    draw.vertex_cache_entries = 64;
    draw.effect = effect;
    draw.user = this;
    draw.triangles = [](void* user, const float* vertices, std::size_t count, const std::uint32_t* triangles, std::size_t triangle_count) {
        static_cast<ShaderEngine*>(user)->guarded([&](ShaderEngine& engine) { engine.target_.draw_vertices({vertices, kVertexNumbers * count}, {triangles, 3 * triangle_count}); });
    };
    pj_placement placement{};
    placement.struct_size = sizeof placement;
    check(pj_gpu_placement(gpu_, draw.offsets, draw.stride, &placement), "pj_gpu_placement");
    Pipeline* chosen = choose(placement);
    statistics.draws++;
    if (chosen && hand_over(*chosen, draw)) {
        statistics.on_gpu++;
    } else {
        pj_report report{};
        report.struct_size = sizeof report;
        check(pj_gpu_draw(gpu_, &draw, &report), "pj_gpu_draw");
        statistics.vertices += report.vertices;
        statistics.triangles += report.triangles;
    }
    const double took = cpu_time() - start;
    statistics.longest_draw = std::max(statistics.longest_draw, took);
    statistics.all_draws += took;
}

// The pipeline that draws, or null for the CPU.
ShaderEngine::Pipeline* ShaderEngine::choose(const pj_placement& placement) {
    static constexpr std::array<const char*, 5> reasons = {"", "geometry program", "dependent vertices", "long runs", "continued primitive"};
    if (settings_.policy == Policy::Cpu)
        return nullptr;
    if (placement.cpu_only != PJ_CPU_OR_GPU) {
        statistics.cpu_only[placement.cpu_only < reasons.size() ? reasons[placement.cpu_only] : "another reason"]++;
        return nullptr;
    }
    Pipeline* found = pipeline(placement);
    if (settings_.policy == Policy::Random && random_() % 2 == 0)
        return nullptr;
    if (settings_.policy != Policy::WhenReady && found->state == State::Building) {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [found] { return found->state != State::Building; });
    }
    switch (found->state) {
    case State::Ready:
        if (target_.is_ready(found->target))
            return found;
        [[fallthrough]];
    case State::Building: statistics.waiting++; break;
    case State::Impossible: statistics.cpu_only[found->reason]++; break;
    }
    return nullptr;
}

// The pipeline of a placement. The first draw requests it.
ShaderEngine::Pipeline* ShaderEngine::pipeline(const pj_placement& placement) {
    // Most draws have the placement of the one before.
    if (last_ && std::memcmp(&last_->placement, &placement, sizeof placement) == 0)
        return last_;
    const Key key(reinterpret_cast<const char*>(&placement), sizeof placement);
    auto& entry = pipelines_[key];
    if (!entry) {
        entry = std::make_unique<Pipeline>();
        entry->placement = placement;
        pj_shader_retain(placement.shader); // so that no other shader gets this handle
        std::lock_guard lock(mutex_);
        queue_.push_back(entry.get());
        changed_.notify_all();
    }
    return last_ = entry.get();
}

// Draws on the GPU. False: the CPU must.
bool ShaderEngine::hand_over(Pipeline& pipeline, const pj_guest_draw& draw) {
    pj_handed_draw handed{};
    handed.struct_size = sizeof handed;
    pj_report report{};
    report.struct_size = sizeof report;
    const pj_status status = pj_gpu_hand_over(gpu_, pipeline.code, &draw, &handed, &report);
    if (status == PJ_CPU_ONLY) {
        statistics.cpu_only["values of an earlier program"]++;
        return false;
    }
    check(status, "pj_gpu_hand_over");
    statistics.vertices += report.vertices;
    statistics.triangles += report.triangles;
    const bool is_first = uniforms_.empty();
    uniforms_.resize(pipeline.block_bytes);
    std::size_t changed = 0;
    check(pj_gpu_uniforms(gpu_, pipeline.code, uniforms_.data(), uniforms_.size(), nullptr, &changed), "pj_gpu_uniforms");
    const bool is_new = is_first || changed != 0;
    target_.draw_streams(pipeline.target, pipeline.placement, handed, is_new ? std::span<const std::uint8_t>(uniforms_) : std::span<const std::uint8_t>());
    return true;
}

void ShaderEngine::build(Pipeline& pipeline) {
    const pj_interface surroundings = surroundings_of(pipeline.placement);
    const pj_device device = target_.device();
    State state = State::Impossible;
    try {
        if (pj_gpu_code_get(pipeline.placement.shader, &surroundings, &device, &pipeline.code) != PJ_OK)
            pipeline.reason = pj_last_error();
        else if (pipeline.target = target_.make_pipeline(*pipeline.code, pipeline.placement); !pipeline.target)
            pipeline.reason = "the driver makes no pipeline";
        else if (pj_gpu_code_info info{sizeof info}; pj_gpu_code_info_get(pipeline.code, &info) == PJ_OK) {
            pipeline.block_bytes = info.block_bytes;
            state = State::Ready;
        }
    } catch (const std::exception& error) {
        pipeline.reason = error.what(); // no exception may leave the thread
    }
    std::lock_guard lock(mutex_);
    pipeline.state = state;
    changed_.notify_all();
}

void ShaderEngine::build_pipelines(std::stop_token stop) {
    while (true) {
        Pipeline* next = nullptr;
        {
            std::unique_lock lock(mutex_);
            if (!changed_.wait(lock, stop, [this] { return !queue_.empty(); }) || stop.stop_requested())
                return;
            next = queue_.front();
            queue_.pop_front();
        }
        build(*next);
    }
}
