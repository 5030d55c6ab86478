// An image of 8-bit RGBA -> a PNG file, without compression.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <vector>

class Png {
public:
    static void write(const std::filesystem::path& path, std::span<const std::uint8_t> pixels, std::uint32_t width, std::uint32_t height) {
        std::vector<std::uint8_t> raw;
        for (std::uint32_t line = 0; line < height; line++) {
            raw.push_back(0); // no filter
            const auto first = pixels.begin() + static_cast<std::ptrdiff_t>(4 * width) * line;
            raw.insert(raw.end(), first, first + 4 * width);
        }
        // A zlib stream of stored blocks.
        std::vector<std::uint8_t> data = {0x78, 0x01};
        std::uint32_t a = 1, b = 0;
        for (std::size_t at = 0; at < raw.size();) {
            const std::size_t length = std::min<std::size_t>(raw.size() - at, 65535);
            data.push_back(at + length == raw.size());
            for (std::size_t number : {length, ~length})
                data.insert(data.end(), {static_cast<std::uint8_t>(number), static_cast<std::uint8_t>(number >> 8)});
            for (std::size_t n = 0; n < length; n++, at++) {
                data.push_back(raw[at]);
                a = (a + raw[at]) % 65521;
                b = (b + a) % 65521;
            }
        }
        append(data, b << 16 | a);
        std::vector<std::uint8_t> header;
        append(header, width);
        append(header, height);
        header.insert(header.end(), {8, 6, 0, 0, 0}); // 8 bits, RGBA
        std::ofstream file(path, std::ios::binary);
        file.write("\x89PNG\r\n\x1a\n", 8);
        chunk(file, {'I', 'H', 'D', 'R'}, header);
        chunk(file, {'I', 'D', 'A', 'T'}, data);
        chunk(file, {'I', 'E', 'N', 'D'}, {});
    }

private:
    static void append(std::vector<std::uint8_t>& bytes, std::uint32_t number) {
        for (int shift = 24; shift >= 0; shift -= 8)
            bytes.push_back(static_cast<std::uint8_t>(number >> shift));
    }

    static void chunk(std::ofstream& file, std::array<char, 4> name, const std::vector<std::uint8_t>& data) {
        std::vector<std::uint8_t> bytes(name.begin(), name.end());
        bytes.insert(bytes.end(), data.begin(), data.end());
        std::uint32_t crc = ~0u;
        for (std::uint8_t byte : bytes) {
            crc ^= byte;
            for (int bit = 0; bit < 8; bit++)
                crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
        }
        std::vector<std::uint8_t> length;
        append(length, static_cast<std::uint32_t>(data.size()));
        append(bytes, ~crc);
        for (const auto* part : {&length, &bytes})
            file.write(reinterpret_cast<const char*>(part->data()), static_cast<std::streamsize>(part->size()));
    }
};
