"""The fields of global variables, from DWARF: what lies at an offset in a symbol."""

from functools import cache
from typing import Any

from elftools.elf.elffile import ELFFile

_PASSED = ("DW_TAG_typedef", "DW_TAG_const_type", "DW_TAG_volatile_type")
_RECORDS = ("DW_TAG_structure_type", "DW_TAG_class_type", "DW_TAG_union_type")
_ADDRESS = 0x03  # the operation DW_OP_addr


@cache
def _variables(path: str) -> dict[int, Any]:
    """The types of the variables with an address, by address."""
    found: dict[int, Any] = {}
    info = _dwarf(path)
    if info is None:
        return found
    for unit in info.iter_CUs():
        for entry in unit.iter_DIEs():
            if entry.tag != "DW_TAG_variable" or "DW_AT_location" not in entry.attributes:
                continue
            location = entry.attributes["DW_AT_location"].value
            if isinstance(location, list) and len(location) == 9 and location[0] == _ADDRESS:
                kind = _type(entry)
                if kind is not None:
                    found[int.from_bytes(bytes(location[1:]), "little")] = kind
    return found


@cache
def _dwarf(path: str) -> Any:
    elf = ELFFile(open(path, "rb"))  # noqa: SIM115, PTH123 - read lazily
    return elf.get_dwarf_info() if elf.has_dwarf_info() else None


def _type(entry: Any) -> Any:
    """The type of a variable or member; a definition may refer to its declaration."""
    while entry is not None:
        if "DW_AT_type" in entry.attributes:
            return entry.get_DIE_from_attribute("DW_AT_type")
        origin = [
            name
            for name in ("DW_AT_specification", "DW_AT_abstract_origin")
            if name in entry.attributes
        ]
        entry = entry.get_DIE_from_attribute(origin[0]) if origin else None
    return None


def field_at(path: str, symbol: int, offset: int, size: int = 1) -> str:
    """`.field[3].part` at an offset in the variable at address `symbol`; empty if it is unknown."""
    kind = _variables(path).get(symbol)
    return "" if kind is None else _inside(kind, offset, size)


def _bare(kind: Any) -> Any:
    while kind is not None and kind.tag in _PASSED:
        kind = _type(kind)
    return kind


def _bytes(kind: Any) -> int:
    kind = _bare(kind)
    if kind is None:
        return 0
    if "DW_AT_byte_size" in kind.attributes:
        return int(kind.attributes["DW_AT_byte_size"].value)
    if kind.tag == "DW_TAG_array_type":
        return _bytes(_type(kind)) * _count(kind)
    return 8


def _count(kind: Any) -> int:
    count = 1
    for part in kind.iter_children():
        if part.tag != "DW_TAG_subrange_type":
            continue
        if "DW_AT_upper_bound" in part.attributes:
            count *= int(part.attributes["DW_AT_upper_bound"].value) + 1
        elif "DW_AT_count" in part.attributes:
            count *= int(part.attributes["DW_AT_count"].value)
    return count


def _inside(kind: Any, offset: int, size: int) -> str:
    kind = _bare(kind)
    if kind is None:
        return ""
    if kind.tag == "DW_TAG_array_type":
        element = _type(kind)
        each = _bytes(element)
        if each == 0:
            return ""
        return f"[{offset // each}]{_inside(element, offset % each, size)}"
    if kind.tag not in _RECORDS:
        return ""
    for member in kind.iter_children():
        if member.tag not in ("DW_TAG_member", "DW_TAG_inheritance"):
            continue
        if "DW_AT_external" in member.attributes:  # static
            continue
        place = member.attributes.get("DW_AT_data_member_location")
        begin = int(place.value) if place is not None and isinstance(place.value, int) else 0
        inner = _type(member)
        if not begin <= offset < begin + max(1, _bytes(inner)):
            continue
        name = member.attributes.get("DW_AT_name")
        shown = "" if name is None else f".{name.value.decode()}"
        return f"{shown}{_inside(inner, offset - begin, size)}"
    return ""
