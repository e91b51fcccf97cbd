import { randomBytes } from 'node:crypto';

const TEMPORARY = /^\..+\.[0-9a-f]{16}\.writing$/;

/** A name beside `name` for what is not complete yet. */
export function temporaryName(name: string): string {
  return `.${name}.${randomBytes(8).toString('hex')}.writing`;
}

/** True of what a writer has not finished, or of what it left when it died. */
export function isTemporaryName(name: string): boolean {
  return TEMPORARY.test(name);
}
