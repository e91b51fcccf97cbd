import type { EndedJob } from '../../connections/operations/follow-job.ts';
import type { LogLine } from '../../connections/operations/log-reader.ts';
import { printable, type Terminal } from '../../terminal/terminal.ts';
import { reportLines } from '../lines/report-lines.ts';
import type { JobOutput, SubmittedNotice } from './job-output.ts';

/** Output streams for a quiet command. `stdout` receives the job ID, and `stderr` the report of a failed job. */
export interface QuietStreams {
  readonly stdout: (text: string) => void;
  readonly stderr: (text: string) => void;
  /** Writes lines of program output, and resolves when the output accepts more. */
  readonly writeLog: (lines: readonly LogLine[]) => Promise<void>;
}

/** Output for scripts. Prints only the job ID, the output of the requested programs, and the cause of a failure. */
export class QuietOutput implements JobOutput {
  readonly #streams: QuietStreams;
  readonly #terminal: Terminal;

  /** @param terminal describes the terminal to which `stderr` writes */
  constructor(streams: QuietStreams, terminal: Terminal) {
    this.#streams = streams;
    this.#terminal = terminal;
  }

  submitted({ id }: SubmittedNotice): void {
    this.#streams.stdout(`${id}\n`);
  }

  log(lines: readonly LogLine[]): Promise<void> {
    return this.#streams.writeLog(lines);
  }

  report(report: EndedJob): void {
    if (report.state !== 'succeeded') {
      for (const line of reportLines(report, this.#terminal)) {
        this.#streams.stderr(`${printable(line)}\n`);
      }
    }
  }

  plan(): void {}
  request(): void {}
  staging(): void {}
  pages(): void {}
  look(): void {}
  leave(): void {}
  say(): void {}
  close(): void {}
}
