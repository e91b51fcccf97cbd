import { errorObject } from '../../conf/status/api-object.ts';
import { onSkippedServer } from '../../hadoop/tls/skipped-servers.ts';
import { ERROR_CODES } from '../../platform/errors.ts';
import { describeError, describeSkippedServer } from '../output/lines/error-lines.ts';
import { OUTPUT_FORMATS, valueWriter } from '../output/lines/value-output.ts';
import { endWithInput, superviseStreams } from '../terminal/standard-streams.ts';
import { terminalOf } from '../terminal/terminal.ts';
import { errorOptions, runCommandLine } from './command-line.ts';
import { thrownError } from './thrown-error.ts';

/* Entry point of the `tony-ts` command. The exit codes are those of EXIT_CODES. */

const words = process.argv.slice(2);

superviseStreams(
  (error) => {
    if (error !== null) {
      process.stderr.write(describeError(error, terminalOf(process.stderr), errorOptions(words).debug));
    }
    process.exit(ERROR_CODES.STORAGE_FULL.exit);
  },
  () => process.exit(0),
);

endWithInput();

onSkippedServer((failure) => process.stderr.write(describeSkippedServer(failure, terminalOf(process.stderr))));

try {
  await runCommandLine(words);
} catch (thrown) {
  const { output, debug } = errorOptions(words);
  const format = OUTPUT_FORMATS.find((name) => name === output);
  const write = format === undefined || format === 'table' ? null : await valueWriter(format);
  // A command with several jobs reports all failures.
  for (const error of (thrown instanceof AggregateError ? thrown.errors : [thrown]).map(thrownError)) {
    const { exitCode } = error;
    write?.(errorObject(error));
    process.stderr.write(describeError(error, terminalOf(process.stderr), debug));
    process.exitCode ??= exitCode;
  }
}
// Exit explicitly after flushing the output, because idle keep-alive connections would otherwise keep the process running.
// The streams report errors just before `setImmediate` runs.
process.stdout.write('', () => process.stderr.write('', () => setImmediate(() => process.exit())));
