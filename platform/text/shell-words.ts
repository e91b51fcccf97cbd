/** A command of a shell script without its operators, such as `A=1 python3 train.py` in `cd x && A=1 python3 train.py`. */
export interface SimpleCommand {
  /** Assignments before the program: `A=1`. */
  readonly assignments: readonly string[];
  /** The program and its arguments, without quotes. Empty if the command only sets variables. */
  readonly words: readonly string[];
}

/**
 * Splits the text of a command at the shell's operators, spaces and quotes. This is an approximation for checks and notes: it expands
 * nothing, and knows neither compound commands nor backslashes.
 */
export function simpleCommands(text: string): SimpleCommand[] {
  const commands: { assignments: string[]; words: string[] }[] = [];
  let current: (typeof commands)[number] | null = null;
  for (const token of text.match(/[;&|()\n]+|(?:"[^"]*"|'[^']*'|[^\s;&|()"'])+/g) ?? []) {
    if (/^[;&|()\n]/.test(token)) {
      current = null;
      continue;
    }
    if (current === null) {
      current = { assignments: [], words: [] };
      commands.push(current);
    }
    const word = token.replace(/["']/g, '');
    (current.words.length === 0 && /^\w+=/.test(word) ? current.assignments : current.words).push(word);
  }
  return commands;
}

/** Returns all words of a command, also those of a script in quotes, as in `bash -c "cd x && torchrun train.py"`. */
export function scriptWords(text: string): string[] {
  return simpleCommands(text).flatMap(({ words }) => words.flatMap((word) => (/\s/.test(word) ? scriptWords(word) : [word])));
}

/** Returns the name of a program without its folder: `python3` for `/usr/bin/python3`. */
export function programName(word: string): string {
  return word.slice(word.lastIndexOf('/') + 1);
}
