import { randomBytes } from 'node:crypto';

const TEMPORARY = /^\..+\.[0-9a-f]{16}\.writing$/;

/** Returns a unique name for a temporary file that is later renamed to `name`. */
export function temporaryName(name: string): string {
  return `.${name}.${randomBytes(8).toString('hex')}.writing`;
}

/** Returns true for a name that `temporaryName` generated. Such a file is incomplete and belongs to a current or crashed writer. */
export function isTemporaryName(name: string): boolean {
  return TEMPORARY.test(name);
}
