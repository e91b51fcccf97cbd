import type { Options } from 'yargs';
import { OUTPUT_FORMATS } from '../value-output.ts';

/** Options that say which cluster, and how to speak. */
export const CLUSTER_OPTIONS = {
  'resource-manager': {
    type: 'string',
    describe: "Address of a ResourceManager's web server, instead of HADOOP_CONF_DIR",
    requiresArg: true,
  },
  staging: {
    type: 'string',
    describe: 'Folder on HDFS for what jobs need [default: .tony-ts in your home, or TONY_STAGING]',
    requiresArg: true,
  },
} as const satisfies Record<string, Options>;

export const OUTPUT_OPTION = {
  output: {
    choices: OUTPUT_FORMATS,
    default: 'table' as const,
    describe: 'json: one JSON object a line; yaml: one document each',
    requiresArg: true,
  },
} as const satisfies Record<string, Options>;

export interface ClusterArguments {
  readonly resourceManager?: string | undefined;
  readonly staging?: string | undefined;
}

export const APPLICATION_ID = {
  type: 'string',
  demandOption: true,
  describe: 'e.g. application_1795225023264_0001',
} as const satisfies Options;
