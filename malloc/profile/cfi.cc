#include "profile/cfi.h"

#include <cstring>

namespace near::profile {
namespace {

// Reads numbers of tables one after another.
class Reader {
 public:
  Reader(const uint8_t* at, const uint8_t* end) : at_(at), end_(end) {}

  bool is_at_end() const { return at_ >= end_; }
  const uint8_t* at() const { return at_; }
  void skip(uint64_t bytes) { at_ += bytes; }

  template <typename T>
  T fixed() {
    T value;
    memcpy(&value, at_, sizeof value);
    at_ += sizeof value;
    return value;
  }

  uint64_t uleb() {
    uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
      const uint8_t byte = *at_++;
      value |= uint64_t{byte & 0x7fu} << (shift & 63);
      if ((byte & 0x80) == 0) return value;
    }
  }

  int64_t sleb() {
    uint64_t value = 0;
    for (unsigned shift = 0;;) {
      const uint8_t byte = *at_++;
      value |= uint64_t{byte & 0x7fu} << (shift & 63);
      shift += 7;
      if ((byte & 0x80) != 0) continue;
      if (shift < 64 && (byte & 0x40) != 0) value |= ~uint64_t{0} << shift;
      return static_cast<int64_t>(value);
    }
  }

  // An address in one of the encodings that compilers use; false for others.
  bool address(uint8_t encoding, uintptr_t& out) {
    const auto place = reinterpret_cast<uintptr_t>(at_);
    switch (encoding & 0x0f) {
      case 0x00:
      case 0x04:
      case 0x0c:
        out = fixed<uint64_t>();
        break;
      case 0x03:
        out = fixed<uint32_t>();
        break;
      case 0x0b:
        out = static_cast<uintptr_t>(intptr_t{fixed<int32_t>()});
        break;
      default:
        return false;
    }
    if ((encoding & 0xf0) == 0x10) out += place;
    return (encoding & 0xf0) == 0 || (encoding & 0xf0) == 0x10;
  }

 private:
  const uint8_t* at_;
  const uint8_t* end_;
};

// What a CIE says for the functions that share it.
struct Common {
  uint64_t code_unit;
  int64_t data_unit;
  uint32_t return_register;
  uint8_t address_encoding = 0;
  bool has_augmentation = false;
  bool is_signal = false;
  const uint8_t* instructions;
  const uint8_t* end;
};

// The contents of a record, without its length. False for the 64-bit form.
bool open_record(const uint8_t* record, const uint8_t*& contents, const uint8_t*& end) {
  uint32_t length;
  memcpy(&length, record, sizeof length);
  contents = record + sizeof length;
  end = contents + length;
  return length != 0xffffffff && length > sizeof(uint32_t);
}

// Reads the data of the augmentation "z...", whose letters say what there is.
bool read_augmentation(Reader& reader, const char* letters, Common& out) {
  const uint64_t bytes = reader.uleb();
  const uint8_t* end = reader.at() + bytes;
  for (; *letters != '\0'; letters++) {
    uintptr_t personality;
    switch (*letters) {
      case 'R':
        out.address_encoding = reader.fixed<uint8_t>();
        break;
      case 'L':
        reader.skip(1);
        break;
      case 'P': {
        const auto encoding = static_cast<uint8_t>(reader.fixed<uint8_t>() & 0x7f);
        if (!reader.address(encoding, personality)) return false;
        break;
      }
      case 'S':
        out.is_signal = true;
        break;
      case 'B':  // return addresses are signed with the other key of aarch64
        break;
      default:
        return false;
    }
  }
  out.instructions = end;
  return true;
}

bool read_common(const uint8_t* record, Common& out) {
  const uint8_t* contents;
  if (!open_record(record, contents, out.end)) return false;
  Reader reader(contents, out.end);
  if (reader.fixed<uint32_t>() != 0) return false;
  const auto version = reader.fixed<uint8_t>();
  if (version != 1 && version != 3) return false;
  const auto* letters = reinterpret_cast<const char*>(reader.at());
  reader.skip(strlen(letters) + 1);
  out.code_unit = reader.uleb();
  out.data_unit = reader.sleb();
  out.return_register =
      static_cast<uint32_t>(version == 1 ? reader.fixed<uint8_t>() : reader.uleb());
  if (out.return_register >= Registers::kCount) return false;
  out.instructions = reader.at();
  if (letters[0] == '\0') return true;
  out.has_augmentation = letters[0] == 'z';
  return out.has_augmentation && read_augmentation(reader, letters + 1, out);
}

// Executes the instructions up to one address.
class Machine {
 public:
  explicit Machine(const Common& common) : common_(common) {
    rules = {};
    rules.return_register = common.return_register;
  }

  // False if an instruction is not understood.
  bool run(const uint8_t* from, const uint8_t* to) {
    Reader reader(from, to);
    while (!reader.is_at_end() && now_ <= pc_) {
      if (!execute(reader)) return false;
    }
    return true;
  }
  // Ends the part that all functions of the record share. The next part is that of a function.
  void begin(uintptr_t start, uintptr_t pc) {
    initial_ = rules;
    now_ = start;
    pc_ = pc;
  }

  Rules rules;

 private:
  static constexpr unsigned kMostRemembered = 8;

  void set(uint64_t number, Rule rule) {
    if (number < Registers::kCount) rules.of[number] = rule;
  }
  void store(uint64_t number, int64_t factor) {
    set(number, {Rule::Kind::stored, static_cast<int32_t>(factor * common_.data_unit)});
  }
  void restore(uint64_t number) {
    if (number < Registers::kCount) rules.of[number] = initial_.of[number];
  }
  void define(uint64_t number, int64_t offset) {
    rules.cfa_register = static_cast<uint32_t>(number);
    rules.cfa_offset = static_cast<int32_t>(offset);
    rules.cfa_is_stored = false;
  }
  void advance(uint64_t units) { now_ += units * common_.code_unit; }

