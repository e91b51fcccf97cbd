"""Functions for programs that run TensorFlow on a single node, for example in Spark's executors."""

import os
import socket
import subprocess
from typing import Sequence, Union


def single_node_env(num_gpus: int = 1, worker_index: int = -1, nodes: Sequence[str] = ()) -> None:
    """Prepares this process for TensorFlow: adds Hadoop's classes to CLASSPATH, and hides the GPUs if `num_gpus` is 0.

    `worker_index` and `nodes` are accepted for compatibility: YARN or Spark assigns the GPUs to each container.
    """
    add_hadoop_classes()
    if num_gpus == 0:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""


def add_hadoop_classes() -> None:
    """Adds Hadoop's classes to CLASSPATH, which TensorFlow needs for hdfs:// URIs. Without HADOOP_PREFIX or HADOOP_HOME,
    or after the first call, has no effect."""
    home = os.environ.get("HADOOP_PREFIX") or os.environ.get("HADOOP_HOME")
    hadoop = os.path.join(home, "bin", "hadoop") if home else ""
    if not os.path.isfile(hadoop) or "TONY_HADOOP_CLASSES" in os.environ:
        return
    found = subprocess.run([hadoop, "classpath", "--glob"], stdout=subprocess.PIPE, check=True)
    parts = [os.environ.get("CLASSPATH", ""), found.stdout.decode().strip()]
    os.environ["CLASSPATH"] = os.pathsep.join(filter(None, parts))
    os.environ["TONY_HADOOP_CLASSES"] = "1"


def get_ip_address() -> str:
    """Returns the address of this host from which it reaches others."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            # Sends nothing: connecting a datagram socket only chooses the interface.
            probe.connect(("8.8.8.8", 80))
            return str(probe.getsockname()[0])
        except OSError:
            return socket.gethostbyname(socket.getfqdn())


def find_in_path(path: str, file: str) -> Union[str, bool]:
    """Returns the first file with this name in a list of folders like that of PATH, or False."""
    candidates = (os.path.join(folder, file) for folder in path.split(os.pathsep))
    return next((each for each in candidates if os.path.isfile(each)), False)
