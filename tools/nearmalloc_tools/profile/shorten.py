"""Names of C++ functions as people say them: std::vector<Row>::_M_realloc_insert.

Left out are parameters, return types, the function's own template arguments, inline namespaces, and
template arguments that are the default of nearly every container: allocators, traits, comparisons.
A name of another language, or one that this module does not understand, stays as it is.
"""

import re
from collections.abc import Iterator
from functools import cache

_LONGEST = 48  # characters of a template argument
_DEFAULTS = (
    "std::allocator<",
    "std::char_traits<",
    "std::less<",
    "std::hash<",
    "std::equal_to<",
    "std::default_delete<",
    "std::pmr::polymorphic_allocator<",
    "std::_Select1st<",
    "std::_Identity<",
    "std::__detail::",
)
# Names of code that a runtime compiled, as its map for perf has them.
_OTHER_LANGUAGES = re.compile(r"<|py::|[A-Z]\w*:[^:]")
# Parts whose brackets open nothing get other characters while a name is taken apart.
_OPERATOR = re.compile(r"\boperator ?(<<=?|>>=?|<=>|<=?|>=?|->\*?|\(\))")
_LAMBDA = re.compile(r"\{lambda\([^{}]*\)#(\d+)\}")
_HIDDEN = str.maketrans("<>()", "\1\2\3\4")
_SHOWN = str.maketrans("\1\2\3\4", "<>()")


def _pieces(text: str, separator: str) -> Iterator[str]:
    """The text, cut at separators that are in no brackets. ValueError if they do not match."""
    depth, start = 0, 0
    for at, letter in enumerate(text):
        depth += (letter in "<(") - (letter in ">)")
        if depth < 0:
            raise ValueError(text)
        if depth == 0 and text.startswith(separator, at) and at >= start:
            yield text[start:at]
            start = at + len(separator)
    if depth:
        raise ValueError(text)
    yield text[start:]


def _without_parameters(text: str) -> str:
    out, angle, round_ = [], 0, 0
    for letter in text:
        round_ += letter == "(" and angle == 0
        if round_ == 0:
            out.append(letter)
            angle += (letter == "<") - (letter == ">")
        round_ -= letter == ")" and angle == 0
    return re.sub(r" (const|volatile|noexcept|&&?)(?=::|$)", "", "".join(out).rstrip(" &"))


def _argument(text: str) -> str:
    text = text.strip()
    short = _path(text, is_function=False)
    return "…" if len(short) > _LONGEST else short


def _component(text: str) -> str:
    """A class with its template arguments, perhaps with words such as `const` around them."""
    begin, end = text.find("<"), text.rfind(">")
    if begin < 0 or end < begin:
        return text
    whole = [each.strip() for each in _pieces(text[begin + 1 : end], ",")]
    arguments = [_argument(each) for each in whole if not each.startswith(_DEFAULTS)]
    inside = f"<{', '.join(arguments)}>" if arguments else ""
    return text[:begin] + inside + text[end + 1 :]


def _path(text: str, *, is_function: bool) -> str:
    parts = list(_pieces(text, "::"))
    last = parts.pop()
    if is_function:
        last = last.split("<", 1)[0]
    path = "::".join(map(_component, [*parts, last]))
    path = re.sub(r"\bstd::(__cxx11|__1|_V2)::", "std::", path)
    return re.sub(r"\bstd::basic_(\w+)<char>", r"std::\1", path)


def _name(text: str) -> str:
    """Without the return type that functions of templates have in front."""
    head, operator, tail = text.partition("operator ")
    return [*_pieces(head, " ")][-1] + operator + tail


@cache
def short(name: str) -> str:
    """The short form of a demangled name."""
    if ("::" not in name and "<" not in name) or _OTHER_LANGUAGES.match(name):
        return name
    text = re.sub(r" ?\[(clone|abi:)[^\]]*\]", "", name)
    text = text.replace("(anonymous namespace)", "\3anonymous namespace\4".replace(" ", "\5"))
    text = _OPERATOR.sub(lambda found: found[0].translate(_HIDDEN), text)
    text = re.sub("([\1-\4]) <", r"\1<", text)  # operator<< <int>
    while _LAMBDA.search(text):
        text = _LAMBDA.sub(r"{lambda#\1}", text)
    try:
        found = _path(_name(_without_parameters(text)), is_function=True)
    except ValueError:
        return name
    return found.translate(_SHOWN).replace("\5", " ") or name
