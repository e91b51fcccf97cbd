import { TonyError } from '../conf/errors.ts';

/*
 * What a NodeManager makes of a container's environment and command (ContainerLaunch, DefaultContainerExecutor):
 *
 *   1. in both, text is replaced:  {{X}} -> $X   every "{{" -> "$"   every "}}" -> ""   <CPS> -> ":"
 *                                  <LOG_DIR> -> the container's log folder             <ADD_OPENS> -> flags for Java
 *   2. launch_container.sh gets:   export KEY="VALUE"
 *                                  exec /bin/bash -c "COMMAND"
 *
 * VALUE and COMMAND stand raw between double quotes, so that $, `, \ and " are live in them; COMMAND is then read by a second shell.
 */

const LOG_DIR = '<LOG_DIR>';

/** Text that comes out of the launch script's double quotes as it went in. */
export function literal(text: string): string {
  if (text.includes('\0')) throw new TonyError('USAGE', 'An environment value or a command may not hold a NUL character.');
  return (
    text
      .replace(/[\\"`$]/g, '\\$&')
      // A pair of quotes that closes and opens again is nothing to the shell, and parts what the NodeManager would replace.
      .replace(/\{(?=\{)/g, '{""')
      .replace(/\}(?=\})/g, '}""')
      .replace(/<(?=(?:CPS|LOG_DIR|ADD_OPENS)>)/g, '<""')
  );
}

/** Names checked, values made literal. */
export function launchEnvironment(environment: Readonly<Record<string, string>>): Record<string, string> {
  const bad = Object.keys(environment).find((name) => !/^[A-Za-z_][A-Za-z0-9_]*$/.test(name));
  if (bad !== undefined) {
    throw new TonyError('USAGE', `"${bad}" cannot be the name of an environment variable.`, {
      hint: 'Use letters, digits and underscores, a digit not first.',
    });
  }
  return Object.fromEntries(Object.entries(environment).map(([name, value]) => [name, literal(value)]));
}

/**
 * A container's command: the words as they are, with their output in files of the container's log folder; without `stderr` both go to one file.
 * `exec`, so that the signals of the NodeManager reach the program itself.
 */
export function launchCommand(words: readonly string[], output: { readonly stdout: string; readonly stderr?: string }): string {
  for (const name of [output.stdout, output.stderr ?? output.stdout]) {
    if (!/^[A-Za-z0-9][A-Za-z0-9._-]*$/.test(name)) throw new TonyError('INTERNAL', `"${name}" is not a plain file name for a log.`);
  }
  const program = words.map((word) => literal(quoted(word))).join(' ');
  const stderr = output.stderr === undefined ? '2>&1' : `2>${LOG_DIR}/${output.stderr}`;
  return `exec ${program} 1>${LOG_DIR}/${output.stdout} ${stderr}`;
}

/** One word for the second shell. */
function quoted(word: string): string {
  return /^[A-Za-z0-9_@%+:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
