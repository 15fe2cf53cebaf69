"""What NVIDIA's headers declare, turned into the parts of the libraries that need no thought.

From cuda.h, cudaTypedefs.h and nvml.h as their wheels ship them, at build time: an entry point that answers "not
supported" for each call that is not modelled, the per-thread-default-stream variants of those that are, the table
behind cuGetProcAddress, and the names of the errors. Nothing of the headers is kept in the source tree.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_ALIAS = re.compile(r"#define\s+(cu\w+)\s+(?:__CUDA_API_(PTSZ|PTDS)\((cu\w+)\)|(cu\w+))[ \t]*$", re.MULTILINE)
_CALL = re.compile(r"\bCUresult\s+CUDAAPI\s+(cu\w+)\s*\(([^;]*)\)\s*;")
_TYPEDEF = re.compile(r"\(CUDAAPI \*PFN_(cu\w+?)_v(\d+)(_ptds|_ptsz)?\)")
_DEFINED = re.compile(r"^(?:CUresult CUDAAPI|nvmlReturn_t DECLDIR) (\w+)\(", re.MULTILINE)
_INTERNAL = "#if defined(__CUDA_API_VERSION_INTERNAL)\n"
_ENUM_ERROR = re.compile(r"\b(CUDA_(?:SUCCESS|ERROR_\w+))\s*=")
_NVML_CALL = re.compile(r"\bDECLDIR\s+(nvml\w+)\s*\(")


class HeaderError(RuntimeError):
    """The headers are not as this module expects: it must be looked at before building with them."""


@dataclass(frozen=True)
class Call:
    """One exported symbol of the driver library.

    Attributes:
        symbol: The name that the library exports.
        parameters: Its parameter list, as declared.
        variant: The suffix of its per-thread-default-stream variant (`_ptsz`, `_ptds`), or empty.
    """

    symbol: str
    parameters: str
    variant: str = ""


@dataclass(frozen=True)
class Driver:
    """The driver library's surface: current calls, earlier versions, and who answers to which name since when."""

    current: tuple[Call, ...]
    earlier: tuple[Call, ...]
    lookup: tuple[tuple[str, int, bool, str], ...]
    errors: tuple[str, ...]

    @property
    def symbols(self) -> frozenset[str]:
        """Every symbol that the library exports."""
        variants = {call.symbol + call.variant for call in self.current}
        return frozenset({call.symbol for call in (*self.current, *self.earlier)} | variants)


def read_driver(cuda_h: str, typedefs_h: str) -> Driver:
    """Read the driver's surface from the text of its two headers."""
    text = _COMMENT.sub(" ", cuda_h)
    aliases = {name: (target or plain, f"_{kind.lower()}" if kind else "")
               for name, kind, target, plain in _ALIAS.findall(text)}  # fmt: skip
    aliases.pop("cuGetProcAddress_v2", None)  # a wrapper inside the header, not a symbol
    main, _, internal = text.rpartition(_INTERNAL)
    internal, _, rest = internal.partition("\n#endif")
    current = []
    for name, parameters in _CALL.findall(main + rest):
        symbol, variant = aliases.get(name, (name, ""))
        current.append(Call(symbol, " ".join(parameters.split()), variant))
    known = {call.symbol for call in current} | {call.symbol + call.variant for call in current}
    earlier = tuple(
        Call(name, " ".join(parameters.split())) for name, parameters in _CALL.findall(internal) if name not in known
    )
    driver = Driver(tuple(current), earlier, (), tuple(dict.fromkeys(_ENUM_ERROR.findall(text))))
    return replace(driver, lookup=tuple(_read_lookup(typedefs_h, aliases, driver.symbols)))


def _read_lookup(
    typedefs_h: str, aliases: dict[str, tuple[str, str]], symbols: frozenset[str]
) -> Iterable[tuple[str, int, bool, str]]:
    """Which symbol each (name, CUDA version, per-thread flag) stands for: `name`, then `name_v2`, and so on."""
    versions: dict[tuple[str, bool], dict[int, str]] = {}
    for name, version, variant in _TYPEDEF.findall(_COMMENT.sub(" ", typedefs_h)):
        versions.setdefault((name, bool(variant)), {})[int(version)] = variant
    for (name, per_thread), found in sorted(versions.items()):
        newest = aliases.get(name, (name, ""))[0]
        ordered = sorted(found)
        for place, version in enumerate(ordered):
            candidates = [f"{name}_v{place + 1}" if place else name]
            if version == ordered[-1]:
                candidates.insert(0, newest)
            if per_thread and len(ordered) == 1:
                candidates.insert(0, newest)
            matching = [c + found[version] for c in candidates if c + found[version] in symbols]
            if not matching:
                raise HeaderError(f"{name} of CUDA {version}: no symbol like {', '.join(candidates)} is declared")
            yield name, version, per_thread, matching[0]


