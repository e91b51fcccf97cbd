import { onSkippedServer } from '../../hadoop/tls/skipped-servers.ts';
import { describeError, describeSkippedServer } from '../output/lines/error-lines.ts';
import { OUTPUT_FORMATS, valueWriter } from '../output/lines/value-output.ts';
import { terminalOf } from '../terminal/terminal.ts';
import { errorOptions, runCommandLine } from './command-line.ts';
import { thrownError } from './thrown-error.ts';

/*
 * Entry point of the `tony-ts` command. Exit codes: 0 success, 1 the job failed, 2 invalid request, 3 the cluster is unreachable, 130
 * interrupted.
 */

// Exit successfully when the program that reads stdout closes the pipe, as in `tony-ts logs ... | head`.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  process.exit(error.code === 'EPIPE' ? 0 : 1);
});

// A closed stderr must not make the command fail.
process.stderr.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') {
    process.exit(1);
  }
});

onSkippedServer((failure) => process.stderr.write(describeSkippedServer(failure, terminalOf(process.stderr))));

const words = process.argv.slice(2);
try {
  await runCommandLine(words);
} catch (thrown) {
  const error = thrownError(thrown);
  const { output, debug } = errorOptions(words);
  const format = OUTPUT_FORMATS.find((name) => name === output);
  if (format !== undefined && format !== 'table') {
    const { code, message, hint } = error;
    (await valueWriter(format))({ type: 'error', code, message, hint });
  }
  process.stderr.write(describeError(error, terminalOf(process.stderr), debug));
  process.exitCode = error.exitCode;
}
// Exit explicitly after flushing the output, because idle keep-alive connections would otherwise keep the process running.
process.stdout.write('', () => process.stderr.write('', () => process.exit()));
