import { formatDuration } from '../values/units.ts';
import type { JobInfo } from './job-info.ts';
import { isEndState, type JobStatus } from './status.ts';

/** Returns the job's message with the current durations, for example `Waiting for 59 s. worker:2 got no container.` */
export function jobMessage({
  message,
  waitingMs,
  predecessorsEndInMs,
}: Pick<JobStatus, 'message' | 'waitingMs' | 'predecessorsEndInMs'>): string {
  if (message === '') {
    return '';
  }
  return [
    waitingMs === null ? '' : `Waiting for ${inSeconds(Math.round(waitingMs / 1000))}.`,
    message,
    predecessorsEndInMs === null
      ? ''
      : `The unreachable executors end their programs within ${inSeconds(Math.ceil(predecessorsEndInMs / 1000))}.`,
  ]
    .filter((sentence) => sentence !== '')
    .join(' ');
}

/** Returns the reason why the job or some of its tasks are waiting. Empty if no task is waiting, the reason is unknown, or the job has ended. */
export function waitingText(job: Pick<JobInfo, 'state' | 'message' | 'waitingMs' | 'predecessorsEndInMs'>): string {
  return isEndState(job.state) ? '' : jobMessage(job);
}

function inSeconds(seconds: number): string {
  return formatDuration(1000 * seconds);
}