  bool remember() {
    if (remembered_count_ == kMostRemembered) return false;
    remembered_[remembered_count_++] = rules;
    return true;
  }
  bool recall() {
    if (remembered_count_ == 0) return false;
    rules = remembered_[--remembered_count_];
    return true;
  }

  // "register + offset, and the word stored there": of a function that aligns its stack.
  bool define_by_expression(Reader& reader) {
    constexpr uint8_t kRegister0 = 0x70;
    constexpr uint8_t kDereference = 0x06;
    const uint64_t bytes = reader.uleb();
    Reader expression(reader.at(), reader.at() + bytes);
    reader.skip(bytes);
    const auto operation = expression.fixed<uint8_t>();
    if (operation < kRegister0 || operation >= kRegister0 + 32) return false;
    define(operation - kRegister0, expression.sleb());
    if (expression.is_at_end()) return true;
    rules.cfa_is_stored = expression.fixed<uint8_t>() == kDereference;
    return rules.cfa_is_stored && expression.is_at_end();
  }

  // A register whose place an expression tells is not needed by most callers.
  void forget_by_expression(Reader& reader) {
    const uint64_t number = reader.uleb();
    reader.skip(reader.uleb());
    set(number, {Rule::Kind::undefined, 0});
  }

  bool execute(Reader& reader) {
    const auto code = reader.fixed<uint8_t>();
    const auto low = static_cast<uint8_t>(code & 0x3f);
    switch (code & 0xc0) {
      case 0x40:
        advance(low);
        return true;
      case 0x80:
        store(low, static_cast<int64_t>(reader.uleb()));
        return true;
      case 0xc0:
        restore(low);
        return true;
      default:
        return execute_extended(low, reader);
    }
  }

  bool execute_extended(uint8_t code, Reader& reader) {
    switch (code) {
      case 0x00:  // nop
      case 0x2d:  // aarch64: the return address is signed from here on, or no more
        return true;
      case 0x01:  // set_loc
        return reader.address(common_.address_encoding, now_);
      case 0x02:  // advance_loc1, 2 and 4
        advance(reader.fixed<uint8_t>());
        return true;
      case 0x03:
        advance(reader.fixed<uint16_t>());
        return true;
      case 0x04:
        advance(reader.fixed<uint32_t>());
        return true;
      case 0x0a:
        return remember();
      case 0x0b:
        return recall();
      case 0x0f:
        return define_by_expression(reader);
      case 0x10:
        forget_by_expression(reader);
        return true;
      case 0x2e:  // args_size
        reader.uleb();
        return true;
      default:
        return execute_register(code, reader) || execute_frame_address(code, reader);
    }
  }

  bool execute_register(uint8_t code, Reader& reader) {
    if (code < 0x05 || (code > 0x09 && code != 0x11)) return false;
    const uint64_t number = reader.uleb();
    switch (code) {
      case 0x05:  // offset_extended
        store(number, static_cast<int64_t>(reader.uleb()));
        break;
      case 0x06:  // restore_extended
        restore(number);
        break;
      case 0x07:  // undefined
        set(number, {Rule::Kind::undefined, 0});
        break;
      case 0x08:  // same_value
        set(number, {Rule::Kind::same, 0});
        break;
      case 0x09:  // register
        set(number, {Rule::Kind::in_register, static_cast<int32_t>(reader.uleb())});
        break;
      default:  // offset_extended_sf
        store(number, reader.sleb());
    }
    return true;
  }

  bool execute_frame_address(uint8_t code, Reader& reader) {
    uint64_t number = rules.cfa_register;
    switch (code) {
      case 0x0c:  // def_cfa
        number = reader.uleb();
        define(number, static_cast<int64_t>(reader.uleb()));
        return true;
      case 0x0d:  // def_cfa_register
        define(reader.uleb(), rules.cfa_offset);
        return true;
      case 0x0e:  // def_cfa_offset
        define(number, static_cast<int64_t>(reader.uleb()));
        return true;
      case 0x12:  // def_cfa_sf
        number = reader.uleb();
        define(number, reader.sleb() * common_.data_unit);
        return true;
      case 0x13:  // def_cfa_offset_sf
        define(number, reader.sleb() * common_.data_unit);
        return true;
      default:
        return false;
    }
  }

  const Common& common_;
  uintptr_t pc_ = 0;
  uintptr_t now_ = 0;
  Rules initial_ = {};
  Rules remembered_[kMostRemembered];
  unsigned remembered_count_ = 0;
};

}  // namespace

Found find_rules(const uint8_t* description, uintptr_t pc, Rules& out) {
  const uint8_t* contents;
  const uint8_t* end;
  if (!open_record(description, contents, end)) return Found::not_understood;
  Reader reader(contents, end);
  const uint8_t* record = contents - reader.fixed<uint32_t>();
  Common common;
  uintptr_t start;
  uintptr_t bytes;
  if (!read_common(record, common) || common.is_signal) return Found::not_understood;
  if (!reader.address(common.address_encoding, start)) return Found::not_understood;
  if (!reader.address(common.address_encoding & 0x0f, bytes)) return Found::not_understood;
  if (pc - start >= bytes) return Found::nothing;
  if (common.has_augmentation) reader.skip(reader.uleb());
  Machine machine(common);
  if (!machine.run(common.instructions, common.end)) return Found::not_understood;
  machine.begin(start, pc);
  if (!machine.run(reader.at(), end)) return Found::not_understood;
  out = machine.rules;
  return Found::rules;
}

}  // namespace near::profile
