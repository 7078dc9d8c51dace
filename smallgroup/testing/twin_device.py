"""A device that is not there: tensors on `lazy:0` that hold real values in main memory and obey the rules of a GPU.

    with TwinDevice() as twin, twin.counted() as traffic:
        x = torch.zeros(8, device=twin.device)
        x.sum().item()                      # counted as a read
        x + torch.zeros(8)                  # raises PlacementError, as on a GPU
    print(traffic)

It shows on any machine that code keeps its tensors on one device, and what a step would ask of a GPU: launches, reads
that wait, and copies. It does not show the numerics, the speed, the streams or the memory of a GPU, nor autocast.

The device type is torch's `lazy`: torch knows the name, passes gradients through such tensors on the calling thread,
and has nothing of its own behind it unless `torch._lazy` is started. The rest stands on private parts of torch;
`missing_from_torch` says what this torch lacks, if it lacks anything.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

NAME = "lazy"
"""The type of the device, as `cuda` is one."""

_optimizers: Any = sys.modules[torch.optim.Optimizer.__module__]
_FUSED = "_get_fused_kernels_supported_devices"
_PRIVATE = (
    (torch._C, "_only_lift_cpu_tensors"),
    (torch._C, "_set_only_lift_cpu_tensors"),
    (torch._C, "_disabled_torch_function_impl"),
    (Tensor, "_make_wrapper_subclass"),
    (_optimizers, _FUSED),
)
"""What is used of torch that has no promise to stay."""

# fmt: off
_FREE = frozenset({
    "view", "_unsafe_view", "detach", "alias", "expand", "permute", "transpose", "t", "select", "slice", "unsqueeze",
    "squeeze", "as_strided", "split", "split_with_sizes", "unbind", "_reshape_alias", "unfold", "diagonal",
    "empty_like", "empty", "empty_strided", "new_empty", "new_empty_strided", "is_pinned", "lift_fresh",
    "_local_scalar_dense", "chunk", "narrow", "view_as_real", "squeeze_", "unsqueeze_",
})
# fmt: on
"""Operators that start nothing on a device: views, and memory that is not filled."""
# fmt: off
_SYNCHRONOUS = frozenset({
    "_local_scalar_dense", "equal", "nonzero", "masked_select", "bincount", "_unique2", "unique_dim",
    "unique_consecutive", "is_nonzero",
})
# fmt: on
"""Operators whose result has a size or a value that the host must know: it waits."""
_ACROSS = frozenset({"copy_", "_foreach_copy_", "_to_copy", "index", "index_put", "index_put_", "_index_put_impl_"})
"""Operators that take tensors of two devices."""
_WITH_SCALARS = frozenset({"masked_fill", "masked_fill_", "fill_", "where", "index_fill", "index_fill_"})
"""Operators that take single numbers from main memory, beside all that work element by element."""


def missing_from_torch() -> str | None:
    """Return why there can be no twin device with this torch, in a few words, or None."""
    absent = [f"{owner.__name__}.{name}" for owner, name in _PRIVATE if not hasattr(owner, name)]
    return f"torch {torch.__version__} has no {absent[0]}" if absent else None


class PlacementError(RuntimeError):
    """Code that would fail on a GPU because of where its tensors or generators are."""


@dataclass
class Traffic:
    """Counts of requests to a device, by operator and, except for launches, by the line that asked."""

    launches: Counter[str] = field(default_factory=Counter)
    """Operators that start at least one kernel."""
    reads: Counter[str] = field(default_factory=Counter)
    """Values that the host waited for."""
    posted: Counter[str] = field(default_factory=Counter)
    """Values sent to the host with `non_blocking=True`: nobody waits yet."""
    copies: Counter[str] = field(default_factory=Counter)
    """Copies from the host to the device."""

    def __str__(self) -> str:
        names = ("launches", "reads", "posted", "copies")
        lines = [", ".join(f"{getattr(self, name).total():,} {name}" for name in names)]
        for name in names[1:]:
            lines += [f"  {count:6,} {name}: {place}" for place, count in getattr(self, name).most_common()]
        return "\n".join(lines)


class TwinDevice(TorchDispatchMode):
    """A device with the rules of CUDA while its `with` block runs; tensors of one block can be used in the next."""

    def __init__(self) -> None:
        problem = missing_from_torch()
        if problem is not None:
            raise RuntimeError(f"a twin device needs private parts of torch, but {problem}")
        super().__init__()  # type: ignore[no-untyped-call]
        self.device = torch.device(NAME, 0)
        self._counting: list[Traffic] = []
        self._captures = 0

    @contextmanager
    def counted(self) -> Iterator[Traffic]:
        """Count what is asked of the device inside the block."""
        traffic = Traffic()
        self._counting.append(traffic)
        try:
            yield traffic
        finally:
            self._counting = [one for one in self._counting if one is not traffic]

    @contextmanager
    def captured(self) -> Iterator[None]:
        """Refuse what a CUDA graph cannot contain: waiting for a value, and copies from the host."""
        self._captures += 1
        try:
            yield
        finally:
            self._captures -= 1

    @contextmanager
    def between_captures(self) -> Iterator[None]:
        """Allow inside a capture what happens after one graph and before the next."""
        captures, self._captures = self._captures, 0
        try:
            yield
        finally:
            self._captures = captures

    def __enter__(self) -> "TwinDevice":
        # Else torch.tensor(..., device=twin.device) would ask the device itself to read a Python list.
        self._lifting = torch._C._only_lift_cpu_tensors()
        torch._C._set_only_lift_cpu_tensors(True)
        # A GPU has fused optimizers, and so has its twin.
        self._fused: Callable[[], list[str]] = getattr(_optimizers, _FUSED)
        setattr(_optimizers, _FUSED, lambda: [*self._fused(), NAME])
        _ACTIVE.append(self)
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *error: object) -> None:
        torch._C._set_only_lift_cpu_tensors(self._lifting)
        setattr(_optimizers, _FUSED, self._fused)
        _ACTIVE.remove(self)
        super().__exit__(*error)  # type: ignore[no-untyped-call]

    def __torch_dispatch__(
        self,
        func: Any,  # noqa: ANN401
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401
        return _dispatch(func, args, dict(kwargs or {}))

    def note(self, kind: str, operator: str) -> None:
        """Count one thing that is asked of the device."""
        if self._captures and kind in ("reads", "copies"):
            raise PlacementError(f"a CUDA graph cannot contain {operator} ({kind}), asked for at {_place()}")
        if self._counting:
            entry = operator if kind == "launches" else f"{operator} at {_place()}"
            for traffic in self._counting:
                getattr(traffic, kind)[entry] += 1


_ACTIVE: list[TwinDevice] = []
_DATA: Any = Tensor.data


class _TwinTensor(Tensor):
    """A tensor that says it lies on the device; its values are `held` in main memory."""

    held: Tensor
    __torch_function__: ClassVar[Any] = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls: type["_TwinTensor"], held: Tensor) -> "_TwinTensor":
        made: _TwinTensor = Tensor._make_wrapper_subclass(
            cls,
            held.size(),
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            layout=held.layout,
            device=torch.device(NAME, 0),
            requires_grad=False,
        )
        made.held = held
        return made

    @property
    def data(self) -> Tensor:
        """The values without their history; torch's setter alone would replace the shape and keep the old values."""
        values: Tensor = _DATA.__get__(self)
        return values

    @data.setter
    def data(self, tensor: Tensor) -> None:
        _DATA.__set__(self, tensor)
        self.held = tensor.held if isinstance(tensor, _TwinTensor) else tensor

    def data_ptr(self) -> int:
        return self.held.data_ptr()

    def untyped_storage(self) -> torch.UntypedStorage:
        return self.held.untyped_storage()

    def tolist(self) -> Any:  # noqa: ANN401
        _note("reads", "tolist")  # torch would look at the memory directly; of a GPU it makes one copy
        return self.held.detach().tolist()

    def numpy(self, *, force: bool = False) -> Any:  # noqa: ANN401
        if not force:
            raise TypeError(f"can't convert {self.device} device type tensor to numpy. Use Tensor.cpu() first.")
        return self.cpu().numpy()

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]  # noqa: ANN401
        return f"twin({self.held!r})"

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls,
        func: Any,  # noqa: ANN401
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401
        return _dispatch(func, args, dict(kwargs or {}))


