/** Matches names of secret values. */
const SECRET_NAME =
  /passw|passphrase|(^|[._-])pwd?($|[._-])|secret|token|credential|(^|[._-])auth($|[._-])|(api|access|private|signing|encryption|ssh)[._-]?key/i;
/** Values that are not secrets: switches and small numbers. */
const HARMLESS = /^(?:true|false|yes|no|\d{1,2}|)$/i;
const SECRET_VALUE =
  /-----BEGIN [A-Z ]*PRIVATE KEY-----|^(?:gh[pousr]_\w{20,}|xox[abpr]-[\w-]{10,}|AKIA[A-Z0-9]{16}|eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]*)$/;
/*
 * The input contains text from other users, up to many megabytes, so every pattern below runs in linear time: a match can start only at
 * `://` or at the beginning of a word, never within text that has just failed to match.
 */
/** The part behind `scheme` of `scheme://user:password@host`. */
const USER_INFO = /:\/\/([^\s/:@]*):[^\s/@]+@/g;
/**
 * Matches `NAME=value` and `--name value` within a command, quoted or not. A word that begins with `-` is the next option and not a value.
 */
const ASSIGNMENT = /(?<![\w.-])(-[\w.-]*\s+(?!-)|[\w.-]+=)("[^"]*"|'[^']*'|[^\s;&|]+)/g;
const HIDDEN = '***';

/**
 * Returns the same JSON with secrets replaced by `***`: values of secret names (environment variables, Hadoop properties), values of a
 * well-known form, passwords within URIs, and secrets within commands.
 */
export function redacted(value: unknown, name = ''): unknown {
  if (typeof value === 'string') {
    if (SECRET_VALUE.test(value) || (SECRET_NAME.test(name) && !HARMLESS.test(value))) {
      return HIDDEN;
    }
    const plain = value.replace(USER_INFO, `://$1:${HIDDEN}@`);
    return name === 'command' ? redactedCommand(plain) : plain;
  }
  if (Array.isArray(value)) {
    return value.map((each) => redacted(each, name));
  }
  if (typeof value !== 'object' || value === null) {
    return value;
  }
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, redacted(each, key)]));
}

function redactedCommand(command: string): string {
  return command.replace(ASSIGNMENT, (whole: string, name: string) => (SECRET_NAME.test(nameIn(name)) ? `${name}${HIDDEN}` : whole));
}

/** Returns the name of `--db-password ` or `DB_PASSWORD=` without the characters that follow it. */
function nameIn(assigned: string): string {
  return assigned.endsWith('=') ? assigned.slice(0, -1) : assigned.trimEnd();
}
