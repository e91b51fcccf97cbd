import * as z from 'zod';
import { parseJson } from '../../platform/json-value.ts';
import { harmless } from '../terminal/terminal.ts';

const logLine = z.object({
  msg: z.string().optional(),
  err: z.object({ message: z.string().optional(), code: z.string().optional() }).optional(),
});

const MOST_LINES = 5;
const FULL = /\b(ENOSPC|EDQUOT)\b|STORAGE_FULL/;

/**
 * Explains why a local job's ApplicationMaster exited before the job ended.
 * @param log end of the ApplicationMaster's stderr or structured log
 * @param folder the job's folder
 * @param isFull whether the disk that contains the folder is full
 */
export function explainMasterExit(log: string, folder: string, isFull = false): string {
  if (isFull || FULL.test(log)) {
    return `the disk of ${folder} is full. Free up space there, or set TONY_LOCAL_DIR to a folder with free space, and submit the job again.`;
  }
  const lines = log.trimEnd().split('\n').slice(-MOST_LINES).map(readable);
  return lines.join('\n') === '' ? '' : `its last output:\n${lines.join('\n')}`;
}

function readable(line: string): string {
  const { msg, err } = logLine.safeParse(parseJson(line)).data ?? {};
  const parts = [msg, err?.message].filter((part) => part !== undefined && part !== '');
  return harmless(parts.length === 0 ? line : parts.join(': '));
}