def defined_symbols(sources: Iterable[Path], driver: Driver, cuda_h: str) -> frozenset[str]:
    """The symbols that the sources define; outside older.c a name stands for the symbol that the header maps it to."""
    aliases = {name: target or plain for name, _, target, plain in _ALIAS.findall(_COMMENT.sub(" ", cuda_h))}
    defined: set[str] = set()
    for source in sources:
        names = _DEFINED.findall(source.read_text())
        mapped = names if source.name == "older.c" else [aliases.get(name, name) for name in names]
        unknown = sorted(set(mapped) - driver.symbols)
        if unknown:
            raise HeaderError(f"{source.name} defines what the header does not declare: {', '.join(unknown)}")
        defined.update(mapped)
    return frozenset(defined)


def write_driver(driver: Driver, defined: frozenset[str]) -> dict[str, str]:
    """The generated sources of the driver library, by file name."""
    variants = {call.symbol + call.variant: call for call in driver.current if call.variant and call.symbol in defined}
    earlier = {
        call.symbol: replace(call, symbol=call.symbol[:-5], variant=call.symbol[-5:])
        for call in driver.earlier
        if call.symbol.endswith(("_ptsz", "_ptds")) and call.symbol[:-5] in defined
    }
    variants.update(earlier)
    missing = sorted(driver.symbols - defined - set(variants))
    stubs = ["int emu_not_modelled(const char *name);", *(
        f'__attribute__((visibility("default"))) int {name}(void) {{ return emu_not_modelled("{name}"); }}'
        for name in missing)]  # fmt: skip
    wrappers = ['#include "driver/driver.h"']
    for call in earlier.values():  # the header gives these names to their successors
        wrappers += [f"#undef {call.symbol}", f"extern CUresult {call.symbol}({call.parameters});"]
    for symbol, call in sorted(variants.items()):
        names = ", ".join(_parameter_name(part) for part in _split(call.parameters))
        wrappers.append(
            f'__attribute__((visibility("default"))) CUresult {symbol}({call.parameters}) {{\n'
            f"  emu_default_is_per_thread = true;\n  CUresult result = {call.symbol}({names});\n"
            "  emu_default_is_per_thread = false;\n  return result;\n}"
        )
    addressed = sorted({symbol for *_, symbol in driver.lookup})
    rows = [f'    {{"{name}", {version}, {str(per_thread).lower()}, {symbol}}},'
            for name, version, per_thread, symbol in driver.lookup]  # fmt: skip
    table = [
        "#include <stdbool.h>",
        *(f"extern void {symbol}(void);" for symbol in addressed),
        "struct emu_symbol { const char *name; int version; bool per_thread; void (*address)(void); };",
        "const struct emu_symbol emu_symbols[] = {",
        *rows,
        "};",
        "const unsigned emu_symbol_count = sizeof emu_symbols / sizeof *emu_symbols;",
    ]
    errors = [
        "#include <cuda.h>",
        "const struct emu_error { CUresult code; const char *name; } emu_errors[] = {",
        *(f'    {{{name}, "{name}"}},' for name in driver.errors),
        "};",
        "const unsigned emu_error_count = sizeof emu_errors / sizeof *emu_errors;",
    ]
    parts = {"not_modelled.c": stubs, "per_thread.c": wrappers, "symbols.c": table, "errors.c": errors}
    return {name: "\n".join(lines) + "\n" for name, lines in parts.items()}


def write_nvml(nvml_h: str, sources: Iterable[Path]) -> dict[str, str]:
    """The generated source of the NVML library: what it does not model answers NVML_ERROR_NOT_SUPPORTED."""
    declared = set(_NVML_CALL.findall(_COMMENT.sub(" ", nvml_h)))
    defined = {name for source in sources for name in _DEFINED.findall(source.read_text())}
    aliases = dict(re.findall(r"#define\s+(nvml\w+)\s+(nvml\w+)\s*$", nvml_h, re.MULTILINE))
    defined = {aliases.get(name, name) for name in defined}
    missing = sorted({aliases.get(name, name) for name in declared} - defined)
    lines = [f'__attribute__((visibility("default"))) int {name}(void) {{ return 3; }}' for name in missing]
    return {"nvml_not_modelled.c": "\n".join(lines) + "\n"}


def _split(parameters: str) -> list[str]:
    return [] if parameters.strip() in {"", "void"} else parameters.split(",")


def _parameter_name(parameter: str) -> str:
    name = re.search(r"(\w+)\s*(?:\[[^\]]*\])?\s*$", parameter)
    if name is None:
        raise HeaderError(f"no name in the parameter {parameter!r}")
    return name.group(1)
