import { appendFileSync } from 'node:fs';
import type { Report } from './task-context.ts';

/**
 * Returns a function that appends a line to the report file, which the executor reads. The write is synchronous, so the line survives even
 * if the process is killed immediately afterwards.
 */
export function openReport(file: string | null): (report: Report) => void {
  return (report) => {
    if (file !== null) {
      appendFileSync(file, `${JSON.stringify(report)}\n`);
    }
  };
}
