import type { CommandModule } from 'yargs';
import description from '../../package.json' with { type: 'json' };

export const VERSION: string = description.version;

export const versionCommand: CommandModule = {
  command: 'version',
  describe: 'Show the version',
  handler: () => {
    process.stdout.write(`tony-ts ${VERSION} (Node ${process.versions.node})\n`);
  },
};
