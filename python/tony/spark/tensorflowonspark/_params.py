"""The parameters of TFEstimator and TFModel."""

from typing import Any, Dict

from ..._errors import TonyError
from .._pyspark_ml import Params, TypeConverters, param


class TFTypeConverters:
    """Converters for types that Spark ML does not have."""

    @staticmethod
    def toDict(value: Any) -> Dict[str, str]:
        if not isinstance(value, dict):
            raise TypeError(f"{value!r} is not a dict")
        return value


class HasBatchSize(Params):
    batch_size: Any = param("batch_size", "Number of records in a batch", TypeConverters.toInt)

    def setBatchSize(self, value: int) -> Any:
        return self._set(batch_size=value)

    def getBatchSize(self) -> Any:
        return self.getOrDefault(self.batch_size)


class HasClusterSize(Params):
    cluster_size: Any = param("cluster_size", "Number of tasks of the cluster", TypeConverters.toInt)

    def setClusterSize(self, value: int) -> Any:
        return self._set(cluster_size=value)

    def getClusterSize(self) -> Any:
        return self.getOrDefault(self.cluster_size)


class HasEpochs(Params):
    epochs: Any = param("epochs", "Number of epochs", TypeConverters.toInt)

    def setEpochs(self, value: int) -> Any:
        return self._set(epochs=value)

    def getEpochs(self) -> Any:
        return self.getOrDefault(self.epochs)


class HasExportDir(Params):
    export_dir: Any = param("export_dir", "Folder of the SavedModel", TypeConverters.toString)

    def setExportDir(self, value: str) -> Any:
        return self._set(export_dir=value)

    def getExportDir(self) -> Any:
        return self.getOrDefault(self.export_dir)


class HasGraceSecs(Params):
    grace_secs: Any = param("grace_secs", "Accepted for compatibility: the programs have the time that they need", TypeConverters.toInt)

    def setGraceSecs(self, value: int) -> Any:
        return self._set(grace_secs=value)

    def getGraceSecs(self) -> Any:
        return self.getOrDefault(self.grace_secs)


class HasInputMapping(Params):
    input_mapping: Any = param("input_mapping", "Name of the tensor for each column of the DataFrame", TFTypeConverters.toDict)

    def setInputMapping(self, value: Dict[str, str]) -> Any:
        return self._set(input_mapping=value)

    def getInputMapping(self) -> Any:
        return self.getOrDefault(self.input_mapping)


class HasInputMode(Params):
    input_mode: Any = param("input_mode", "Who reads the data: InputMode.SPARK", TypeConverters.toInt)

    def setInputMode(self, value: int) -> Any:
        if value == 0:
            raise TonyError("USAGE", "the data of an estimator is a DataFrame, which needs InputMode.SPARK")
        return self._set(input_mode=value)

    def getInputMode(self) -> Any:
        return self.getOrDefault(self.input_mode)


class HasMasterNode(Params):
    master_node: Any = param("master_node", "Job name of the chief", TypeConverters.toString)

    def setMasterNode(self, value: str) -> Any:
        return self._set(master_node=value)

    def getMasterNode(self) -> Any:
        return self.getOrDefault(self.master_node)


class HasModelDir(Params):
    model_dir: Any = param("model_dir", "Folder of the checkpoints", TypeConverters.toString)

    def setModelDir(self, value: str) -> Any:
        return self._set(model_dir=value)

    def getModelDir(self) -> Any:
        return self.getOrDefault(self.model_dir)


class HasNumPS(Params):
    num_ps: Any = param("num_ps", "Number of parameter servers", TypeConverters.toInt)
    driver_ps_nodes: Any = param(
        "driver_ps_nodes", "Accepted for compatibility: parameter servers run in containers", TypeConverters.toBoolean
    )

    def setNumPS(self, value: int) -> Any:
        return self._set(num_ps=value)

    def getNumPS(self) -> Any:
        return self.getOrDefault(self.num_ps)

    def setDriverPSNodes(self, value: bool) -> Any:
        return self._set(driver_ps_nodes=value)

    def getDriverPSNodes(self) -> Any:
        return self.getOrDefault(self.driver_ps_nodes)


class HasOutputMapping(Params):
    output_mapping: Any = param("output_mapping", "Name of the column for each output of the model", TFTypeConverters.toDict)

    def setOutputMapping(self, value: Dict[str, str]) -> Any:
        return self._set(output_mapping=value)

    def getOutputMapping(self) -> Any:
        return self.getOrDefault(self.output_mapping)


class HasProtocol(Params):
    protocol: Any = param("protocol", "Protocol of TensorFlow", TypeConverters.toString)

    def setProtocol(self, value: str) -> Any:
        return self._set(protocol=value)

    def getProtocol(self) -> Any:
        return self.getOrDefault(self.protocol)


class HasReaders(Params):
    readers: Any = param("readers", "Number of threads that read data", TypeConverters.toInt)

    def setReaders(self, value: int) -> Any:
        return self._set(readers=value)

    def getReaders(self) -> Any:
        return self.getOrDefault(self.readers)


class HasSignatureDefKey(Params):
    signature_def_key: Any = param("signature_def_key", "Name of the signature", TypeConverters.toString)

    def setSignatureDefKey(self, value: str) -> Any:
        return self._set(signature_def_key=value)

    def getSignatureDefKey(self) -> Any:
        return self.getOrDefault(self.signature_def_key)


class HasSteps(Params):
    steps: Any = param("steps", "Maximum number of steps", TypeConverters.toInt)

    def setSteps(self, value: int) -> Any:
        return self._set(steps=value)

    def getSteps(self) -> Any:
        return self.getOrDefault(self.steps)


class HasTagSet(Params):
    tag_set: Any = param("tag_set", "Tags of the SavedModel, with commas between them", TypeConverters.toString)

    def setTagSet(self, value: str) -> Any:
        return self._set(tag_set=value)

    def getTagSet(self) -> Any:
        return self.getOrDefault(self.tag_set)


class HasTensorboard(Params):
    tensorboard: Any = param("tensorboard", "Whether the job runs TensorBoard", TypeConverters.toBoolean)

    def setTensorboard(self, value: bool) -> Any:
        return self._set(tensorboard=value)

    def getTensorboard(self) -> Any:
        return self.getOrDefault(self.tensorboard)


class HasTFRecordDir(Params):
    tfrecord_dir: Any = param("tfrecord_dir", "Folder for TFRecord files", TypeConverters.toString)

    def setTFRecordDir(self, value: str) -> Any:
        return self._set(tfrecord_dir=value)

    def getTFRecordDir(self) -> Any:
        return self.getOrDefault(self.tfrecord_dir)
