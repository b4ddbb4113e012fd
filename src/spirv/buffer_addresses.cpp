// Storage buffers by addresses: see buffer_addresses.hpp.
#include "spirv/buffer_addresses.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <utility>

#include "spirv/loops.hpp"
#include "spirv/new_words.hpp"
#include "spirv/spirv.hpp"
#include "spirv/spirv_ops.hpp"

namespace vkattn::detail {

namespace {

// Numbers of SPIR-V 1.6, section 3, and of SPV_KHR_physical_storage_buffer.
constexpr std::uint32_t kPhysicalAddresses = 5347;  // a capability
constexpr std::uint32_t kPhysical64 = 5348;         // an addressing model
constexpr std::uint32_t kStoragePhysical = 5349;    // a storage class, as the next two
constexpr std::uint32_t kStoragePushConstant = 9;
constexpr std::uint32_t kStorageBuffer = 12;
constexpr std::uint32_t kBinding = 33;  // a decoration, as the next
constexpr std::uint32_t kOffset = 35;

using Ids = std::map<std::uint32_t, std::uint32_t>;
using ConstWords = std::span<const std::uint32_t>;

std::uint32_t found(const Ids& ids, std::uint32_t id) {
  const auto place = ids.find(id);
  return place != ids.end() ? place->second : 0;
}

// What the module declares before its first function. Ids are never 0.
struct Declarations {
  struct Pointer {
    std::uint32_t storage = 0, pointee = 0;
  };

  std::size_t capabilities_end = 0, types_begin = 0, functions_begin = 0;
  std::uint32_t word = 0, pair = 0;            // the types uint and uvec2, if they are there
  std::uint32_t block = 0, block_members = 0;  // the type of push constants,
  std::uint32_t constants = 0;                 // and the variable
  std::map<std::uint32_t, Pointer> pointers;   // types
  Ids alignments;                              // in bytes, of types that are loaded as a whole
  Ids members;                                 // of structures, how many
  Ids bindings;                                // of variables
  std::set<std::uint32_t> narrow;              // types that hold elements of 8 or 16 bits
  Ids buffers;                                 // variables that are reached by addresses, and their types

  // False where something is missing.
  [[nodiscard]] bool read(ConstWords spirv, std::span<const AddressWord> addresses) {
    for (const auto& instruction : instructions_of(spirv)) {
      if (instruction.opcode() == spirv_op::kFunction) {
        functions_begin = instruction.begin;
        break;
      }
      if (instruction.opcode() == spirv_op::kCapability) capabilities_end = instruction.end();
      const bool is_type = instruction.opcode() >= spirv_op::kTypeVoid &&
                           instruction.opcode() <= spirv_op::kTypeForwardPointer;
      if (is_type && types_begin == 0) types_begin = instruction.begin;
      if (instruction.words.size() >= 3) read(instruction.opcode(), instruction.words, addresses);
    }
    return capabilities_end != 0 && types_begin != 0 && functions_begin != 0 && word != 0 &&
           block_members != 0 && !buffers.empty();
  }

 private:
  void read(std::uint32_t op, ConstWords words, std::span<const AddressWord> addresses) {
    const std::uint32_t last = words.back();
    if (op == spirv_op::kDecorate && words[2] == kBinding) bindings[words[1]] = last;
    if (op == spirv_op::kTypeInt && words[2] == 32 && last == 0) word = words[1];
    if (op == spirv_op::kTypeInt || op == spirv_op::kTypeFloat) alignments[words[1]] = words[2] / 8;
    if (is_narrow(op, words)) narrow.insert(words[1]);
    if (op == spirv_op::kTypeVector) {
      alignments[words[1]] = found(alignments, words[2]) * (last == 3 ? 1 : last);
      if (words[2] == word && last == 2) pair = words[1];
    }
    if (op == spirv_op::kTypeStruct) members[words[1]] = static_cast<std::uint32_t>(words.size() - 2);
    if (op == spirv_op::kTypePointer) pointers[words[1]] = {words[2], last};
    if (op == spirv_op::kVariable && words.size() >= 4) read_variable(words, addresses);
  }

