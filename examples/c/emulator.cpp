// An emulator with structures of its own inside a class: inputs, temporaries, two output banks,
// 32-bit address registers, booleans as bytes, integers as four bytes each. picajit runs on them in
// place: nothing is copied, and savestates don't change.
//
//     c++ -std=c++20 -Iinclude examples/c/emulator.cpp -lpicajit -o emulator && ./emulator

#include "picajit.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

namespace {

struct Vec4f {
    float x, y, z, w;
};

// The emulator's own structures. picajit knows only the offsets below.
struct Uniforms {
    std::array<std::uint8_t, 16> b; // not bool: any nonzero value is true
    std::array<std::array<std::uint8_t, 4>, 4> i;
    alignas(16) std::array<Vec4f, 96> f;
};

struct Emitter {
    std::array<std::array<Vec4f, 16>, 4> slots;
    std::uint8_t vertex, primitive, winding;
};

struct alignas(16) ShaderUnit {
    std::array<std::int32_t, 3> address; // a0.x, a0.y, aL
    std::uint8_t bank;
    std::array<std::uint8_t, 2> conditional_code;
    alignas(16) std::array<Vec4f, 16> input;
    std::array<Vec4f, 16> temporary;
    std::array<std::array<Vec4f, 16>, 2> output;
    Emitter emitter;
};

std::uint32_t offset(std::size_t bytes) { return static_cast<std::uint32_t>(bytes); }

pj_layout layout() {
    pj_layout l{};
    l.struct_size = sizeof l;
    l.unit_bytes = offset(sizeof(ShaderUnit));
    l.v = offset(offsetof(ShaderUnit, input));
    l.r = offset(offsetof(ShaderUnit, temporary));
    l.o = offset(offsetof(ShaderUnit, output));
    l.a0x = offset(offsetof(ShaderUnit, address));
    l.a0y = l.a0x + 4;
    l.al = l.a0x + 8;
    l.cmp_x = offset(offsetof(ShaderUnit, conditional_code));
    l.cmp_y = l.cmp_x + 1;
    l.geometry = 1;
    l.bank_stride = offset(sizeof(ShaderUnit::output) / 2);
    l.bank = offset(offsetof(ShaderUnit, bank));
    const std::uint32_t emitter = offset(offsetof(ShaderUnit, emitter));
    l.emit_vertex = emitter + offset(offsetof(Emitter, vertex));
    l.emit_primitive = emitter + offset(offsetof(Emitter, primitive));
    l.emit_winding = emitter + offset(offsetof(Emitter, winding));
    l.uniforms_bytes = offset(sizeof(Uniforms));
    l.c = offset(offsetof(Uniforms, f));
    l.i = offset(offsetof(Uniforms, i));
    l.bools = PJ_BOOLS_BYTES;
    l.b = offset(offsetof(Uniforms, b));
    return l;
}

class ShaderEngine {
public:
    explicit ShaderEngine(std::uint32_t backend) {
        const pj_layout where = layout();
        auto options = picajit::zeroed<pj_options>();
        options.backend = backend;
        options.layout = &where;
        if (pj_engine_new(&options, picajit::out(engine)) != PJ_OK)
            error = pj_last_error();
    }

    picajit::Shader get(const std::vector<std::uint32_t>& code, const std::vector<std::uint32_t>& opdescs, std::uint32_t stage) {
        picajit::Shader shader;
        if (pj_shader_get(engine.get(), code.data(), code.size(), opdescs.data(), opdescs.size(), 0, stage,
                          picajit::out(shader)) != PJ_OK)
            error = pj_last_error();
        return shader;
    }

    std::string error;

private:
    picajit::Engine engine;
};

// EMIT: the emulator owns slots and triangles.
struct Assembler {
    ShaderUnit* unit;
    std::vector<Vec4f> corners;

