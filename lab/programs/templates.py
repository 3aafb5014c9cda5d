"""Prints the C++ file that the program `gcc` compiles: templates, instantiated for many types.

Invariant: the text depends on the argument alone, the number of groups. The lab runs it once.
"""

import sys

_HEAD = """// Written by the demo: expression templates, visitors, containers.
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <variant>
#include <vector>

template <int... Is>
struct Indices {};
template <int N, int... Is>
struct MakeIndices : MakeIndices<N - 1, N - 1, Is...> {};
template <int... Is>
struct MakeIndices<0, Is...> {
  using type = Indices<Is...>;
};

template <typename L, typename R, int Op>
struct Expression {
  L left;
  R right;
  template <typename T>
  constexpr T eval(const T& x) const {
    if constexpr (Op == 0) return static_cast<T>(left.eval(x) + right.eval(x));
    if constexpr (Op == 1) return static_cast<T>(left.eval(x) * right.eval(x));
    return static_cast<T>(left.eval(x) - right.eval(x) / T(3));
  }
};
template <int N>
struct Constant {
  template <typename T>
  constexpr T eval(const T&) const {
    return T(N);
  }
};
struct Argument {
  template <typename T>
  constexpr T eval(const T& x) const {
    return x;
  }
};
template <int Depth, int Seed>
struct Tree {
  using type = Expression<typename Tree<Depth - 1, Seed * 3 + 1>::type,
                          typename Tree<Depth - 1, Seed * 5 + 2>::type, (Seed + Depth) % 3>;
};
template <int Seed>
struct Tree<0, Seed> {
  using type = std::conditional_t<Seed % 2 == 0, Argument, Constant<Seed % 17>>;
};

template <typename Key, typename Value>
struct Registry {
  std::map<Key, std::vector<Value>> ordered;
  std::unordered_map<std::string, std::shared_ptr<Value>> named;
  void add(const Key& key, const std::string& name, Value value) {
    ordered[key].push_back(value);
    named.insert_or_assign(name, std::make_shared<Value>(std::move(value)));
  }
  template <typename F>
  std::size_t each(F f) const {
    std::size_t count = 0;
    for (const auto& [key, values] : ordered)
      for (const auto& value : values) count += static_cast<std::size_t>(f(key, value));
    return count;
  }
};
"""

_GROUP = """
namespace group{n} {{
struct Alpha {{
  int x;
  std::string name;
  bool operator<(const Alpha& o) const {{ return x < o.x; }}
}};
struct Beta {{ double y[{dims}]; std::vector<Alpha> parts; }};
struct Gamma {{ std::tuple<int, Alpha, std::unique_ptr<Beta>> all; }};
using Any = std::variant<int, double, std::string, Alpha, std::shared_ptr<Beta>>;

template <typename... Ts>
struct Visit : Ts... {{ using Ts::operator()...; }};
template <typename... Ts>
Visit(Ts...) -> Visit<Ts...>;

std::size_t measure(const Any& any) {{
  return std::visit(Visit{{
    [](int i) {{ return std::size_t(i + {n}); }},
    [](double d) {{ return std::size_t(d * {dims}); }},
    [](const std::string& s) {{ return s.size(); }},
    [](const Alpha& a) {{ return a.name.size() + std::size_t(a.x); }},
    [](const std::shared_ptr<Beta>& b) {{ return b ? b->parts.size() : std::size_t(0); }}}}, any);
}}

template <int... Is>
double evaluate(double x, Indices<Is...>) {{
  return (typename Tree<{depth}, Is + {n}>::type{{}}.template eval<double>(x) + ...);
}}

std::size_t run(int scale) {{
  Registry<int, Alpha> small;
  Registry<Alpha, std::string> large;
  std::vector<Any> all;
  std::set<std::string, std::greater<>> names;
  for (int i = 0; i < scale; ++i) {{
    Alpha alpha{{i * {n}, "alpha" + std::to_string(i)}};
    small.add(i % {dims}, alpha.name, alpha);
    large.add(alpha, "large" + alpha.name, std::to_string(i * {dims}));
    all.emplace_back(alpha);
    all.emplace_back(double(i) / {dims});
    all.emplace_back(std::make_shared<Beta>(Beta{{{{double(i)}}, {{alpha, alpha}}}}));
    names.insert(alpha.name);
  }}
  const auto less = [](const Any& a, const Any& b) {{ return measure(a) < measure(b); }};
  std::sort(all.begin(), all.end(), less);
  using Weigh = std::function<std::size_t(const Alpha&, const std::string&)>;
  const Weigh weigh = [&](const Alpha& a, const std::string& s) {{
    return names.count(a.name) + s.size();
  }};
  return std::accumulate(all.begin(), all.end(), std::size_t(0),
                         [](std::size_t sum, const Any& any) {{ return sum + measure(any); }}) +
         small.each([](int key, const Alpha& a) {{ return key + a.x; }}) + large.each(weigh) +
         std::size_t(evaluate(scale, typename MakeIndices<{width}>::type{{}}));
}}
}}  // namespace group{n}
"""


def make(groups: int) -> str:
    """A translation unit with `groups` independent groups of code."""
    parts = [_HEAD]
    for n in range(groups):
        parts.append(_GROUP.format(n=n, dims=3 + n % 5, depth=3 + n % 3, width=4 + n % 4))
    calls = " + ".join(f"group{n}::run(argc + {n})" for n in range(groups))
    parts.append(f"\nint main(int argc, char**) {{ return int(({calls}) & 127); }}\n")
    return "".join(parts)


if __name__ == "__main__":
    print(make(int(sys.argv[1])))