  [[nodiscard]] bool is_narrow(std::uint32_t op, ConstWords words) const {
    constexpr std::uint32_t kWordBits = 32;
    if (op == spirv_op::kTypeInt || op == spirv_op::kTypeFloat) return words[2] < kWordBits;
    if (op == spirv_op::kTypeStruct) {
      return std::ranges::any_of(words.subspan(2), [&](std::uint32_t id) { return narrow.count(id) != 0; });
    }
    const bool is_array =
        op == spirv_op::kTypeVector || op == spirv_op::kTypeArray || op == spirv_op::kTypeRuntimeArray;
    return is_array && narrow.count(words[2]) != 0;
  }

  void read_variable(ConstWords words, std::span<const AddressWord> addresses) {
    const std::uint32_t type = words[1], id = words[2], storage = words[3];
    const auto binding = bindings.find(id);
    const bool is_ours =
        binding != bindings.end() && std::ranges::any_of(addresses, [&](const AddressWord& address) {
          return address.binding == binding->second;
        });
    const auto pointer = pointers.find(type);
    const bool has_words = pointer != pointers.end() && narrow.count(pointer->second.pointee) == 0;
    if (storage == kStorageBuffer && is_ours && has_words) buffers[id] = type;
    if (storage != kStoragePushConstant) return;
    constants = id;
    block = pointers[type].pointee;
    block_members = found(members, block);
  }
};

// Writes the module anew.
class Writer {
 public:
  Writer(ConstWords spirv, std::span<const AddressWord> addresses, const Declarations& declared)
      : spirv_(spirv), addresses_(addresses), declared_(declared), bound_(spirv[3]) {
    pair_ = declared.pair != 0 ? declared.pair : bound_++;
    pair_pointer_ = bound_++;
    for (const auto& [type, pointer] : declared.pointers) {
      if (pointer.storage == kStorageBuffer && declared.narrow.count(pointer.pointee) == 0)
        physical_[type] = bound_++;
    }
    for (const AddressWord& address : addresses) indices_[address.binding] = bound_++;
  }

  // False where an instruction has no like by addresses.
  [[nodiscard]] bool write(SpirvWords& written) {
    written.assign(spirv_.begin(), spirv_.begin() + kSpirvHeaderWords);
    std::size_t read_end = kSpirvHeaderWords;
    for (const auto& instruction : instructions_of(spirv_)) {
      read_end = instruction.end();
      if (instruction.begin == declared_.types_begin) begin_types(written);
      if (instruction.begin == declared_.functions_begin) end_types(written);
      if (instruction.begin >= declared_.functions_begin) {
        if (!run(instruction.opcode(), instruction.words, written)) return false;
        continue;
      }
      declare(instruction.opcode(), instruction.words, written);
      if (instruction.end() != declared_.capabilities_end) continue;
      add_instruction(written, spirv_op::kCapability, {kPhysicalAddresses});
      add_extension(written, "SPV_KHR_physical_storage_buffer");
    }
    written[3] = bound_;
    return read_end == spirv_.size();
  }

 private:
  // The types of addresses come before the block of push constants, wherever they were.
  void begin_types(SpirvWords& written) const {
    std::uint32_t member = declared_.block_members;
    for (const AddressWord& address : addresses_) {
      add_instruction(written, spirv_op::kMemberDecorate, {declared_.block, member++, kOffset, address.byte});
    }
    add_instruction(written, spirv_op::kTypeInt, {declared_.word, 32, 0});
    add_instruction(written, spirv_op::kTypeVector, {pair_, declared_.word, 2});
  }

  void end_types(SpirvWords& written) const {
    add_instruction(written, spirv_op::kTypePointer, {pair_pointer_, kStoragePushConstant, pair_});
    for (const auto& [type, id] : physical_) {
      add_instruction(written, spirv_op::kTypePointer,
                      {id, kStoragePhysical, declared_.pointers.at(type).pointee});
    }
    std::uint32_t member = declared_.block_members;
    for (const AddressWord& address : addresses_) {
      add_instruction(written, spirv_op::kConstant, {declared_.word, indices_.at(address.binding), member++});
    }
  }

