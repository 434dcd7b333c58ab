"""Functions that only compiled code calls: no machine code is made of them until a caller takes them in."""

from __future__ import annotations

from typing import Any

from llvmlite import binding
from numba.core.caching import CompileResultCacheImpl
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, CompileResult


class _NoEnvironment:
    """Stands for the machine code that an inner function lacks."""

    def set_env(self, name: str, environment: Any) -> None:
        """Callers hold the environments of all functions in their code."""


class _InnerLibrary(JITCodeLibrary):  # type: ignore[misc]
    """Code that waits for a caller, which optimises and translates it together with its own."""

    @property
    def codegen(self) -> Any:
        return _NoEnvironment()

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        return 0

    def serialize_using_object_code(self) -> Any:
        return self.serialize_using_bitcode()


class InnerCompiler(Compiler):  # type: ignore[misc]
    """Compiles into such code."""

    def _compile_core(self) -> Any:
        state = self.state
        state.library = _InnerLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        return super()._compile_core()


class InnerCache(CompileResultCacheImpl):  # type: ignore[misc]
    """How such code is kept."""

    def rebuild(self, target_context: Any, payload: Any) -> Any:
        """What was kept, as it was."""
        (name, _, bitcode), fndesc, env, signature, objectmode, lifted, typeann, reload_init, envs = payload
        library = _InnerLibrary(target_context.codegen(), name)
        library._final_module = binding.parse_bitcode(bitcode)
        library._finalize_final_module()
        return CompileResult(
            target_context=target_context,
            typing_context=target_context.typing_context,
            library=library,
            environment=env,
            entry_point=target_context.get_executable(library, fndesc, env),
            fndesc=fndesc,
            type_annotation=typeann,
            signature=signature,
            objectmode=objectmode,
            lifted=lifted,
            typing_error=None,
            call_helper=None,
            metadata=None,
            reload_init=reload_init,
            referenced_envs=envs,
        )
