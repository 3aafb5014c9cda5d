#include "designs/numalloc/binding/rules.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>

#include "platform/message.h"
#include "platform/saved_errno.h"

namespace near::design::numalloc::binding {
namespace {

constexpr size_t kMaxText = 16384;
char file_text[kMaxText + 1];

const char* skip_blanks(const char* at) {
  while (*at == ' ' || *at == '\t' || *at == '\r') at++;
  return at;
}

bool take_number(const char*& at, uint64_t& number) {
  if (*at < '0' || *at > '9') return false;
  number = 0;
  while (*at >= '0' && *at <= '9') {
    if (number > 1'000'000'000) return false;
    number = number * 10 + static_cast<uint64_t>(*at++ - '0');
  }
  return true;
}

bool take_word(const char*& at, const char* word) {
  const size_t length = strlen(word);
  if (strncmp(at, word, length) != 0) return false;
  at += length;
  return true;
}

bool take_threads(const char*& at, Rule& rule) {
  if (*at == '*') {
    at++;
    rule.first = 0;
    rule.last = UINT64_MAX;
    return true;
  }
  if (!take_number(at, rule.first)) return false;
  rule.last = rule.first;
  if (*at != '-') return true;
  at++;
  return take_number(at, rule.last) && rule.last >= rule.first;
}

bool take_node(const char*& at, Rule& rule, unsigned nodes) {
  uint64_t node = 0;
  rule.node = 0;
  if (take_number(at, node)) {
    rule.kind = Rule::Kind::node;
    rule.node = static_cast<unsigned>(node);
    return node < nodes;
  }
  if (take_word(at, "interleave")) return rule.kind = Rule::Kind::interleave, true;
  if (take_word(at, "saturate")) return rule.kind = Rule::Kind::saturate, true;
  if (take_word(at, "any")) return rule.kind = Rule::Kind::any, true;
  return false;
}

bool is_end(const char* at) { return *at == '\0' || *at == '\n' || *at == '#'; }

// Parses a whole line as a rule.
bool parse_line(const char* at, Rule& rule, unsigned nodes) {
  if (!take_threads(at, rule) || (*at != ' ' && *at != '\t')) return false;
  at = skip_blanks(at);
  return take_node(at, rule, nodes) && is_end(skip_blanks(at));
}

}  // namespace

void Rules::parse(const char* text, const char* name, unsigned nodes) {
  count_ = 0;
  for (unsigned line = 1; *text != '\0'; line++) {
    const char* at = skip_blanks(text);
    Rule rule{};
    if (!is_end(at)) {
      if (count_ == kMaxRules) {
        message("%s:%u is ignored: there are more than %u rules", name, line, kMaxRules);
      } else if (parse_line(at, rule, nodes)) {
        rules_[count_++] = rule;
      } else {
        message("%s:%u is ignored: 'THREAD[-THREAD] NODE' was expected, NODE below %u", name, line,
                nodes);
      }
    }
    text = strchrnul(text, '\n');
    if (*text != '\0') text++;
  }
}

bool Rules::read(const char* path, unsigned nodes) {
  const SavedErrno saved;
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  size_t length = 0;
  ssize_t got = 1;
  while (got != 0 && length < kMaxText) {
    got = ::read(file, file_text + length, kMaxText - length);
    if (got < 0 && errno != EINTR) break;
    if (got > 0) length += static_cast<size_t>(got);
  }
  close(file);
  if (got < 0 && length < kMaxText) return false;
  if (length == kMaxText) message("%s is read up to %zu bytes: it is too long", path, kMaxText);
  file_text[length] = '\0';
  parse(file_text, path, nodes);
  return true;
}

Rule Rules::find(uint64_t thread) const {
  for (unsigned i = 0; i < count_; i++) {
    if (thread >= rules_[i].first && thread <= rules_[i].last) return rules_[i];
  }
  return {thread, thread, Rule::Kind::interleave, 0};
}

}  // namespace near::design::numalloc::binding
