import { randomBytes } from 'node:crypto';

const TEMPORARY = /^\..+\.[0-9a-f]{16}\.writing$/;

/** Returns a unique temporary name under which a file is written before it is renamed to `name`. */
export function temporaryName(name: string): string {
  return `.${name}.${randomBytes(8).toString('hex')}.writing`;
}

/** True for names that `temporaryName` creates: incomplete files of current and crashed writers. */
export function isTemporaryName(name: string): boolean {
  return TEMPORARY.test(name);
}
