import { appendFileSync } from 'node:fs';
import type { Report } from './task-context.ts';

/** Appends lines to the file that the executor reads. Synchronous, so that the last lines survive when the process is killed. */
export function openReport(file: string | null): (report: Report) => void {
  return (report) => {
    if (file !== null) {
      appendFileSync(file, `${JSON.stringify(report)}\n`);
    }
  };
}
