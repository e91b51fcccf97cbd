import type { Argv, CommandModule, Options } from 'yargs';

/*
 * Describes commands and their arguments for shell completion, messages and the documentation. Obtains the descriptions by recording the
 * yargs definitions.
 */

/** Inclusive range for a whole number. */
export interface NumberRange {
  readonly least: number;
  readonly most: number;
}

/** Returns a yargs option for a whole number. yargs does not check the range, so `checkWords` does. */
export function wholeNumber(least: number, most = Number.POSITIVE_INFINITY) {
  return { type: 'number', requiresArg: true, range: { least, most } } as const;
}

/** Returns a yargs positional for the words after `--`. `checkWords` rejects such words if they do not follow `--`. */
export function wordsAfterDashes(describe: string) {
  return { type: 'string', array: true, describe, followsDashes: true } as const;
}

export interface DescribedOption {
  readonly name: string;
  readonly aliases: readonly string[];
  readonly describe: string;
  readonly isFlag: boolean;
  /** Whether the option may be repeated. */
  readonly isList: boolean;
  /** Whether the value may begin with a dash. A word that is one of the command's options is never treated as a value. */
  readonly takesNextWord: boolean;
  readonly choices: readonly string[];
  /** Range for a whole number, or null for other options. */
  readonly range: NumberRange | null;
  readonly conflicts: readonly string[];
  readonly hidden: boolean;
  /** Whether the option is a flag that is on by default, and that users turn off with `--no-NAME`. */
  readonly on: boolean;
  /** Default value. Empty for flags and for options without a default. */
  readonly fallback: string;
  /** Converts a value to the spelling used in `choices`. Called before the value is checked. */
  readonly normalize: (value: string) => string;
}

export interface DescribedPositional {
  readonly name: string;
  readonly describe: string;
  readonly required: boolean;
  /** Whether the positional accepts any number of words, as in `[command..]`. */
  readonly repeats: boolean;
  /** Whether the positional receives exactly the words after `--`. */
  readonly followsDashes: boolean;
  readonly choices: readonly string[];
}

export interface DescribedCommand {
  /** Command path, or '' for `tony-ts` itself. */
  readonly name: string;
  readonly describe: string;
  readonly positionals: readonly DescribedPositional[];
  readonly options: readonly DescribedOption[];
  readonly commands: readonly DescribedCommand[];
  readonly otherwise: DescribedCommand | null;
}

type AnyModule = CommandModule<object, never>;

/** Runs `define` with a recorder in place of yargs. Returns the commands and options that `define` has declared. */
export function describeCommands(define: (yargs: Argv) => unknown): DescribedCommand {
  return recorded('', '', define);
}

function recorded(usage: string, describe: string, define: (yargs: Argv) => unknown): DescribedCommand {
  const [name = '', ...places] = usage.split(' ');
  const described = new Map<string, Options>();
  const options: DescribedOption[] = [];
  const commands: DescribedCommand[] = [];
  let otherwise: DescribedCommand | null = null;
  const methods: Readonly<Record<string, (...args: never[]) => void>> = {
    positional: (key: string, given: Options) => void described.set(key, given),
    option: (key: string | Readonly<Record<string, Options>>, given: Options = {}) => {
      options.push(...(typeof key === 'string' ? [describeOption(key, given)] : allOptions(key)));
    },
    options: (given: Readonly<Record<string, Options>>) => void options.push(...allOptions(given)),
    help: () => void options.push(describeOption('help', { alias: 'h', type: 'boolean', describe: 'Show help' })),
    version: () => void options.push(describeOption('version', { type: 'boolean', describe: 'Show version number' })),
    command: (given: AnyModule) => {
      const [first = '', ...others] = [given.command ?? ''].flat();
      if (given.describe === false) {
        return;
      }
      const command = recorded(first, given.describe ?? '', (yargs) =>
        typeof given.builder === 'function' ? given.builder(yargs as Argv<object>) : yargs.options(given.builder ?? {}),
      );
      commands.push(command);
      if (others.includes('$0')) {
        otherwise = command;
      }
    },
  };
  // Other yargs methods do not affect the description.
  const recorder: unknown = new Proxy(
    {},
    {
      get:
        (_, method) =>
        (...args: never[]): unknown => {
          if (typeof method === 'string' && Object.hasOwn(methods, method)) {
            methods[method]?.(...args);
          }
          return recorder;
        },
    },
  );
  define(recorder as Argv);
  const positionals = places.map((place): DescribedPositional => {
    const key = place.replace(/^[<[]|\.*[>\]]$/g, '');
    const given = described.get(key);
    return {
      name: key,
      describe: given?.describe ?? '',
      required: place.startsWith('<'),
      repeats: place.includes('..'),
      followsDashes: given !== undefined && 'followsDashes' in given,
      choices: (given?.choices ?? []).map(String),
    };
  });
  return { name, describe, positionals, options, commands, otherwise };
}

function allOptions(given: Readonly<Record<string, Options>>): DescribedOption[] {
  return Object.entries(given).map(([name, each]) => describeOption(name, each));
}

function describeOption(name: string, given: Options & { readonly range?: NumberRange }): DescribedOption {
  return {
    name,
    aliases: [given.alias ?? []].flat(),
    describe: given.describe ?? '',
    isFlag: given.type === 'boolean',
    isList: given.array === true || given.type === 'array',
    takesNextWord: given.nargs === 1,
    choices: (given.choices ?? []).map(String),
    range: given.range ?? null,
    conflicts: [given.conflicts ?? []].flat().map(String),
    hidden: given.hidden === true,
    on: given.default === true,
    fallback: given.default === undefined || typeof given.default === 'boolean' ? '' : String(given.default),
    normalize: (value) => (given.coerce === undefined ? value : String((given.coerce as (value: string) => unknown)(value))),
  };
}
