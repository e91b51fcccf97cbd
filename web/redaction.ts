const SECRET_NAME =
  /passw|passphrase|(^|[._-])(pwd?|pass|auth)($|[._-])|secret|token|credential|(api|access|private|signing|encryption|ssh)[._-]?key|[_-]keys?$/i;
/** Values that are never secrets: booleans and small numbers. */
const HARMLESS = /^(?:true|false|yes|no|\d{1,2}|)$/i;
const PRIVATE_KEY = /-----BEGIN [A-Z ]*PRIVATE KEY-----/;
/*
 * The input can be many megabytes of text that other users write, so every pattern below must run in linear time. A match can start only at
 * `://` or at the beginning of a word, and never within text that has just failed to match.
 */
/** The part after `scheme` in `scheme://user:password@host`. */
/** Words in the formats of well-known services: GitHub, GitLab, Slack, AWS, OpenAI, Hugging Face, Google, JSON Web Tokens. */
const SECRET_WORD =
  /(?<![\w-])(?:gh[pousr]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{20,}|xox[abpr]-[\w-]{10,}|AKIA[A-Z0-9]{16}|sk-[\w-]{16,}|hf_\w{20,}|AIza[\w-]{35}|eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]*)/g;
/** The scheme in an HTTP header such as `Authorization: Bearer SECRET`. */
const AUTHORIZATION = /(?<![\w-])((?:proxy-)?authorization["']?\s*[:=]\s*["']?(?:[a-z-]{1,20}\s+)?|bearer\s+)([^\s"',;]+)/gi;
const USER_INFO = /:\/\/([^\s/:@]*):[^\s/@]+@/g;
/**
 * Matches `NAME=value` and `--name value` in a command, with or without quotes. A word that begins with `-` is not a value but the next
 * option.
 */
const ASSIGNMENT = /(?<![\w.-])(-[\w.-]*\s+(?!-)|[\w.-]+=)("[^"]*"|'[^']*'|[^\s;&|]+)/g;
const HIDDEN = '***';

/**
 * Returns the value with secrets replaced by `***`. A value is secret if the name of its variable or property suggests a secret, or if it
 * has the format of a well-known kind of secret. Passwords in URIs and secrets in commands are replaced as well.
 */
export function redacted(value: unknown, name = ''): unknown {
  if (typeof value === 'string') {
    if (PRIVATE_KEY.test(value) || (SECRET_NAME.test(name) && !HARMLESS.test(value))) {
      return HIDDEN;
    }
    const plain = value.replace(USER_INFO, `://$1:${HIDDEN}@`).replace(AUTHORIZATION, `$1${HIDDEN}`).replace(SECRET_WORD, HIDDEN);
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

function nameIn(assigned: string): string {
  return assigned.endsWith('=') ? assigned.slice(0, -1) : assigned.trimEnd();
}
