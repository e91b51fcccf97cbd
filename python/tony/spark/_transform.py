"""Makes a transformer of Spark ML for a stored model."""

from typing import TYPE_CHECKING, Mapping, Optional, Sequence, Union

if TYPE_CHECKING:
    from .ml import ModelTransformer


def transform(
    model_uri: str,
    inputs: Union[Sequence[str], Mapping[str, str], None] = None,
    outputs: Union[Sequence[str], Mapping[str, str], None] = None,
    schema: Optional[str] = None,
    batch_size: int = 256,
    signature: str = "serving_default",
    tags: Optional[Sequence[str]] = None,
) -> "ModelTransformer":
    """Returns a transformer of Spark ML that applies a stored model to a DataFrame, in Spark's executors.

    `model_uri` is a URI or path that Spark can read, of a folder or file: a SavedModel of TensorFlow, a Keras model
    (.keras or .h5), TorchScript (.pt, .pth or .ts), or a layers model of TensorFlow.js (model.json).

    - `inputs`: the columns for the inputs of the model, in their order, or the column for each input by its name. The
      default is the column `features`
    - `outputs`: the columns for the outputs of the model, in their order, or the column for each output by its name. By
      default, a single output is `prediction`, and several have the model's own names
    - `schema`: names and types of these columns, as in "prediction double". By default, `transform(df)` applies the
      model to the first row to infer them
    - `batch_size`: maximum number of rows in a batch
    - `signature` and `tags`: those of a SavedModel

    `transform(df)` raises TonyError NOT_FOUND if the model does not exist, MODEL_UNREADABLE if it is none of these
    models, and USAGE for a column that does not exist or that cannot be sent.
    """
    # A program without Spark can import tony.spark.
    from .ml import ModelTransformer

    return ModelTransformer(
        uri=model_uri,
        inputs=inputs,
        outputs=outputs,
        schema=schema,
        batch_size=batch_size,
        signature=signature,
        tags=tags,
    )
