import { randomBytes } from 'node:crypto';

const TEMPORARY = /^\..+\.[0-9a-f]{16}\.writing$/;

/** Returns a unique name for the temporary file that will be renamed to `name`. */
export function temporaryName(name: string): string {
  return `.${name}.${randomBytes(8).toString('hex')}.writing`;
}

/** Returns true for names created by `temporaryName`. They belong to incomplete files of current or crashed writers. */
export function isTemporaryName(name: string): boolean {
  return TEMPORARY.test(name);
}
