/*
 * picajit.h for C++11 and later: handles that release themselves, and structures of zeros. Nothing of
 * it is compiled into the library, and nothing throws. Rules are those of picajit.h.
 *
 *     auto options = picajit::zeroed<pj_options>();
 *     picajit::Engine engine;
 *     if (pj_engine_new(&options, picajit::out(engine)) != PJ_OK)
 *         throw std::runtime_error(pj_last_error());
 *     picajit::Shader shader;
 *     pj_shader_get(engine.get(), ..., picajit::out(shader));
 */
#ifndef PICAJIT_HPP
#define PICAJIT_HPP

#include "picajit.h"

#include <memory>
#include <utility>

namespace picajit {

/* A structure that begins with `struct_size`: all fields are their defaults. */
template <class T> T zeroed()
{
    T value{};
    value.struct_size = sizeof(T);
    return value;
}

struct Release {
    void operator()(pj_engine *engine) const { pj_engine_free(engine); }
    void operator()(pj_gpu_code *code) const { pj_gpu_code_free(code); }
    /* PJ_BUSY: a callback of the GPU may not free it. */
    void operator()(pj_gpu *gpu) const { (void)pj_gpu_free(gpu); }
};

using Engine = std::unique_ptr<pj_engine, Release>;
using Gpu = std::unique_ptr<pj_gpu, Release>;
using GpuCode = std::unique_ptr<pj_gpu_code, Release>;

/* A reference to a shader: a copy is one more. */
class Shader {
public:
    Shader() = default;
    /* Takes over the reference of pj_shader_get. */
    explicit Shader(const pj_shader *shader) : shader_(shader) {}
    /* One more reference, as to pj_placement.shader. */
    static Shader retained(const pj_shader *shader)
    {
        pj_shader_retain(shader);
        return Shader(shader);
    }
    Shader(const Shader &other) : shader_(other.shader_) { pj_shader_retain(shader_); }
    Shader(Shader &&other) noexcept : shader_(other.release()) {}
    Shader &operator=(Shader other) noexcept
    {
        std::swap(shader_, other.shader_);
        return *this;
    }
    ~Shader() { pj_shader_release(shader_); }

    const pj_shader *get() const { return shader_; }
    explicit operator bool() const { return shader_ != nullptr; }
    void reset(const pj_shader *shader = nullptr) { *this = Shader(shader); }
    /* Gives the reference away. */
    const pj_shader *release()
    {
        const pj_shader *const shader = shader_;
        shader_ = nullptr;
        return shader;
    }

private:
    const pj_shader *shader_ = nullptr;
};

/* The place where a call puts a handle. The owner takes it when the call's full expression ends: not yet
   in the rest of the same condition. On error it keeps what it has. */
template <class Owner, class T> class Out {
public:
    Out(Owner &owner) : owner_(owner) {}
    Out(const Out &) = delete;
    Out &operator=(const Out &) = delete;
    ~Out()
    {
        if (handle_ != nullptr)
            owner_.reset(handle_);
    }
    operator T **() { return &handle_; }

private:
    Owner &owner_;
    T *handle_ = nullptr;
};

/* An owner as the last argument of the call that makes its handle. Use the owner in the next statement. */
inline Out<Engine, pj_engine> out(Engine &owner) { return {owner}; }
inline Out<Shader, pj_shader> out(Shader &owner) { return {owner}; }
inline Out<Gpu, pj_gpu> out(Gpu &owner) { return {owner}; }
inline Out<GpuCode, pj_gpu_code> out(GpuCode &owner) { return {owner}; }

} // namespace picajit

#endif // PICAJIT_HPP
