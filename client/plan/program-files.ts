import type { Job } from '../../conf/job.ts';
import { TonyError } from '../../platform/errors.ts';
import { programName, simpleCommands } from '../../platform/text/shell-words.ts';
import { suggest } from '../../platform/text/suggest.ts';
import type { FolderListing } from '../job/source-folder.ts';

const INTERPRETER = /^(?:python[\d.]*|node|bash|sh|Rscript|julia|perl|ruby)$/;
/** Options that an interpreter accepts before the program file. */
const OPTION = /^(?:-[uBOsEI]+|--[\w-]+=.*)$/;
const FILE = /^(?:\.\/)?\w[\w./-]*\.\w+$/;

/** Interpreters that open exactly the named file. In contrast, bash also searches PATH, and Node.js completes a name such as `server.prod`. */
const EXACT = /^(?:python[\d.]* \S+\.py|node \S+\.[cm]?[jt]s)$/;

/** The job's source folder, or null if it has none. */
type Source = Pick<FolderListing, 'entries'> | null;

type JobPrograms = Pick<Job, 'files' | 'env'> & {
  readonly roles: readonly Pick<Job['roles'][number], 'name' | 'command' | 'files' | 'env'>[];
};

interface MissingProgram {
  readonly program: string;
  readonly roles: readonly string[];
  /** Whether each of these roles certainly fails, because its command only runs the file. */
  readonly isCertain: boolean;
}

/**
 * Returns a sentence about each program file that a command names but that neither the source folder nor the job's files contain. The job
 * may still work, for example if an earlier part of the command creates the file.
 */
export function programNotes(job: JobPrograms, source: Source): string[] {
  return missingPrograms(job, source).map((missing) => `${sentence(missing)}${suggestion(missing, source) ?? `. ${ADVICE}`}`);
}

/**
 * Rejects a job with a command that runs a missing file and does nothing else, because the job would wait for its containers only to fail.
 * @throws TonyError SOURCE_NOT_FOUND
 */
export function refuseMissingPrograms(job: JobPrograms, source: Source): void {
  const certain = missingPrograms(job, source).filter(({ isCertain }) => isCertain);
  if (certain.length > 0) {
    const lines = certain.map((missing) => `${sentence(missing)}${suggestion(missing, source) ?? '.'}`);
    throw new TonyError('SOURCE_NOT_FOUND', lines.join('\n'), { hint: ADVICE });
  }
}

const ADVICE = 'Correct the name, or set `source` to the folder that contains the file.';

function sentence({ program, roles }: MissingProgram): string {
  const which = `role${roles.length === 1 ? '' : 's'} ${new Intl.ListFormat('en').format(roles)}`;
  return `The command of ${which} runs ${program}, but the job contains no such file`;
}

function suggestion({ program }: MissingProgram, source: Source): string | undefined {
  const meant = suggest(program, source?.entries.map(({ path }) => path) ?? []);
  return meant === undefined ? undefined : `; did you mean ${meant}?`;
}

function missingPrograms({ roles, files, env }: JobPrograms, source: Source): MissingProgram[] {
  const missing = new Map<string, MissingProgram>();
  for (const role of roles) {
    const program = programFile(role.command);
    const shipped = [...files, ...role.files].map(({ name }) => name);
    const isShipped = shipped.some((name) => program === name || program?.startsWith(`${name}/`));
    if (program !== undefined && !isShipped && !source?.entries.some(({ path }) => path === program)) {
      const { roles: others = [], isCertain = true } = missing.get(program) ?? {};
      // A link to a folder contains files that the listing does not name. Node.js may load a resolver of the user's.
      const isBelowLink = source?.entries.some(({ type, path }) => type === 'link' && program.startsWith(`${path}/`)) ?? false;
      const hasResolver = [env, role.env].some((variables) => Object.hasOwn(variables, 'NODE_OPTIONS'));
      const runsOnlyIt = isPlainCommand(role.command) && !isBelowLink && !hasResolver;
      missing.set(program, { program, roles: [...others, role.name], isCertain: isCertain && runsOnlyIt });
    }
  }
  return [...missing.values()];
}

/** Returns the file that a command such as `python3 -u train.py` runs, or undefined if the command does not begin like this. */
function programFile(command: string): string | undefined {
  const [interpreter = '', ...others] = simpleCommands(command)[0]?.words ?? [];
  const file = others.find((word) => !OPTION.test(word));
  return INTERPRETER.test(programName(interpreter)) && file !== undefined && FILE.test(file) ? file.replace(/^\.\//, '') : undefined;
}

/** Returns true if the command runs a single program, without any further command that could create a file or run after a failure. */
function isPlainCommand(command: string): boolean {
  const commands = simpleCommands(command);
  const [interpreter = '', ...others] = commands[0]?.words ?? [];
  const isOne = commands.length === 1 && commands[0]?.assignments.length === 0 && !/[$`\\]/.test(command);
  return isOne && EXACT.test(`${programName(interpreter)} ${others.find((word) => !OPTION.test(word))}`);
}
