"""The classes of pyspark.ml that this package extends. mypy knows no types of PySpark, so it sees these."""

from typing import TYPE_CHECKING, Any, Callable

if TYPE_CHECKING:
    # PySpark has no types that mypy knows.
    Param: Any
    TypeConverters: Any
    DefaultParamsReader: Any
    DefaultParamsWriter: Any

    class Params:
        params: Any
        uid: str

        def _set(self, **values: Any) -> Any: ...

        def _setDefault(self, **values: Any) -> Any: ...

        def _copyValues(self, to: Any) -> Any: ...

        def _resetUid(self, newUid: str) -> Any: ...

        def _dummy(self) -> Any: ...

        def getOrDefault(self, param: Any) -> Any: ...

        def isDefined(self, param: Any) -> bool: ...

    class Estimator(Params): ...

    class Model(Params):
        def transform(self, dataset: Any) -> Any: ...

    class MLReadable: ...

    class MLWritable: ...

    class DefaultParamsReadable(MLReadable): ...

    class DefaultParamsWritable(MLWritable): ...

    class MLReader:
        sc: Any

    class MLWriter:
        sc: Any

else:
    from pyspark.ml import Estimator, Model
    from pyspark.ml.param import Param, Params, TypeConverters
    from pyspark.ml.util import (
        DefaultParamsReadable,
        DefaultParamsReader,
        DefaultParamsWritable,
        DefaultParamsWriter,
        MLReadable,
        MLReader,
        MLWritable,
        MLWriter,
    )

__all__ = [
    "DefaultParamsReadable",
    "DefaultParamsReader",
    "DefaultParamsWritable",
    "DefaultParamsWriter",
    "Estimator",
    "MLReadable",
    "MLReader",
    "MLWritable",
    "MLWriter",
    "Model",
    "Param",
    "Params",
    "TypeConverters",
    "param",
]


def param(name: str, doc: str, converter: Callable[[Any], Any]) -> Any:
    """Returns a parameter for the body of a class."""
    return Param(Params._dummy(), name, doc, typeConverter=converter)  # type: ignore[call-arg]
