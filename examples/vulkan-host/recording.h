// A recording of a frame: guest memory and a command list, as text. docs/examples.md has the format.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

struct Recording {
    std::uint32_t address = 0; // of the first byte of memory
    std::vector<std::uint8_t> memory;
    std::vector<std::uint32_t> list;
};

// Throws std::runtime_error for a file that is none.
Recording read_recording(const std::filesystem::path& path);
