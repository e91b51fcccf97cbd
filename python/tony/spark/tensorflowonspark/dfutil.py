"""Stores DataFrames as TFRecord files, and loads them.

As in TensorFlowOnSpark, the application needs the Hadoop formats of tensorflow/ecosystem (tensorflow-hadoop-*.jar) in
`spark.jars`, and TensorFlow in Spark's executors.
"""

from typing import Any, Callable, Dict, Iterable, Iterator, List, Sequence, Tuple

from .._find_doors import ship_by_value
from . import _examples

_CLASSES = {"keyClass": "org.apache.hadoop.io.BytesWritable", "valueClass": "org.apache.hadoop.io.NullWritable"}

# Folders of the DataFrames that loadTFRecords has returned.
loadedDF: Dict[Any, str] = {}


def isLoadedDF(df: Any) -> bool:
    """Returns whether loadTFRecords has returned this DataFrame."""
    return df in loadedDF


def saveAsTFRecords(df: Any, output_dir: str) -> None:
    """Stores each row as a tf.train.Example. A null is a missing feature."""
    records = df.rdd.mapPartitions(toTFExample(df.dtypes))
    records.saveAsNewAPIHadoopFile(output_dir, "org.tensorflow.hadoop.io.TFRecordFileOutputFormat", **_CLASSES)


def loadTFRecords(sc: Any, input_dir: str, binary_features: Sequence[str] = ()) -> Any:
    """Returns a DataFrame with a column for each feature. The first record tells their types, in which bytes are text,
    except in `binary_features`. Raises ValueError if there are no records."""
    from pyspark.sql import SparkSession

    records = sc.newAPIHadoopFile(input_dir, "org.tensorflow.hadoop.io.TFRecordFileInputFormat", **_CLASSES)
    first = records.take(1)
    if not first:
        raise ValueError(f"{input_dir} has no records from which to infer the columns")
    schema = infer_schema(_examples.parse(first[0][0]), binary_features)
    names = schema.names
    lists = [field.name for field in schema.fields if field.dataType.typeName() == "array"]
    binary = list(binary_features)
    _ship()
    rows_of = _examples.rows_of
    rows = records.mapPartitions(lambda each: rows_of(each, binary, names, lists))
    df = SparkSession.builder.getOrCreate().createDataFrame(rows, schema)
    loadedDF[df] = input_dir
    return df


def toTFExample(dtypes: Sequence[Tuple[str, str]]) -> Callable[[Iterable[Any]], Iterator[Tuple[bytearray, None]]]:
    """Returns a function for RDD.mapPartitions that converts rows to pairs of a serialized tf.train.Example and None.
    `dtypes` are those of the DataFrame."""
    _ship()
    encode = _examples.encode
    return lambda rows: encode(rows, dtypes)


def infer_schema(example: Any, binary_features: Sequence[str] = ()) -> Any:
    """Returns the StructType for the features of a tf.train.Example. Several values become an array."""
    from pyspark.sql.types import ArrayType, BinaryType, DoubleType, LongType, StringType, StructField, StructType

    fields: List[Any] = []
    for name, feature in sorted(example.features.feature.items()):
        kind = feature.WhichOneof("kind")
        kinds = {"int64_list": LongType(), "float_list": DoubleType()}
        single = BinaryType() if name in binary_features else kinds.get(kind, StringType())
        is_list = kind is not None and len(getattr(feature, kind).value) > 1
        fields.append(StructField(name, ArrayType(single) if is_list else single, True))
    return StructType(fields)


def fromTFExample(iter: Iterable[Any], binary_features: Sequence[str] = ()) -> List[Any]:
    """Returns a Row for each pair with a serialized tf.train.Example."""
    from pyspark.sql import Row

    return [Row(**_examples.values_of(_examples.parse(record[0]), binary_features)) for record in iter]


def _ship() -> None:
    ship_by_value().register_pickle_by_value(_examples)
