import type { Options } from 'yargs';
import { OUTPUT_FORMATS } from '../../output/lines/value-output.ts';

export const CLUSTER_OPTIONS = {
  'resource-manager': {
    type: 'string',
    describe: "Address of a ResourceManager's web server; used instead of HADOOP_CONF_DIR",
    requiresArg: true,
  },
  staging: {
    type: 'string',
    describe: 'Folder on HDFS for job files [default: TONY_STAGING, or .tony-ts in your home folder]',
    requiresArg: true,
  },
} as const satisfies Record<string, Options>;

export const OUTPUT_OPTION = {
  output: {
    choices: OUTPUT_FORMATS,
    default: 'table' as const,
    describe: 'json: one JSON object per line; yaml: one document per object',
    requiresArg: true,
  },
} as const satisfies Record<string, Options>;

export const DRY_RUN_OPTION = {
  'dry-run': { type: 'boolean', default: false, describe: 'Only list what would be removed' },
} as const satisfies Record<string, Options>;

/**
 * Parses the value of a duration option, and returns it in ms.
 * @throws TonyError USAGE
 */
export async function durationOf(option: string, text: string): Promise<number> {
  const { parseDuration } = await import('../../../conf/values/units.ts');
  const parsed = parseDuration(text);
  if (parsed !== undefined) {
    return parsed;
  }
  const { TonyError } = await import('../../../platform/errors.ts');
  throw new TonyError('USAGE', `${option} requires a duration, such as 12h or 30d.`);
}

export interface ClusterArguments {
  readonly resourceManager?: string | undefined;
  readonly staging?: string | undefined;
}

export const TASK = {
  type: 'string',
  demandOption: true,
  describe: 'Role and index of the task, e.g. worker:0',
} as const satisfies Options;

export const APPLICATION_ID = {
  type: 'string',
  demandOption: true,
  describe: 'Job ID, e.g. application_1795225023264_0001',
} as const satisfies Options;
