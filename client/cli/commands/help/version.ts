import description from '../../../../package.json' with { type: 'json' };
import { defineCommand } from '../../command/command.ts';
import { CLUSTER_OPTIONS, OUTPUT_OPTION } from '../shared-options.ts';
import { show } from '../show.ts';

export const VERSION: string = description.version;

export const versionCommand = defineCommand({
  command: 'version',
  describe: 'Show the version of tony-ts; with --all, also the versions of related software',
  options: {
    all: {
      alias: 'a',
      type: 'boolean',
      default: false,
      describe: 'Include TensorFlow.js, runtimes, Python, TensorBoard and the cluster',
    },
    ...OUTPUT_OPTION,
    ...CLUSTER_OPTIONS,
  },
  handler: async ({ all, output, ...options }) => {
    if (!all && output === 'table') {
      process.stdout.write(`tony-ts ${VERSION} (Node ${process.versions.node})\n`);
      return;
    }
    const { versions } = await import('../../help/versions.ts');
    const found = all ? await versions(options) : [{ part: 'tony-ts', version: VERSION, message: `Node ${process.versions.node}` }];
    await show(output, 'Version', found, async (terminal) => {
      const { versionLines } = await import('../../help/version-lines.ts');
      return versionLines(found, terminal);
    });
  },
});
