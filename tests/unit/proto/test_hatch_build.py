"""The build of the package's C file: whole, or not at all and with the reason."""

import importlib.util
import shutil
import sysconfig
from pathlib import Path
from types import ModuleType

import pytest

from support.tidy_tree import ROOT

SOURCE = ROOT / "proto" / "strandline_proto" / "_records.c"


@pytest.fixture(scope="module")
def build() -> ModuleType:
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "tools" / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_compiles_without_a_warning_where_a_compiler_is(
    build: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    headers = Path(sysconfig.get_path("include"), "Python.h")
    if shutil.which("cc") is None or not headers.is_file():
        pytest.skip("no C compiler or no Python headers here")
    target = tmp_path / "_records.abi3.so"
    monkeypatch.setattr(build, "FLAGS", (*build.FLAGS, "-Wconversion", "-Werror"))
    assert build.compile_into(target, SOURCE) is None
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("compiler", ["no-such-compiler", "false"])
def test_without_one_it_says_why_and_leaves_nothing(
    build: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiler: str
) -> None:
    monkeypatch.setenv("CC", compiler)
    assert compiler in build.compile_into(tmp_path / "_records.abi3.so", SOURCE)
    assert list(tmp_path.iterdir()) == []


def test_macos_looks_for_pythons_symbols_in_the_interpreter(build: ModuleType) -> None:
    assert build.link_flags("darwin") == ("-bundle", "-undefined", "dynamic_lookup")
    assert build.link_flags("linux") == ("-shared",)


def test_a_wheel_for_macos_has_the_tag_of_the_oldest_release_that_it_is_compiled_for(
    build: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = build.platform_tag()
    monkeypatch.setenv("MACOSX_DEPLOYMENT_TARGET", "11.0")
    assert build.platform_tag() == own, "another system has no such target"
    monkeypatch.setattr(build.sys, "platform", "darwin")
    monkeypatch.setattr(build.platform, "machine", lambda: "arm64")
    assert build.platform_tag() == "macosx_11_0_arm64"


def test_the_address_of_a_release_is_in_its_metadata(
    build: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = build.AddressHook(str(ROOT), {})
    metadata: dict[str, object] = {}
    monkeypatch.delenv("STRANDLINE_URL", raising=False)
    hook.update(metadata)
    assert metadata == {}
    monkeypatch.setenv("STRANDLINE_URL", "https://example.org/strandline/")
    hook.update(metadata)
    assert metadata["urls"] == {
        "Homepage": "https://example.org/strandline",
        "Source": "https://example.org/strandline",
        "Issues": "https://example.org/strandline/issues",
    }
    monkeypatch.setenv("STRANDLINE_URL", "example.org")
    with pytest.raises(ValueError, match=r"'example\.org' is no address"):
        hook.update(metadata)
