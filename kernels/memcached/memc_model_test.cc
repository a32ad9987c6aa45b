// Random commands in random batches against a model: a map, a clock and a cas
// counter. Everything is large enough that nothing is ever evicted, so every
// byte of every reply is known.
#include <gtest/gtest.h>

#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "kernels/memcached/memc_test_util.h"

namespace carillon::kernels {
namespace {

class Model {
 public:
  struct Entry {
    std::string value;
    uint32_t flags = 0;
    uint64_t end = 0;  // second of its expiry; 0: never
    uint64_t cas = 0;
    uint64_t stored = 0;
  };

  uint64_t now = 1'700'000'000;

  std::string Get(const std::vector<std::string>& keys, bool cas,
                  std::optional<int64_t> touch) {
    std::string reply;
    for (const std::string& key : keys) {
      Entry* entry = Find(key);
      if (entry == nullptr) continue;
      if (touch) entry->end = End(*touch);
      reply += "VALUE " + key + " " + std::to_string(entry->flags) + " " +
               std::to_string(entry->value.size());
      if (cas) reply += " " + std::to_string(entry->cas);
      reply += "\r\n" + entry->value + "\r\n";
    }
    return reply + "END\r\n";
  }

  std::string Store(const std::string& verb, const std::string& key,
                    uint32_t flags, int64_t exptime, const std::string& data,
                    uint64_t cas) {
    Entry* old = Find(key);
    if (verb == "cas") {
      if (old == nullptr) return "NOT_FOUND\r\n";
      if (old->cas != cas) return "EXISTS\r\n";
    }
    if (verb == "add" ? old != nullptr
                      : old == nullptr && verb != "set" && verb != "cas") {
      return "NOT_STORED\r\n";
    }
    Entry entry{data, flags, End(exptime), 0, now};
    if (verb == "append" || verb == "prepend") {
      entry = *old;
      entry.value = verb == "append" ? old->value + data : data + old->value;
      entry.stored = now;
    }
    entry.cas = ++last_cas_;
    entries_[key] = entry;
    return "STORED\r\n";
  }

  std::string Delete(const std::string& key) {
    if (Find(key) == nullptr) return "NOT_FOUND\r\n";
    entries_.erase(key);
    return "DELETED\r\n";
  }

  std::string Touch(const std::string& key, int64_t exptime) {
    Entry* entry = Find(key);
    if (entry == nullptr) return "NOT_FOUND\r\n";
    entry->end = End(exptime);
    return "TOUCHED\r\n";
  }

  std::string Count(const std::string& key, bool up, uint64_t delta) {
    Entry* entry = Find(key);
    if (entry == nullptr) return "NOT_FOUND\r\n";
    const std::optional<uint64_t> old = Number(entry->value);
    if (!old) {
      return "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n";
    }
    uint64_t number = *old;
    number = up ? number + delta : (number < delta ? 0 : number - delta);
    const std::string text = std::to_string(number);
    std::string value = text;
    if (value.size() < entry->value.size()) {
      value.append(entry->value.size() - value.size(), ' ');
    }
    entry->value = value;
    entry->cas = ++last_cas_;
    entry->stored = now;
    return text + "\r\n";
  }

  std::string Flush(int64_t delay) {
    if (due_ != 0 && due_ <= now) DropStoredBefore(due_);
    due_ = 0;
    if (delay > 0) {
      due_ = now + static_cast<uint64_t>(delay);
    } else {
      entries_.clear();
    }
    return "OK\r\n";
  }

  uint64_t CasOf(const std::string& key) {
    const Entry* entry = Find(key);
    return entry == nullptr ? 0 : entry->cas;
  }

 private:
  // Reads the value as strtoull does; as in memcached, "\r
  // " follows it.
  static std::optional<uint64_t> Number(const std::string& value) {
    const std::string text = value + "\r\n";
    if (value.find('-') < value.find_first_of("0123456789")) return {};
    char* end = nullptr;
    errno = 0;
    const uint64_t number = std::strtoull(text.c_str(), &end, 10);
    const bool whole = *end == '\0' || std::isspace(*end);
    if (errno != 0 || end == text.c_str() || !whole) return {};
    return number;
  }
  uint64_t End(int64_t exptime) const {
    if (exptime == 0) return 0;
    return exptime < 0 ? 1 : now + static_cast<uint64_t>(exptime);
  }
  void DropStoredBefore(uint64_t second) {
    std::erase_if(entries_, [second](const auto& entry) {
      return entry.second.stored < second;
    });
  }
  Entry* Find(const std::string& key) {
    if (due_ != 0 && due_ <= now) DropStoredBefore(due_);
    const auto found = entries_.find(key);
    if (found == entries_.end()) return nullptr;
    if (found->second.end != 0 && found->second.end <= now) {
      entries_.erase(found);
      return nullptr;
    }
    return &found->second;
  }

  std::map<std::string, Entry> entries_;
  uint64_t last_cas_ = 0;
  uint64_t due_ = 0;
};

class Generator {
 public:
  explicit Generator(uint32_t seed) : random_(seed) {}

  struct Step {
    std::string request;
    std::string reply;
  };

