"""Runs a SavedModel in Spark's executors. Spark ships this module by value."""

import sys
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

# Attribute of the module `sys` with the model of this process. A module that Spark ships by value is new in each task.
_CACHE = "_tony_saved_model"


def predict(
    rows: Iterator[Any],
    export_dir: str,
    tags: Optional[Sequence[str]],
    signature_key: str,
    inputs: Sequence[str],
    outputs: Sequence[str],
    batch_size: int,
) -> Iterator[Tuple[Any, ...]]:
    """Yields the outputs for each row. The values of a row are the inputs, in this order."""
    signature = _signature(export_dir, tags, signature_key)
    specs: Dict[str, Any] = signature.structured_input_signature[1]
    missing = [name for name in inputs if name not in specs]
    if missing:
        known = ", ".join(sorted(specs))
        raise ValueError(f"the signature {signature_key} has no input {missing[0]} (inputs: {known})")
    batch: List[Any] = []
    for row in rows:
        batch.append(row)
        if len(batch) == batch_size:
            yield from _outputs(signature, specs, inputs, outputs, batch)
            batch = []
    if batch:
        yield from _outputs(signature, specs, inputs, outputs, batch)


def _signature(export_dir: str, tags: Optional[Sequence[str]], key: str) -> Any:
    import tensorflow as tf

    # A later training may have stored another model in the same folder.
    written_at = tf.io.gfile.stat(f"{export_dir.rstrip('/')}/saved_model.pb").mtime_nsec
    place = (export_dir, tags, written_at)
    cached: Tuple[Any, Any] = getattr(sys, _CACHE, (None, None))
    if cached[0] != place:
        cached = (place, tf.saved_model.load(export_dir, tags=tags))
        setattr(sys, _CACHE, cached)
    signatures: Mapping[str, Any] = cached[1].signatures
    if key not in signatures:
        raise ValueError(f"the model in {export_dir} has no signature {key} (signatures: {', '.join(signatures)})")
    return signatures[key]


def _outputs(
    signature: Any, specs: Mapping[str, Any], inputs: Sequence[str], outputs: Sequence[str], batch: List[Any]
) -> List[Tuple[Any, ...]]:
    import tensorflow as tf

    tensors = {}
    for place, name in enumerate(inputs):
        spec = specs[name]
        tensor = tf.constant([_plain(row[place]) for row in batch], dtype=spec.dtype)
        if spec.shape.rank is not None:
            # A column of Spark has at most one dimension.
            tensor = tf.reshape(tensor, [len(batch), *(-1 if size is None else size for size in spec.shape[1:])])
        tensors[name] = tensor
    results = signature(**tensors)
    missing = [name for name in outputs if name not in results]
    if missing:
        raise ValueError(f"the signature has no output {missing[0]} (outputs: {', '.join(sorted(results))})")
    columns = [results[name].numpy().tolist() for name in outputs]
    wrong = [name for name, column in zip(outputs, columns) if len(column) != len(batch)]
    if wrong:
        raise ValueError(f"the output {wrong[0]} does not have one value for each of the {len(batch)} rows")
    return list(zip(*columns))


def _plain(value: Any) -> Any:
    if isinstance(value, bytearray):
        return bytes(value)
    # A vector of Spark ML.
    return value.toArray() if hasattr(value, "toArray") else value
