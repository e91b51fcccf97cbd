"""Runs a script in two processes as torchrun does.

Debian's torchrun 1.13 itself fails with Python 3.11 on its default --redirects.
"""

import sys

from torch.distributed.launcher.api import LaunchConfig, elastic_launch

config = LaunchConfig(1, 1, 2, run_id="plain", rdzv_backend="c10d", rdzv_endpoint="localhost:0", max_restarts=0)
elastic_launch(config, sys.executable)(*sys.argv[1:])