  // The next command, and the model's answer.
  Step Next(Model* model) {
    const std::string key = AnyKey();
    switch (Below(16)) {
      case 0:
      case 1:
      case 2:
      case 3:
      case 4: {
        const char* const verbs[] = {"set",     "set",    "add", "replace",
                                     "prepend", "append", "cas"};
        const std::string verb = verbs[Below(7)];
        const uint32_t flags = Below(3) == 0 ? random_() : 0;
        const int64_t exptime = AnyExptime();
        const std::string data = AnyValue();
        const uint64_t cas = Below(3) == 0 ? Below(1000) : model->CasOf(key);
        std::string line =
            verb + Blank() + key + Blank() + std::to_string(flags) + Blank() +
            std::to_string(exptime) + Blank() + std::to_string(data.size());
        if (verb == "cas") line += Blank() + std::to_string(cas);
        return Finish(line, data + "\r\n",
                      model->Store(verb, key, flags, exptime, data, cas));
      }
      case 5:
        return Finish("delete " + key, "", model->Delete(key));
      case 6: {
        const int64_t exptime = AnyExptime();
        return Finish("touch " + key + " " + std::to_string(exptime), "",
                      model->Touch(key, exptime));
      }
      case 7:
      case 8: {
        const bool up = Below(2) == 0;
        const uint64_t delta = Below(4) == 0 ? random_() : Below(20);
        return Finish(
            (up ? "incr " : "decr ") + key + " " + std::to_string(delta), "",
            model->Count(key, up, delta));
      }
      case 9: {
        if (Below(20) != 0) break;
        const int64_t delay = Below(2) == 0 ? 0 : 1 + Below(20);
        return Finish("flush_all " + std::to_string(delay), "",
                      model->Flush(delay));
      }
      default:
        break;
    }
    const bool cas = Below(2) == 0;
    std::optional<int64_t> touch;
    std::string line = cas ? "gets" : "get";
    if (Below(6) == 0) {
      touch = AnyExptime();
      line = (cas ? "gats " : "gat ") + std::to_string(*touch);
    }
    std::vector<std::string> keys;
    for (uint32_t i = 1 + (Below(3) == 0 ? Below(12) : 0); i != 0; --i) {
      keys.push_back(AnyKey());
      line += Blank() + keys.back();
    }
    return {line + LineEnd(), model->Get(keys, cas, touch)};
  }

  uint32_t Below(uint32_t n) { return random_() % n; }

 private:
  Step Finish(const std::string& line, const std::string& data,
              const std::string& reply) {
    if (Below(8) != 0) return {line + LineEnd() + data, reply};
    return {line + " noreply" + LineEnd() + data, ""};
  }
  std::string Blank() { return std::string(Below(10) == 0 ? 3 : 1, ' '); }
  std::string LineEnd() { return Below(6) == 0 ? "\n" : "\r\n"; }
  std::string AnyKey() {
    const uint32_t i = Below(40);
    if (i == 0) return std::string(250, 'k');
    // Keys of all lengths, some of which are prefixes of others.
    return std::string(1 + i * i % 61, static_cast<char>('a' + i % 5));
  }
  int64_t AnyExptime() {
    const uint32_t kind = Below(8);
    return kind == 0 ? -1 : kind < 4 ? Below(30) + 1 : 0;
  }
  std::string AnyValue() {
    switch (Below(10)) {
      case 0:
        return "";
      case 1:
      case 2:
      case 3:
        return std::to_string(Below(2000));
      case 4:
        return std::string(Below(60000), static_cast<char>(random_()));
      default: {
        std::string value(Below(300), ' ');
        for (char& c : value) c = static_cast<char>(random_());
        return value;
      }
    }
  }

  std::mt19937 random_;
};

void RunAgainstModel(uint32_t seed, bool udp) {
  Model model;
  Generator generator(seed);
  MemcServer server(1024, 400);
  server.stride = 1u << 18;
  if (udp) server.request_flags = 0;
  for (int event = 0; event < 700; ++event) {
    model.now += generator.Below(4);
    server.now_s = model.now;
    std::vector<std::string> requests;
    std::vector<std::string> replies;
    for (uint32_t i = generator.Below(8) == 0 ? 32 : 1 + generator.Below(4);
         i != 0; --i) {
      const Generator::Step step = generator.Next(&model);
      requests.push_back(
          udp ? Frame(static_cast<uint16_t>(i), 0, 1, 0, step.request)
              : step.request);
      replies.push_back(step.reply);
    }
    const std::vector<Answer> answers = server.Run(memc_set_info, requests);
    for (size_t i = 0; i < answers.size(); ++i) {
      ASSERT_EQ(answers[i].outcome, replies[i].empty()
                                        ? memcached::Outcome::kSilent
                                        : memcached::Outcome::kAnswered);
      ASSERT_TRUE(answers[i].Text(!udp) == replies[i])
          << "seed " << seed << " event " << event << "\nrequest "
          << requests[i].substr(0, 300) << "\nreply "
          << answers[i].Text(!udp).substr(0, 300) << "\nexpected "
          << replies[i].substr(0, 300);
    }
  }
  const std::string stats =
      server.Say(udp ? Frame(1, 0, 1, 0, "stats\r\n") : "stats\r\n");
  EXPECT_NE(stats.find("STAT evictions 0\r\n"), std::string::npos);
}

TEST(MemcModel, AStreamOfRandomCommandsIsAnsweredAsTheModelDoes) {
  for (uint32_t seed = 1; seed <= 4; ++seed) RunAgainstModel(seed, false);
}

TEST(MemcModel, RandomDatagramsAreAnsweredAsTheModelDoes) {
  for (uint32_t seed = 101; seed <= 104; ++seed) RunAgainstModel(seed, true);
}

}  // namespace
}  // namespace carillon::kernels