    static void emit(void* user, const pj_vec4* outputs, std::uint32_t vertex, std::uint32_t primitive, std::uint32_t winding) {
        Assembler& self = *static_cast<Assembler*>(user);
        auto& slots = self.unit->emitter.slots;
        std::memcpy(slots[vertex].data(), outputs, sizeof(pj_registers));
        if (primitive)
            for (std::size_t n : {winding ? 1u : 0u, winding ? 0u : 1u, 2u})
                self.corners.push_back(slots[n][0]);
    }
};

// mova a0.x, v0.x; ifu b3: mul o0, c4[a0.x], v0, else: mov o0, v0; for i1: add r0, c0[aL], v0; cmp
// v0.xy, lt, ge, v0.zz; end
const std::vector<std::uint32_t> code = {0x48000000, 0x9CC01002, 0x200A4001, 0x84000000, 0x4C000001, 0x84000000, 0xA4402000, 0x021A0001, 0x84000000, 0xBAA00000, 0x88000000};
const std::vector<std::uint32_t> opdescs = {0x2A8208, 0x6C36F};
// setemit 0; add o0, c0.xzzz, v0; emit; setemit 1; add o0, c0.zyzz, v0; emit; setemit 2, prim inv;
// mov o0, v0; emit; end
const std::vector<std::uint32_t> geometry_code = {0xAC000000, 0x00020000, 0xA8000000, 0xAD000000, 0x00020001,
                                                  0xA8000000, 0xAEC00000, 0x4C000002, 0xA8000000, 0x88000000};
const std::vector<std::uint32_t> geometry_opdescs = {0x6C54F, 0x6D34F, 0x0036F};

// Runs some vertices and geometry invocations. Returns all results as bytes.
bool compute(std::uint32_t backend, std::vector<unsigned char>& state, std::string& error) {
    static ShaderUnit unit;
    static Uniforms uniforms;
    std::memset(static_cast<void*>(&unit), 0, sizeof unit);
    std::memset(static_cast<void*>(&uniforms), 0, sizeof uniforms);
    for (std::size_t n = 0; n < 96; n++) {
        const float x = static_cast<float>(n);
        uniforms.f[n] = {x, 1.0f / (x + 1.0f), -x, 0.5f};
    }
    uniforms.i[1] = {5, 2, 3, 0};
    ShaderEngine engine(backend);
    if (!engine.error.empty()) {
        error = engine.error;
        return false;
    }
    const picajit::Shader vertex = engine.get(code, opdescs, PJ_VERTEX);
    const picajit::Shader geometry = engine.get(geometry_code, geometry_opdescs, PJ_GEOMETRY);
    if (!vertex || !geometry) {
        error = engine.error;
        return false;
    }
    Assembler assembler{&unit, {}};
    for (int n = 0; n < 20; n++) {
        uniforms.b[3] = static_cast<std::uint8_t>(n % 2 ? 0x40 : 0);
        const float x = static_cast<float>(n);
        unit.input[0] = {x, x * 0.25f, 1.0f / (x + 3.0f), 1.0f};
        if (pj_run(vertex.get(), &unit, &uniforms, nullptr, nullptr) != PJ_END ||
            pj_run(geometry.get(), &unit, &uniforms, Assembler::emit, &assembler) != PJ_END) {
            error = "a run did not end";
            return false;
        }
    }
    // Winding exchanges the first two vertices: slot 1, whose y is larger by 1, comes first.
    if (assembler.corners.size() != 60 || assembler.corners[0].y != assembler.corners[1].y + 1.0f || unit.address[0] != 19 || unit.bank != 0) {
        error = "unexpected results";
        return false;
    }
    const auto bytes = [&state](const void* from, std::size_t count) {
        const unsigned char* first = static_cast<const unsigned char*>(from);
        state.insert(state.end(), first, first + count);
    };
    bytes(&unit, sizeof unit);
    bytes(assembler.corners.data(), assembler.corners.size() * sizeof(Vec4f));
    return true;
}

} // namespace

int main() {
    std::vector<unsigned char> native, interpreted;
    std::string error;
    if (!compute(PJ_NATIVE_REQUIRED, native, error) || !compute(PJ_INTERPRETER, interpreted, error)) {
        std::fprintf(stderr, "%s\n", error.c_str());
        return 1;
    }
    if (native != interpreted) {
        std::fprintf(stderr, "native code and interpreter differ\n");
        return 1;
    }
    // An invalid layout is an error that names the field.
    pj_layout invalid = layout();
    invalid.r += 4;
    pj_options options = PJ_OPTIONS_INIT;
    options.layout = &invalid;
    pj_engine* engine = nullptr;
    if (pj_engine_new(&options, &engine) != PJ_INVALID_LAYOUT || engine) {
        std::fprintf(stderr, "an invalid layout was accepted\n");
        return 1;
    }
    std::printf("the same bytes from native code and interpreter, %zu of them; a wrong layout: %s\n", native.size(), pj_last_error());
    return 0;
}
