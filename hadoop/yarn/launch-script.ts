import { TonyError } from '../../platform/errors.ts';
import { shellWord } from '../../platform/text/shell-word.ts';

/*
 * A NodeManager inserts a container's environment and command into a launch script (ContainerLaunch, DefaultContainerExecutor):
 *
 *   1. It replaces text in both:   {{X}} -> $X   every "{{" -> "$"   every "}}" -> ""   <CPS> -> ":"
 *                                  <LOG_DIR> -> the container's log folder             <ADD_OPENS> -> flags for Java
 *   2. It writes the script:       export KEY="VALUE"
 *                                  exec /bin/bash -c "COMMAND"
 *
 * The NodeManager does not escape VALUE and COMMAND. Inside the double quotes, the shell interprets $, `, \ and ". A second shell then
 * parses COMMAND.
 */

const LOG_DIR = '<LOG_DIR>';

/** Escapes text so that it can be used inside double quotes in the launch script. */
export function literal(text: string): string {
  if (text.includes('\0')) {
    throw new TonyError('USAGE', 'An environment value or a command must not contain a NUL character.');
  }
  return (
    text
      .replace(/[\\"`$]/g, '\\$&')
      // Break up the character sequences that the NodeManager would expand, by inserting "" (close and reopen the quotes). The shell
      // removes the "".
      .replace(/\{(?=\{)/g, '{""')
      .replace(/\}(?=\})/g, '}""')
      .replace(/<(?=(?:CPS|LOG_DIR|ADD_OPENS)>)/g, '<""')
  );
}

/** Checks the names of environment variables, and escapes their values. */
export function launchEnvironment(environment: Readonly<Record<string, string>>): Record<string, string> {
  const bad = Object.keys(environment).find((name) => !/^[A-Za-z_][A-Za-z0-9_]*$/.test(name));
  if (bad !== undefined) {
    throw new TonyError('USAGE', `"${bad}" is not a valid environment variable name.`, {
      hint: 'Use letters, digits and underscores, and do not start with a digit.',
    });
  }
  return Object.fromEntries(Object.entries(environment).map(([name, value]) => [name, literal(value)]));
}

/**
 * Returns a container's shell command. The command consists of the quoted words, and redirects output to the container's log folder.
 * Without `stderr`, both output streams go to one file. `exec` replaces the shell, so that the program receives the NodeManager's signals.
 */
export function launchCommand(words: readonly string[], output: { readonly stdout: string; readonly stderr?: string }): string {
  for (const name of [output.stdout, output.stderr ?? output.stdout]) {
    if (!/^[A-Za-z0-9][A-Za-z0-9._-]*$/.test(name)) {
      throw new TonyError('INTERNAL', `"${name}" is not a plain file name for a log.`);
    }
  }
  const program = words.map((word) => literal(shellWord(word))).join(' ');
  const stderr = output.stderr === undefined ? '2>&1' : `2>${LOG_DIR}/${output.stderr}`;
  return `exec ${program} 1>${LOG_DIR}/${output.stdout} ${stderr}`;
}
