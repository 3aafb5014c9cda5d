"""Names of C++ functions are short on a profile's page, and names of other languages stay."""

import subprocess

import pytest

from nearmalloc_tools.profile.shorten import short

_STRING = "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "void std::vector<Row, std::allocator<Row> >::_M_realloc_insert<Row const&>("
            "__gnu_cxx::__normal_iterator<Row*, std::vector<Row, std::allocator<Row> > >, "
            "Row const&)",
            "std::vector<Row>::_M_realloc_insert",
        ),
        (f"{_STRING}::_M_create(unsigned long&, unsigned long)", "std::string::_M_create"),
        (
            f"std::_Rb_tree<{_STRING}, std::pair<{_STRING} const, int>, "
            f"std::_Select1st<std::pair<{_STRING} const, int> >, std::less<{_STRING} >, "
            f"std::allocator<std::pair<{_STRING} const, int> > >::_M_insert_(int)",
            "std::_Rb_tree<std::string, std::pair<std::string const, int>>::_M_insert_",
        ),
        (
            "__gnu_cxx::new_allocator<Row>::allocate(unsigned long, void const*)",
            "__gnu_cxx::new_allocator<Row>::allocate",
        ),
        ("operator new(unsigned long)", "operator new(unsigned long)"),
        ("Pool::operator new(unsigned long)", "Pool::operator new"),
        ("std::ostream& operator<< <int>(std::ostream&, int)", "operator<<"),
        ("A::operator bool() const", "A::operator bool"),
        (
            "(anonymous namespace)::serve(int, (anonymous namespace)::Connection&)",
            "(anonymous namespace)::serve",
        ),
        (
            "main::{lambda(int, char)#2}::operator()(int, char) const [clone .isra.0]",
            "main::{lambda#2}::operator()",
        ),
        ("A::f(int) const::{lambda()#1}::operator()() const", "A::f::{lambda#1}::operator()"),
        ("std::string Table<3>::name[abi:cxx11](int) const", "Table<3>::name"),
        ("std::map<int, " + "Long" * 20 + " >::at(int)", "std::map<int, …>::at"),
        ("main", "main"),
        ("<alloc::vec::Vec<T,A> as core::ops::drop::Drop>::drop", None),
        ("LazyCompile:*serve /srv/app.js:3:11", None),
        ("JS:~std::odd /srv/app.js:3:11", None),
        ("py::<module>:/srv/app.py", None),
        ("a::b<c(", None),
    ],
)
def test_names(name, expected):
    assert short(name) == (name if expected is None else expected)


_PROGRAM = """
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>
struct Row { std::string name; int values[4]; };
template class std::vector<Row>;
template class std::map<std::string, std::vector<Row>>;
template class std::unordered_map<int, std::shared_ptr<Row>>;
template class std::function<void(Row&)>;
int main() { return 0; }
"""


def test_all_names_of_a_program_are_understood(tmp_path):
    """Whatever the C++ library's names are, short ones are shorter and have balanced brackets."""
    (tmp_path / "a.cc").write_text(_PROGRAM, encoding="ascii")
    subprocess.run(["c++", "-std=c++20", "a.cc", "-o", "a"], cwd=tmp_path, check=True)
    listed = subprocess.run(
        ["nm", "-C", "--defined-only", "a"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    names = {line.split(" ", 2)[2] for line in listed.splitlines() if " W " in line}
    names = {name for name in names if "(" in name and "::" in name}
    assert len(names) > 300
    for name in names:
        found = short(name)
        assert len(found) < len(name), name
        assert found.count("(") == found.count(")"), name
        assert "std::allocator<" not in found or name.startswith("std::allocator<"), found
        assert not found.startswith(("void ", "unsigned ")), found
