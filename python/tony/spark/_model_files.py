"""Reads a stored model in the driver, to send it to Spark's executors."""

import hashlib
import os
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Tuple

from .._errors import TonyError, error_of

# Kinds of models that are a single file.
_FILES = {".keras": "keras", ".h5": "keras", ".pt": "torch-script", ".pth": "torch-script", ".ts": "torch-script"}
_KNOWN = "saved_model.pb, model.json (TensorFlow.js), *.keras, *.h5, *.pt, *.pth or *.ts"


@dataclass(frozen=True)
class ModelFiles:
    # saved-model, keras or torch-script
    kind: str
    # Contents by the path relative to the model's folder.
    contents: Dict[str, bytes]
    # SHA-256 of paths and contents.
    hash: str


def read_model(context: Any, uri: str) -> ModelFiles:
    """Returns the files of the model in a folder or file, which Spark's own file systems read.

    Converts a layers model of TensorFlow.js to a SavedModel, for which the driver needs Keras and TensorFlow. Raises
    TonyError NOT_FOUND if `uri` does not exist, and MODEL_UNREADABLE if it contains no model.
    """
    with tempfile.TemporaryDirectory(prefix="tony-model-") as scratch:
        place = _copied(context, uri, scratch)
        kind, place = _recognised(place, uri)
        if kind == "tfjs":
            kind, place = "saved-model", _converted(place, os.path.join(scratch, "converted"))
        paths = sorted(path for path in ([place] if place.is_file() else place.rglob("*")) if path.is_file())
        folder = place.parent if place.is_file() else place
        contents = {str(path.relative_to(folder)): path.read_bytes() for path in paths}
    digest = hashlib.sha256()
    for name, content in contents.items():
        digest.update(f"{len(name)} {len(content)} {name}".encode())
        digest.update(content)
    return ModelFiles(kind, contents, digest.hexdigest())


def _copied(context: Any, uri: str, folder: str) -> Path:
    jvm = context._jvm
    # tony-ts percent-encodes only file:// URIs.
    place = jvm.org.apache.hadoop.fs.Path(jvm.java.net.URI(uri) if uri.startswith("file:") else uri)
    storage = place.getFileSystem(context._jsc.hadoopConfiguration())
    if not storage.exists(place):
        raise error_of("NOT_FOUND", f"the model {uri} does not exist", "Check the URI.")
    if place.getName() == "model.json":
        # The files with its weights are beside it.
        place = place.getParent()
    copy = Path(folder, "copy", place.getName() or "model")
    copy.parent.mkdir()
    # Without checksum files.
    storage.copyToLocalFile(False, place, jvm.org.apache.hadoop.fs.Path(str(copy)), True)
    return copy


def _recognised(place: Path, uri: str) -> Tuple[str, Path]:
    names = sorted(os.listdir(place)) if place.is_dir() else []
    if "saved_model.pb" in names:
        return "saved-model", place
    if "model.json" in names:
        return "tfjs", place
    files = [place] if place.is_file() else [Path(place, name) for name in names]
    models = [file for file in files if file.suffix in _FILES]
    if len(models) != 1:
        found = ", ".join(file.name for file in files[:10]) or "nothing"
        raise TonyError(
            "MODEL_UNREADABLE",
            f"{uri} contains {found}, but must contain one model",
            f"Pass the URI of a folder or file with {_KNOWN}.",
        )
    [model] = models
    kind = _FILES[model.suffix]
    if kind == "torch-script" and not _is_torch_script(model):
        raise TonyError(
            "MODEL_UNREADABLE",
            f"{model.name} of {uri} is not TorchScript: it contains weights or a pickled module without its code",
            "Store torch.jit.script(model) or torch.jit.trace(model, example) with its method `save`.",
        )
    return kind, model


def _is_torch_script(file: Path) -> bool:
    if not zipfile.is_zipfile(file):
        return False
    with zipfile.ZipFile(file) as archive:
        return any(name.endswith("/constants.pkl") for name in archive.namelist())


def _converted(place: Path, target: str) -> Path:
    try:
        from ..models import load_tfjs

        load_tfjs(place.as_uri()).export(target, verbose=False)
    except ImportError as error:
        raise TonyError(
            "MODEL_UNREADABLE",
            f"the driver cannot convert a model of TensorFlow.js without the package {error.name}",
            "Run `pip install tensorflow` for the driver.",
        ) from error
    return Path(target)
