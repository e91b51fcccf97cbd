import type { Report } from '../../contract/process/task-context.ts';

/** Shows a message to the user. A later notice with the same `about` replaces it. */
export type OnNotice = (message: string, about?: string) => void;

/** Returns a function that prints notices on stderr and reports them to the executor. */
export function noticesTo(report: (report: Report) => void): OnNotice {
  return (message, about) => {
    process.stderr.write(`tony-ts: ${message}\n`);
    report({ type: 'notice', message, ...(about !== undefined && { about }) });
  };
}
