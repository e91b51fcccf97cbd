import { randomBytes } from 'node:crypto';

const TEMPORARY = /^\..+\.[0-9a-f]{16}\.writing$/;

/** Returns a name in the same folder for an incomplete file. */
export function temporaryName(name: string): string {
  return `.${name}.${randomBytes(8).toString('hex')}.writing`;
}

/** True for a file that is being written, or that a crashed writer left. */
export function isTemporaryName(name: string): boolean {
  return TEMPORARY.test(name);
}
