// libnearcount.so: QEMU's callbacks and their handling.
//
// User code is instrumented as it is translated: a marker calls its function in Counter,
// every other instruction reports its accesses. The kernel's code is not instrumented.
// Invariant: what callbacks use exists before the first one and is never destroyed: QEMU's threads
// may still run when the process ends, and the last callback comes after destructors.
// Thread-safety: called by QEMU's threads.
#include <array>
#include <cstdio>
#include <string>
#include <vector>

#include "../../lab/workloads/marker_code.h"
#include "counter.h"
#include "qemu_plugin.h"

int qemu_plugin_version = 1;

namespace nearcount {
namespace {

// The parameters of the marker that a CPU is executing: the addresses of two loads.
struct alignas(128) Parameters {
  unsigned count = 0;
  uint64_t first = 0;        // an address
  uint64_t first_value = 0;  // QEMU's number for its memory
};

Counter* counter;
const Arguments* arguments_given;
std::array<Parameters, kMostCpus> parameters;

void* as_data(Marker marker) { return reinterpret_cast<void*>(static_cast<uintptr_t>(marker)); }
Marker as_marker(void* data) { return static_cast<Marker>(reinterpret_cast<uintptr_t>(data)); }

uint64_t value_at(qemu_plugin_meminfo_t info, uint64_t address) {
  const qemu_plugin_hwaddr* const memory = qemu_plugin_get_hwaddr(info, address);
  if (memory == nullptr || qemu_plugin_hwaddr_is_io(memory)) return Access::kNoValue;
  return qemu_plugin_hwaddr_phys_addr(memory);
}

// A reader finds a whole file: it is written under another name, then renamed.
void write_report(bool exited) {
  const std::string text = counter->report(exited);
  const std::string& out = arguments_given->out;
  const std::string beside = out + ".new";
  std::FILE* const file = std::fopen(beside.c_str(), "w");
  bool written = file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (file != nullptr) written &= std::fclose(file) == 0;
  if (!written || std::rename(beside.c_str(), out.c_str()) != 0) {
    std::fprintf(stderr, "nearcount: cannot write %s\n", out.c_str());
  }
}

void on_access(unsigned cpu, qemu_plugin_meminfo_t info, uint64_t address, void*) {
  if (!counter->is_counting() || address >= kUserEnd) return;
  const uint64_t more = (uint64_t{1} << qemu_plugin_mem_size_shift(info)) - 1;
  const uint64_t last = address + more;
  const uint64_t value = value_at(info, address);
  uint64_t last_value = value == Access::kNoValue ? value : value + more;
  if (page_of(last) != page_of(address)) last_value = value_at(info, last);
  counter->count(cpu, {address, value, last, last_value, qemu_plugin_mem_is_store(info)});
}

void on_nop(unsigned, void* data) {
  const Marker marker = as_marker(data);
  if (marker == Marker::kProgram) counter->program();
  if (marker == Marker::kBegin) counter->begin();
  if (marker == Marker::kEnd) {
    counter->end();
    write_report(false);
  }
}

// A marker with parameters starts; after a page fault it starts again.
void on_comparison(unsigned cpu, void*) { parameters[cpu].count = 0; }

void obey(unsigned cpu, Marker marker, const Parameters& given, uint64_t second) {
  if (marker == Marker::kExclude) counter->exclude(given.first, second);
  if (marker == Marker::kInclude) counter->include(given.first, second);
  if (marker == Marker::kCalibrate) counter->calibrate(given.first_value, second % kNumbers);
  if (marker == Marker::kHere) counter->here(cpu, given.first % kNumbers, second % kNumbers);
}

void on_parameter(unsigned cpu, qemu_plugin_meminfo_t info, uint64_t address, void* data) {
  Parameters& given = parameters[cpu];
  ++given.count;
  if (given.count == 1) {
    given.first = address;
    given.first_value = value_at(info, address);
  } else if (given.count == 2) {
    obey(cpu, as_marker(data), given, address);
  } else {
    counter->malformed();
  }
}

void instrument(qemu_plugin_insn* instruction) {
  const auto* const code = static_cast<const uint8_t*>(qemu_plugin_insn_data(instruction));
  const Marker marker = decode(code, qemu_plugin_insn_size(instruction));
  if (has_parameters(marker)) {
    qemu_plugin_register_vcpu_insn_exec_cb(instruction, on_comparison, QEMU_PLUGIN_CB_NO_REGS,
                                           nullptr);
    qemu_plugin_register_vcpu_mem_cb(instruction, on_parameter, QEMU_PLUGIN_CB_NO_REGS,
                                     QEMU_PLUGIN_MEM_RW, as_data(marker));
  } else if (marker != Marker::kNone) {
    qemu_plugin_register_vcpu_insn_exec_cb(instruction, on_nop, QEMU_PLUGIN_CB_NO_REGS,
                                           as_data(marker));
  } else {
    qemu_plugin_register_vcpu_mem_cb(instruction, on_access, QEMU_PLUGIN_CB_NO_REGS,
                                     QEMU_PLUGIN_MEM_RW, nullptr);
  }
}

void on_translation(qemu_plugin_id_t, qemu_plugin_tb* block) {
  const size_t instructions = qemu_plugin_tb_n_insns(block);
  for (size_t i = 0; i < instructions; ++i) {
    qemu_plugin_insn* const instruction = qemu_plugin_tb_get_insn(block, i);
    if (qemu_plugin_insn_vaddr(instruction) < kUserEnd) instrument(instruction);
  }
}

void on_exit(qemu_plugin_id_t, void*) { write_report(true); }

int refuse(const std::string& reason) {
  std::fprintf(stderr, "nearcount: %s\n", reason.c_str());
  return 1;
}

}  // namespace
}  // namespace nearcount

int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t* info, int count, char** arguments) {
  using namespace nearcount;
  if (!info->system_emulation || std::string(info->target_name) != "x86_64") {
    return refuse("counts in a whole machine of x86_64 alone");
  }
  try {
    arguments_given = new Arguments(parse({arguments, arguments + count}));
    if (arguments_given->node_of_cpu.size() != static_cast<size_t>(info->system.max_vcpus)) {
      return refuse("cpus: not as many as the machine has");
    }
    counter = new Counter(*arguments_given);
  } catch (const std::exception& error) {
    return refuse(error.what());
  }
  qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
  qemu_plugin_register_atexit_cb(id, on_exit, nullptr);
  return 0;
}
