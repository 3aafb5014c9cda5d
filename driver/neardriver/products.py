"""What the commands build: the library alone, a design, all products, the lab's programs."""

from neardriver import building, locks, packages, paths, trees
from neardriver.messages import Misuse

LIBRARY = paths.tree("release") / "libnearmalloc.so"


def build(*targets: str, definitions: tuple[str, ...] = (), preset: str = "release") -> None:
    """Effect: the targets are built in the preset's tree."""
    packages.need("build")
    with locks.hold(preset):
        building.configure(preset, *definitions)
        building.compile_targets(preset, *targets)


def build_library() -> None:
    build("nearmalloc")


def build_lab() -> None:
    build("products", definitions=("NEAR_LAB=ON",))


def build_demo() -> None:
    """What `./near demo` runs."""
    build("demo_products", definitions=("NEAR_LAB=ON",))


def build_simulator() -> None:
    """What runs on simulated processors."""
    build("manycore_products", definitions=("NEAR_LAB=ON",), preset="manycore")


def build_preset(preset: str) -> None:
    """`./near build`: all products of the release, and other trees with their tests."""
    if preset not in trees.TREES:
        raise Misuse(f"unknown preset '{preset}'; there are: {' '.join(trees.TREES)}")
    if preset == "release":
        build("products")
        return
    tree = trees.TREES[preset]
    packages.need("tests", *tree.purposes)
    build(tree.target, preset=preset,
          definitions=("NEAR_TESTS=ON", f"NEAR_PYTHON={paths.PYTHON}", *tree.definitions))
