"""Provides an operator that runs a job from Airflow 2 or 3. docs/orchestrators.md shows a DAG."""

from typing import Any, Dict, Mapping, Optional, Sequence, Union

from ._command import Value
from .client import Client

try:
    from airflow.sdk import BaseOperator
except ImportError:
    from airflow.models import BaseOperator

__all__ = ["TonyOperator"]


class TonyOperator(BaseOperator):  # type: ignore[misc]
    """Submits a job and follows it until it ends. If Airflow kills the task, the operator kills the job.

    The operator has the same arguments as tony.client.Client and Client.submit. If the job fails, the Airflow task
    fails. Otherwise, the task returns the job's ID, state, step and metrics. The XCom `job_id` contains the
    job's ID as soon as the job is submitted.
    """

    template_fields: Sequence[str] = ("conf", "set", "env")

    def __init__(
        self,
        *,
        conf: str = "job.yaml",
        set: Optional[Mapping[str, Any]] = None,
        local: bool = False,
        command: Optional[Union[str, Sequence[str]]] = None,
        hadoop_conf_dir: Optional[str] = None,
        resource_manager: Optional[str] = None,
        staging: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.conf = conf
        self.set = set
        self.local = local
        self.command = command
        self.hadoop_conf_dir = hadoop_conf_dir
        self.resource_manager = resource_manager
        self.staging = staging
        self.env = env
        self._id: Optional[str] = None

    def execute(self, context: Any) -> Dict[str, Any]:
        self._id = None
        client = self._client()
        job = client.submit(self.conf, self.set, self.local, on_event=self._observe)
        self._id = job.id
        # The URL of a local job contains an access token in its query, so log only the part before the query.
        self.log.info("%s is submitted: %s", job.id, (job.urls.pages or "").partition("?")[0])
        context["ti"].xcom_push(key="job_id", value=job.id)
        result = client.wait(job.id, on_event=self._observe).check()
        return {"id": job.id, "state": result.state, "step": result.step, "metrics": result.metrics}

    def on_kill(self) -> None:
        # If the submission was interrupted before it printed an ID, no job is running.
        if self._id is not None:
            self.log.info("killing %s", self._id)
            self._client().kill(self._id)

    def _client(self) -> Client:
        return Client(self.command, self.hadoop_conf_dir, self.resource_manager, self.staging, self.env)

    def _observe(self, event: Value) -> None:
        kind = event.get("type")
        if kind == "submitted":
            self._id = event["id"]
        elif kind == "state":
            self.log.info("%s %s", event["state"], event["message"])
        elif kind == "task":
            self.log.info("%s:%s %s", event["role"], event["index"], event["state"])
        elif kind == "metrics":
            self.log.info("step %s %s", event["step"], event["metrics"])
        elif kind == "notice":
            self.log.info("%s", event["message"])
