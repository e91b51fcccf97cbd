"""Sends the micro-batches of a query of Spark's Structured Streaming to a running job."""

import threading
from typing import Any, Callable, Dict, Optional

from .._errors import TonyError
from ..client import Client
from ._feeding import Source, prepare_batch
from ._find_doors import Asker

# Interval in seconds at which the driver tells the job that the stream lives.
_ALIVE_S = 10.0
# Codes of the errors that tell that the job has ended.
_ENDED = ("FEED_ENDED", "JOB_NOT_FOUND")


class Stream:
    """A function for `foreachBatch`. `Run.stream` creates it."""

    def __init__(self, client: Client, job_id: str, name: str, source: Source, check: Callable[[], None]) -> None:
        self.name = name
        self._client = client
        self._job_id = job_id
        # What all micro-batches have in common.
        self._source = source
        # Raises the error of a job that has ended.
        self._check = check
        self._lock = threading.Lock()
        self._has_ended = False
        # Number of the micro-batch that the job receives, or has received only in part.
        self._unfinished: Optional[int] = None
        self._closed = threading.Event()
        self._asker = Asker(client, job_id, name, self._closed)
        self._change = threading.Event()
        self._thread = threading.Thread(target=self._keep_alive, name=f"tony-stream-{name}", daemon=True)
        self._thread.start()

    def __call__(self, batch: Any, number: int) -> None:
        """Sends a micro-batch, and returns when a checkpoint of the job contains its records.

        Raises the error that has ended the job.
        """
        with self._lock:
            if self._has_ended:
                raise TonyError("FEED_ENDED", f"the stream {self.name} has ended", "Stop the query before the stream.")
            query = batch.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
            if query is None:
                hint = "Pass it to foreachBatch, and do not set PYSPARK_PIN_THREAD to false."
                raise TonyError("USAGE", f"the stream {self.name} was called outside of a streaming query", hint)
            # Spark computes the batch more than once: it counts the records first, and may send a partition again.
            is_persisted = batch.is_cached
            if not is_persisted:
                batch.persist()
            try:
                if not batch.isEmpty():
                    self._unfinished = number
                    self._deliver(batch, {"query": query, "number": number})
                    self._unfinished = None
            finally:
                if not is_persisted:
                    batch.unpersist()

    def end(self) -> None:
        """Tells the programs that no batch follows. Waits until Spark has processed the current one.

        Raises TonyError FEED_LOST if the job has received only a part of the last batch.
        """
        with self._lock:
            if self._unfinished is not None:
                self._check()
                raise TonyError(
                    "FEED_LOST",
                    f"micro-batch {self._unfinished} of the stream {self.name} has failed, so the programs would wait for it",
                    "Start the query again, or kill the job.",
                )
            self._has_ended = True
        self._change.set()

    def close(self) -> None:
        """Stops telling that the stream lives, because the job has ended."""
        self._closed.set()
        self._change.set()

    def _deliver(self, batch: Any, identity: Dict[str, Any]) -> None:
        answer = self._ask(identity, is_sending=False)
        if answer == "saved":
            return
        source = Source(batch, "equal", "pad", self._source.seed, self._source.cache_bytes)
        feeding = prepare_batch(answer["feed"], source, f"{identity['query']}.{identity['number']}")
        try:
            feeding.start(self._client, self._job_id, self._asker.doors)
            self._ask(identity, is_sending=True, feeding=feeding)
        finally:
            feeding.close()

    def _ask(self, identity: Dict[str, Any], is_sending: bool, feeding: Any = None) -> Any:
        """Waits for the answer of the job, as long as it runs and receives the batch."""
        question = {"batch": identity, "isSending": is_sending, "hasEnded": False}
        while True:
            try:
                answer = self._asker.ask("stream", question)
            except TonyError as error:
                if error.code in _ENDED:
                    self._check()
                raise
            if answer is not None:
                return answer
            if feeding is not None and feeding.failure is not None:
                raise feeding.failure
            if self._closed.is_set():
                self._check()
                raise TonyError("FEED_ENDED", f"the stream {self.name} has been closed, because the job ends")

    def _keep_alive(self) -> None:
        while not self._closed.is_set():
            self._change.clear()
            try:
                self._asker.ask("stream", {"batch": None, "isSending": False, "hasEnded": self._has_ended})
            except TonyError as error:
                if error.code in _ENDED:
                    return
            self._change.wait(_ALIVE_S)
