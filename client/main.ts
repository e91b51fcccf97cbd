import { messageOf, TonyError } from '../conf/errors.ts';
import { runCommandLine } from './command-line.ts';
import { describeError } from './error-lines.ts';
import { terminalOf } from './terminal.ts';
import { OUTPUT_FORMATS, valueWriter } from './value-output.ts';

/*
 * The command `tony-ts`. Exit codes: 0 succeeded, 1 the job failed, 2 the request was wrong, 3 the cluster could not be reached,
 * 130 interrupted.
 */

// `tony-ts logs ... | head` ends as it should.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  process.exit(error.code === 'EPIPE' ? 0 : 1);
});

// Nor does it harm a command when nobody reads what it says beside its output.
process.stderr.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') process.exit(1);
});

const words = process.argv.slice(2);
try {
  await runCommandLine(words);
} catch (thrown) {
  const error = thrown instanceof TonyError ? thrown : new TonyError('INTERNAL', messageOf(thrown), { cause: thrown });
  const format = OUTPUT_FORMATS.find(
    (name) => words.includes(`--output=${name}`) || words.some((word, at) => word === '--output' && words[at + 1] === name),
  );
  if (format !== undefined && format !== 'table') {
    const { code, message, hint } = error;
    (await valueWriter(format))({ type: 'error', code, message, hint });
  }
  process.stderr.write(describeError(error, terminalOf(process.stderr), words.includes('--debug')));
  process.exitCode = error.exitCode;
}
// Connections that are kept open for a next request must not hold the process; what was written has to be out before.
process.stdout.write('', () => process.stderr.write('', () => process.exit()));
