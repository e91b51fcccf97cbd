"""Stores estimators and models that contain Python objects, in the folders in which Spark ML stores its own."""

import base64
from typing import Any, Dict, Type

from ._find_doors import ship_by_value
from ._pyspark_ml import DefaultParamsReader, DefaultParamsWriter, MLReadable, MLReader, MLWritable, MLWriter


class Stored(MLReadable, MLWritable):
    """Stored as Spark ML stores its models, with the arguments of the constructor pickled. Load only folders that you
    trust."""

    def _state(self) -> Dict[str, Any]:
        """Returns the arguments of the constructor."""
        raise NotImplementedError

    def write(self) -> Any:
        return _Writer(self)

    @classmethod
    def read(cls) -> Any:
        return _Reader(cls)


class _Writer(MLWriter):
    def __init__(self, instance: Stored) -> None:
        super().__init__()
        self._instance = instance

    def saveImpl(self, path: str) -> None:
        state = base64.b64encode(ship_by_value().dumps(self._instance._state())).decode()
        DefaultParamsWriter.saveMetadata(self._instance, path, self.sc, extraMetadata={"tonyState": state})


class _Reader(MLReader):
    def __init__(self, kind: Type[Stored]) -> None:
        super().__init__()
        self._kind = kind

    def load(self, path: str) -> Any:
        metadata = DefaultParamsReader.loadMetadata(path, self.sc)
        state: Dict[str, Any] = ship_by_value().loads(base64.b64decode(metadata["tonyState"]))
        instance: Any = self._kind(**state)
        instance._resetUid(metadata["uid"])
        DefaultParamsReader.getAndSetParams(instance, metadata)
        return instance
