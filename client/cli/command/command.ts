import type { InferredOptionTypes, Options, PositionalOptions } from 'yargs';
import { TonyError } from '../../../platform/errors.ts';

/*
 * The one description of each command, in the words of yargs. The parser, the help, shell completion, messages and the documentation all
 * read it.
 */

/**
 * Returns the value of an argument. `place` is its name in messages, such as `--tail`. All arguments are checked before the command runs, so
 * a command opens no file and contacts no cluster if one of them is invalid.
 * @throws TonyError USAGE
 */
export type ParseText<Value> = (text: string, place: string) => Value;

/** What tony-ts declares for an option in addition to yargs's own settings. */
interface OwnSettings {
  readonly parse?: ParseText<unknown>;
  /** Options and positionals that cannot be combined with this option, unless it has its default value or is switched off. */
  readonly excludes?: string | readonly string[];
  /** Option without which this option would have no effect. */
  readonly needs?: string;
}

interface OwnPositionalSettings {
  readonly parse?: ParseText<unknown>;
  /** Whether the positional receives exactly the words after `--`. */
  readonly followsDashes?: true;
}

type DeclaredOptions = Readonly<Record<string, Options & OwnSettings>>;
type DeclaredPositionals = Readonly<Record<string, PositionalOptions & OwnPositionalSettings>>;

/** Converts `older-than` to `olderThan`. */
type CamelCase<Name extends string> = Name extends `${infer First}-${infer Rest}` ? `${First}${Capitalize<CamelCase<Rest>>}` : Name;
type ArgumentsOf<Declared> = { [Name in keyof Declared as CamelCase<Name & string>]: Declared[Name] };

interface CommandDefinition<Positionals, Own> {
  /** Name, followed by the places of the positionals: `<required>`, `[optional]`, or `[words..]` for any number of words. */
  readonly command: string;
  readonly describe: string;
  /** Names that other programs have for this command. Messages answer them with this command's name. */
  readonly foreignNames?: readonly string[];
  readonly positionals?: Positionals;
  readonly options?: Own;
  readonly epilogue?: string;
  readonly examples?: readonly (readonly [command: string, describe: string])[];
  readonly handler: (
    args: ArgumentsOf<
      (DeclaredPositionals extends Positionals ? unknown : InferredOptionTypes<Positionals & Record<string, Options>>) &
        (DeclaredOptions extends Own ? unknown : InferredOptionTypes<Own & Record<string, Options>>)
    >,
  ) => Promise<void>;
}

/** A command, or `tony-ts` itself. */
export interface Command {
  /** Empty for `tony-ts` itself. */
  readonly name: string;
  readonly describe: string;
  readonly foreignNames: readonly string[];
  readonly positionals: readonly Positional[];
  readonly options: readonly Option[];
  readonly commands: readonly Command[];
  /** The subcommand that runs if the user names none, or null. */
  readonly otherwise: Command | null;
  readonly epilogue: string;
  readonly examples: readonly (readonly [command: string, describe: string])[];
  /** Null for a command that has subcommands. */
  readonly handler: ((args: never) => Promise<void>) | null;
}

export interface Positional {
  readonly name: string;
  /** The settings for yargs's help. */
  readonly settings: PositionalOptions;
  readonly describe: string;
  readonly required: boolean;
  /** Whether the positional accepts any number of words, as in `[command..]`. */
  readonly repeats: boolean;
  readonly followsDashes: boolean;
  readonly choices: readonly string[];
  /** Null for a positional that accepts any text. */
  readonly parse: ParseText<unknown> | null;
}

export interface Option {
  readonly name: string;
  /** The settings for yargs's help. */
  readonly settings: Options;
  readonly aliases: readonly string[];
  readonly describe: string;
  readonly isFlag: boolean;
  /** Whether the option may be repeated. */
  readonly isList: boolean;
  readonly choices: readonly string[];
  /** Null for an option that accepts any text. */
  readonly parse: ParseText<unknown> | null;
  readonly excludes: readonly string[];
  readonly needs: string | null;
  /** Whether the option is a flag that is on by default, and that users turn off with `--no-NAME`. */
  readonly on: boolean;
  /** Default value as text. Empty for flags and for options without a default. */
  readonly fallback: string;
  /** Converts the text of a value to the value that the command receives. */
  readonly convert: (text: string) => unknown;
}

