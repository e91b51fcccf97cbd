import { fstatSync, writeSync } from 'node:fs';
import { fileErrorOf, TonyError } from '../../platform/errors.ts';

/**
 * Reports output that this process cannot write, and lets files receive all bytes or an error. Node.js itself drops the rest of the bytes
 * when a disk fills up during a write.
 * @param lost receives the error of stdout, or null if stderr failed. Must exit. Not called if the reader of a pipe is gone.
 * @param closed called when the program that reads stdout closes the pipe, as in `tony-ts logs ... | head`
 */
export function superviseStreams(lost: (error: TonyError | null) => void, closed: () => void): void {
  const { stdout, stderr } = process;
  for (const stream of [stdout, stderr]) {
    if (fstatSync(stream.fd).isFile()) {
      stream._write = (chunk: Buffer, _, callback): void => callback(writeWhole(stream.fd, chunk));
    }
  }
  stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE') {
      closed();
    } else {
      lost(outputError(error));
    }
  });
  // A closed stderr must not make the command fail.
  stderr.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') {
      lost(null);
    }
  });
}

/**
 * Ends this process as SIGTERM does when its standard input ends, if the caller wants it: a caller that has been killed cannot end its
 * commands.
 */
export function endWithInput(environment: NodeJS.ProcessEnv = process.env): void {
  if (environment.TONY_ENDS_WITH_INPUT === undefined) {
    return;
  }
  // It does not concern the programs that this command starts.
  delete environment.TONY_ENDS_WITH_INPUT;
  const { stdin } = process;
  const end = (): boolean => process.kill(process.pid, 'SIGTERM');
  stdin.once('end', end).once('error', end).resume().unref();
}

/** Returns the error that prevented the write. */
function writeWhole(fd: number, bytes: Buffer): Error | null {
  try {
    for (let written = 0; written < bytes.length; ) {
      written += writeSync(fd, bytes, written);
    }
    return null;
  } catch (error) {
    return error as Error;
  }
}

function outputError(error: Error): TonyError {
  return new TonyError('STORAGE_FULL', `Cannot write the output: ${fileErrorOf(error)}.`, {
    hint: 'The output is incomplete, and the command has ended. A job on a cluster that it followed continues: see `tony-ts list`. Free up space, or write the output to another disk.',
    cause: error,
  });
}
