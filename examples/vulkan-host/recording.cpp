#include "recording.h"

#include <charconv>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>

namespace {

std::uint32_t word(const std::string& text) {
    std::uint32_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
    if (error != std::errc{} || end != text.data() + text.size())
        throw std::runtime_error(text + " is no hexadecimal word");
    return value;
}

} // namespace

Recording read_recording(const std::filesystem::path& path) {
    std::ifstream file(path);
    std::string line;
    if (!std::getline(file, line) || !line.starts_with("picajit recording 1"))
        throw std::runtime_error(path.string() + " is no recording");
    Recording recording;
    bool in_list = false;
    while (std::getline(file, line)) {
        std::istringstream words(line.substr(0, line.find(';')));
        for (std::string text; words >> text;) {
            if (text == "list") {
                in_list = true;
            } else if (text == "memory") {
                if (!(words >> text))
                    throw std::runtime_error("memory has no address");
                recording.address = word(text);
            } else if (const std::uint32_t value = word(text); in_list) {
                recording.list.push_back(value);
            } else {
                for (int byte = 0; byte < 4; byte++)
                    recording.memory.push_back(static_cast<std::uint8_t>(value >> 8 * byte));
            }
        }
    }
    return recording;
}