/** Returns an option for a whole number. */
export function wholeNumber(least: number, most = Number.POSITIVE_INFINITY) {
  const parse: ParseText<number> = (text, place) => {
    const number = Number(text);
    if (text.trim() !== '' && Number.isInteger(number) && number >= least && number <= most) {
      return number;
    }
    const range = most === Number.POSITIVE_INFINITY ? `of at least ${least}` : `from ${least} to ${most}`;
    throw new TonyError('USAGE', `${place} requires a whole number ${range}, not ${text}.`);
  };
  return { type: 'number', parse } as const;
}

/** Returns an option whose text the command receives as it is. */
export function checkedText(parse: ParseText<unknown>) {
  return { type: 'string', parse } as const;
}

/** Returns an option whose text the command receives as the value that `parse` returns. */
export function parsedText<Value>(parse: ParseText<Value>) {
  const coerce = (text?: string): Value | undefined => (text === undefined ? undefined : parse(text, ''));
  return { ...checkedText(parse), coerce } as const;
}

/** Returns a positional for the words after `--`. */
export function wordsAfterDashes(describe: string) {
  return { type: 'string', array: true, describe, followsDashes: true } as const;
}

/** Defines a command. The declared positionals and options determine the types of the handler's arguments. */
export function defineCommand<
  const Positionals extends DeclaredPositionals = DeclaredPositionals,
  const Own extends DeclaredOptions = DeclaredOptions,
>(definition: CommandDefinition<Positionals, Own>): Command {
  const { command, describe, foreignNames = [], positionals = {}, options = {}, epilogue = '', examples = [], handler } = definition;
  const [name = '', ...places] = command.split(' ');
  const declared: DeclaredPositionals = positionals;
  return {
    name,
    describe,
    foreignNames,
    positionals: places.map((place) => describePositional(place, declared)),
    options: describeOptions(options),
    commands: [],
    otherwise: null,
    epilogue,
    examples,
    handler,
  };
}

/** Defines a command that only has subcommands. `otherwise` runs if the user names none. */
export function defineGroup(name: string, describe: string, commands: readonly Command[], otherwise: Command | null = null): Command {
  return { name, describe, foreignNames: [], positionals: [], options: [], commands, otherwise, epilogue: '', examples: [], handler: null };
}

export function describeOptions(declared: DeclaredOptions): Option[] {
  return Object.entries(declared).map(([name, { parse, excludes, needs, ...settings }]) => ({
    name,
    settings,
    aliases: [settings.alias ?? []].flat(),
    describe: settings.describe ?? '',
    isFlag: settings.type === 'boolean',
    isList: settings.array === true,
    choices: (settings.choices ?? []).map(String),
    parse: parse ?? null,
    excludes: [excludes ?? []].flat(),
    needs: needs ?? null,
    on: settings.default === true,
    fallback: settings.default === undefined || typeof settings.default === 'boolean' ? '' : String(settings.default),
    convert: settings.coerce ?? (settings.type === 'number' || typeof settings.choices?.[0] === 'number' ? Number : (text) => text),
  }));
}

function describePositional(place: string, declared: DeclaredPositionals): Positional {
  const name = place.replace(/^[<[]/, '').replace(/(?:\.\.)?[>\]]$/, '');
  const { parse, followsDashes, ...settings } = declared[name] ?? {};
  return {
    name,
    settings,
    describe: settings.describe ?? '',
    required: place.startsWith('<'),
    repeats: place.includes('..'),
    followsDashes: followsDashes === true,
    choices: (settings.choices ?? []).map(String),
    parse: parse ?? null,
  };
}
