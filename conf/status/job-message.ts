import { formatDuration } from '../values/units.ts';
import type { JobStatus } from './status.ts';

/** Returns the job's message with the current durations, for example `Waiting for 59 s. worker:2 got no container.` */
export function jobMessage({ message, waitingMs, predecessorsEndInMs }: JobStatus): string {
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

function inSeconds(seconds: number): string {
  return formatDuration(1000 * seconds);
}