  void declare(std::uint32_t op, ConstWords words, SpirvWords& written) const {
    const std::uint32_t id = words.size() > 1 ? words[1] : 0;
    const bool is_moved =
        (op == spirv_op::kTypeInt && id == declared_.word) || (op == spirv_op::kTypeVector && id == pair_);
    if (is_moved) return;
    const std::size_t begin = written.size();
    copy(words, written);
    if (op == spirv_op::kTypeStruct && id == declared_.block) {
      written.insert(written.end(), addresses_.size(), pair_);
      written[begin] += static_cast<std::uint32_t>(addresses_.size()) << 16U;
    }
    if (op == spirv_op::kMemoryModel && words.size() == 3) written[begin + 1] = kPhysical64;
  }

  [[nodiscard]] bool run(std::uint32_t op, ConstWords words, SpirvWords& written) {
    switch (op) {
      case spirv_op::kAccessChain:
      case spirv_op::kInBoundsAccessChain:
        return words.size() >= 4 && is_buffer(words[3]) ? reach(words, written) : copy(words, written);
      case spirv_op::kLoad:
        return access(words, 3, 4, written);
      case spirv_op::kStore:
        return access(words, 1, 3, written);
      case spirv_op::kFunctionCall:
      case spirv_op::kArrayLength:
      case spirv_op::kCopyObject:
        return std::ranges::none_of(
                   words.subspan(1),
                   [&](std::uint32_t id) { return is_buffer(id) || elements_.count(id) != 0; }) &&
               copy(words, written);
      default:
        return copy(words, written);
    }
  }

  [[nodiscard]] bool is_buffer(std::uint32_t id) const { return declared_.buffers.count(id) != 0; }

  static bool copy(ConstWords words, SpirvWords& written) {
    written.insert(written.end(), words.begin(), words.end());
    return true;
  }

  // The pointer to an element of a buffer.
  [[nodiscard]] bool reach(ConstWords words, SpirvWords& written) {
    const std::uint32_t type = found(physical_, words[1]), buffer = words[3];
    if (type == 0) return false;
    const std::uint32_t place = bound_++, address = bound_++, pointer = bound_++;
    add_instruction(written, spirv_op::kAccessChain,
                    {pair_pointer_, place, declared_.constants, indices_.at(declared_.bindings.at(buffer))});
    add_instruction(written, spirv_op::kLoad, {pair_, address, place});
    add_instruction(written, spirv_op::kBitcast,
                    {physical_.at(declared_.buffers.at(buffer)), pointer, address});
    const std::size_t begin = written.size();
    copy(words, written);
    written[begin + 1] = type;
    written[begin + 3] = pointer;
    elements_[words[2]] = found(declared_.alignments, declared_.pointers.at(words[1]).pointee);
    return true;
  }

  // A load or store. An access by an address says how that is aligned.
  [[nodiscard]] bool access(ConstWords words, std::size_t pointer, std::size_t operands,
                            SpirvWords& written) const {
    if (words.size() < operands || is_buffer(words[pointer])) return false;
    const auto element = elements_.find(words[pointer]);
    if (element == elements_.end()) return copy(words, written);
    const std::uint32_t mask = words.size() > operands ? words[operands] : 0;
    if (element->second == 0 || (mask & spirv_op::kAligned) != 0) return false;
    const std::size_t begin = written.size();
    copy(words.first(operands), written);
    written.insert(written.end(), {mask | spirv_op::kAligned, element->second});
    if (words.size() > operands) copy(words.subspan(operands + 1), written);
    written[begin] = static_cast<std::uint32_t>(written.size() - begin) << 16U | (words[0] & 0xffffU);
    return true;
  }

  ConstWords spirv_;
  std::span<const AddressWord> addresses_;
  const Declarations& declared_;
  std::uint32_t bound_;
  std::uint32_t pair_ = 0, pair_pointer_ = 0;
  Ids physical_;  // by types of pointers to buffers: those by addresses
  Ids indices_;   // by bindings: constants, the numbers of members
  Ids elements_;  // pointers to elements, and how these are aligned
};

}  // namespace

bool use_buffer_addresses(std::vector<std::uint32_t>& spirv, std::span<const AddressWord> addresses) {
  Declarations declared;
  if (spirv.size() < kSpirvHeaderWords || has_matrices(spirv) || !declared.read(spirv, addresses))
    return false;
  SpirvWords written;
  if (!Writer(spirv, addresses, declared).write(written)) return false;
  spirv = std::move(written);
  return true;
}

}  // namespace vkattn::detail