def _dispatch(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:  # noqa: ANN401
    """Check where the arguments are, count, compute in main memory, and wrap what belongs to the device."""
    leaves = tree_leaves((args, kwargs))
    twins = [leaf for leaf in leaves if isinstance(leaf, _TwinTensor)]
    target = kwargs.get("device")
    stays = bool(twins) if target is None else torch.device(target).type == NAME
    if not twins and not stays:
        return func(*args, **kwargs)
    name = func._schema.name.partition("::")[2]
    hosts = [leaf for leaf in leaves if isinstance(leaf, Tensor) and not isinstance(leaf, _TwinTensor)]
    if any(isinstance(leaf, torch.Generator) for leaf in leaves):
        raise PlacementError(f"Expected a '{NAME}' device type for generator but found 'cpu' in {func}")
    if twins:
        _check_mixing(func, name, hosts)
    _count(name, args, kwargs, moves=not twins, stays=stays)
    if target is not None and stays:
        kwargs["device"] = torch.device("cpu")
    known: dict[int, Tensor] = {id(host): host for host in hosts}

    def opened(value: Any) -> Any:  # noqa: ANN401
        if isinstance(value, _TwinTensor):
            known[id(value.held)] = value
            return value.held
        return value

    def wrapped(value: Any) -> Any:  # noqa: ANN401
        if not isinstance(value, Tensor):
            return value
        return known[id(value)] if id(value) in known else _TwinTensor(value)

    if name == "_efficientzerotensor":  # has no memory, which operators below this level would look at
        func = torch.ops.aten.zeros.default
    args, kwargs = tree_map(opened, args), tree_map(opened, kwargs)
    result = func(*args, **kwargs)
    return tree_map(wrapped, result) if stays else result


def _check_mixing(func: Any, name: str, hosts: Sequence[Tensor]) -> None:  # noqa: ANN401
    """Refuse tensors of the host beside those of the device; single numbers pass where the operator takes them."""
    if name in _ACROSS:
        return
    scalars = name in _WITH_SCALARS or name.startswith(("_foreach_", "_fused_")) or torch.Tag.pointwise in func.tags
    if any(host.dim() > 0 or not scalars for host in hosts):
        raise PlacementError(
            f"Expected all tensors to be on the same device, but found {NAME}:0 and cpu in {func} at {_place()}"
        )


def _count(name: str, args: Sequence[Any], kwargs: Mapping[str, Any], *, moves: bool, stays: bool) -> None:
    """Count what an operator asks of the device; `moves`: its tensors come from the host, `stays`: they end there."""
    if name == "_to_copy" and not stays:
        if torch.device(kwargs["device"]).type != "meta":
            _note("posted" if kwargs.get("non_blocking") else "reads", "to(cpu)")
    elif name == "_to_copy" and moves:
        _note("copies", f"to({NAME})")
    elif name in ("copy_", "_foreach_copy_"):
        _count_copies(name, args, waits=not (args[2] if len(args) > 2 else kwargs.get("non_blocking")))
    elif name not in _FREE:
        _note("launches", name)
    if name in _SYNCHRONOUS:
        _note("reads", name)
    if name.startswith(("index", "_index")):
        _count_indices(name, [leaf for leaf in tree_leaves(args[1:2]) if isinstance(leaf, Tensor)])


def _count_copies(name: str, args: Sequence[Any], *, waits: bool) -> None:
    """Count copies between tensors, pair by pair: those of one device are no traffic."""
    pairs = list(zip(tree_leaves(args[0]), tree_leaves(args[1]), strict=True))
    kinds = [(isinstance(to, _TwinTensor), isinstance(source, _TwinTensor)) for to, source in pairs]
    for kind in kinds:
        if kind == (True, False):
            _note("copies", name)
        elif kind == (False, True):
            _note("reads" if waits else "posted", name)
    if (True, True) in kinds:
        _note("launches", name)


def _count_indices(name: str, indices: Sequence[Tensor]) -> None:
    """Count what comes with indices: those of the host travel, and masks have to be counted before they choose."""
    if name in _ACROSS and any(not isinstance(index, _TwinTensor) for index in indices):
        _note("copies", f"{name} with indices of the host")
    if any(index.dtype in (torch.bool, torch.uint8) for index in indices):
        _note("reads", f"{name} with a mask")


def _note(kind: str, operator: str) -> None:
    for twin in _ACTIVE:
        twin.note(kind, operator)


def _place() -> str:
    """Return the innermost line that is neither torch's nor of this file."""
    frame = sys._getframe()
    inside = (str(Path(torch.__file__).parent), __file__)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(inside):
        frame = frame.f_back
    return f"{'/'.join(Path(frame.f_code.co_filename).parts[-2:])}:{frame.f_lineno}"
