/** A name that says its value is nobody's business. */
const SECRET_NAME =
  /passw|passphrase|(^|[._-])pwd?($|[._-])|secret|token|credential|(^|[._-])auth($|[._-])|(api|access|private|signing|encryption|ssh)[._-]?key/i;
/** What a secret is not: a switch, or where one is kept. */
const HARMLESS = /^(?:true|false|yes|no|\d{1,2}|)$/i;
const SECRET_VALUE =
  /-----BEGIN [A-Z ]*PRIVATE KEY-----|^(?:gh[pousr]_\w{20,}|xox[abpr]-[\w-]{10,}|AKIA[A-Z0-9]{16}|eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]*)$/;
/** `scheme://user:password@host` */
const USER_INFO = /([a-z][a-z0-9+.-]*:\/\/[^\s/:@]*):[^\s/@]+@/gi;
/** `NAME=value` and `--name value`, quoted or not, within a command. */
const ASSIGNMENT = /(--?)?([A-Za-z][\w.-]*)(=|\s+)("[^"]*"|'[^']*'|[^\s;&|]+)/g;
const HIDDEN = '***';

/**
 * The same JSON with what looks like a secret replaced by `***`: values of names that say so (environment variables, Hadoop's properties),
 * values of a well-known form, passwords within URIs, and both within commands.
 */
export function redacted(value: unknown, name = ''): unknown {
  if (typeof value === 'string') {
    if (SECRET_VALUE.test(value) || (SECRET_NAME.test(name) && !HARMLESS.test(value))) return HIDDEN;
    const plain = value.replace(USER_INFO, `$1:${HIDDEN}@`);
    return name === 'command' ? redactedCommand(plain) : plain;
  }
  if (Array.isArray(value)) return value.map((each) => redacted(each, name));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, redacted(each, key)]));
}

function redactedCommand(command: string): string {
  return command.replace(ASSIGNMENT, (whole: string, dashes: string | undefined, name: string, between: string, value: string) => {
    // A word behind a word is its value only behind an option.
    if (between !== '=' && dashes === undefined) return whole;
    return SECRET_NAME.test(name) && !value.startsWith('-') ? `${dashes ?? ''}${name}${between}${HIDDEN}` : whole;
  });
}
