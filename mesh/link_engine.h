// What carries the frames of a link (docs/mesh.md).
#ifndef CARILLON_MESH_LINK_ENGINE_H_
#define CARILLON_MESH_LINK_ENGINE_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace carillon::mesh {

enum class Engine : uint8_t { kTls, kUcx };

inline constexpr std::string_view kTlsEngine = "tls";
inline constexpr std::string_view kUcxEngine = "ucx";

constexpr std::string_view NameOf(Engine engine) {
  return engine == Engine::kUcx ? kUcxEngine : kTlsEngine;
}

// As a topology's mesh and two programs' options have it.
struct EngineChoice {
  Engine engine() const {
    return name == kUcxEngine ? Engine::kUcx : Engine::kTls;
  }
  // Empty, or what is wrong with it.
  std::string_view Complaint() const {
    if (engine() != Engine::kUcx || trusted) return "";
    return "the engine ucx sends events in plaintext, and whoever is on that "
           "network can read and forge them: where you trust all who are, say "
           "trusted, too (docs/mesh.md); else leave the engine out";
  }

  std::string name{kTlsEngine};
  bool trusted = false;
};

}  // namespace carillon::mesh

#endif  // CARILLON_MESH_LINK_ENGINE_H_
