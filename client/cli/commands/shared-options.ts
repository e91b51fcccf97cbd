import type { Options } from 'yargs';
import { splitAssignment } from '../../../conf/resolve/assignment.ts';
import { parseDuration } from '../../../conf/values/units.ts';
import { webAddress } from '../../../hadoop/configuration/remote/web-address.ts';
import { TonyError } from '../../../platform/errors.ts';
import { checkId } from '../../connections/check-id.ts';
import { OUTPUT_FORMATS } from '../../output/lines/value-output.ts';
import { parseTask } from '../../sessions/parse-task.ts';
import { checkedText, type ParseText } from '../command/command.ts';

export const CLUSTER_OPTIONS = {
  'resource-manager': {
    ...checkedText(webAddress),
    describe: "Address of a ResourceManager's web server; used instead of HADOOP_CONF_DIR",
  },
  staging: {
    type: 'string',
    describe: 'Folder on HDFS for job files [default: TONY_STAGING, or .tony-ts in your home folder]',
  },
} as const satisfies Record<string, Options>;

/** Options that have no effect on the jobs of this machine. A `--local` option excludes them. */
export const CLUSTER_ONLY: readonly string[] = Object.keys(CLUSTER_OPTIONS);

export const SET_OPTION = { type: 'string', array: true, parse: splitAssignment } as const satisfies Options & {
  parse: ParseText<unknown>;
};

export const OUTPUT_OPTION = {
  output: {
    alias: 'o',
    choices: OUTPUT_FORMATS,
    default: 'table' as const,
    describe: 'json: one JSON object per line; yaml: one document per object',
  },
} as const satisfies Record<string, Options>;

export const JOB_FILE_OPTION = { type: 'string', alias: ['f', 'file'] } as const satisfies Options;

export const DRY_RUN_OPTION = {
  'dry-run': { type: 'boolean', default: false, describe: 'Only list what would be removed' },
} as const satisfies Record<string, Options>;

/** Parses a duration, and returns it in ms. */
export const durationText: ParseText<number> = (text, place) => {
  const ms = parseDuration(text);
  if (ms === undefined) {
    throw new TonyError('USAGE', `${place} requires a duration, such as 12h or 30d, not ${text}.`);
  }
  return ms;
};

export interface ClusterArguments {
  readonly resourceManager?: string | undefined;
  readonly staging?: string | undefined;
}

export const TASK = {
  type: 'string',
  demandOption: true,
  describe: 'Role and index of the task, e.g. worker:0',
  parse: parseTask,
} as const;

/** A job, by its ID or by the name of one of the user's jobs. */
export const JOB = {
  type: 'string',
  demandOption: true,
  describe: 'Job ID, e.g. application_1795225023264_0001, or the name of one of your jobs',
  parse: (text: string) => (/^(application|local)_/.test(text) ? checkId(text) : text),
} as const;

export const JOB_ID = {
  type: 'string',
  demandOption: true,
  describe: 'Job ID, e.g. application_1795225023264_0001',
  parse: checkId,
} as const;
