import { closing } from '../../../../platform/async/closing.ts';
import type { SavedFile } from '../../../connections/operations/job-files.ts';
import type { FittedColumn } from '../../../terminal/fitted-table.ts';
import type { Terminal } from '../../../terminal/terminal.ts';
import { defineCommand } from '../../command/command.ts';
import { CLUSTER_OPTIONS, JOB, OUTPUT_OPTION } from '../shared-options.ts';
import { show } from '../show.ts';

export const filesCommand = defineCommand({
  command: 'files <job> [path]',
  foreignNames: ['cp', 'fetch', 'download', 'pull', 'artifacts'],
  describe: 'List the files that a job has saved, such as models and checkpoints, or copy them to this machine',
  positionals: { job: JOB, path: { type: 'string', default: '', describe: "File or folder in the job's output folder, such as model" } },
  options: {
    to: { type: 'string', describe: 'Copy the file or folder to this path, which must not exist yet' },
    ...OUTPUT_OPTION,
    ...CLUSTER_OPTIONS,
  },
  examples: [
    ['$0 files mnist', ''],
    ['$0 files mnist model --to model', ''],
  ],
  handler: async ({ job, path, to, output, ...cluster }) => {
    const { connectNamed } = await import('../job-named.ts');
    const { copyJobFiles, jobFiles } = await import('../../../connections/operations/job-files.ts');
    await closing(await connectNamed(job, cluster), async (connection) => {
      if (to === undefined) {
        const files = await jobFiles(connection, path);
        await show(output, 'File', files, (terminal) => fileTable(files, terminal));
        return;
      }
      const { untilInterrupted } = await import('../../../terminal/until-interrupted.ts');
      const message = 'Interrupted. No file was copied.';
      const copied = await untilInterrupted(message, (signal) => copyJobFiles(connection, path, to, signal));
      await show(output, 'FileCopy', [copied], async () => {
        const { counted, formatBytes } = await import('../../../../conf/values/quantities.ts');
        return [`copied ${counted(copied.files, 'file')} (${formatBytes(copied.bytes)}) to ${copied.path}`];
      });
    });
  },
});

async function fileTable(files: readonly SavedFile[], terminal: Terminal): Promise<string[]> {
  const { fittedTable } = await import('../../../terminal/fitted-table.ts');
  const { fullTime } = await import('../../../terminal/clock.ts');
  const { formatBytes } = await import('../../../../conf/values/quantities.ts');
  const columns: FittedColumn<SavedFile>[] = [
    { title: 'FILE', cell: ({ name }) => name, keep: 3 },
    { title: 'SIZE', cell: ({ bytes }) => formatBytes(bytes), align: 'right', keep: 2 },
    { title: 'WRITTEN', cell: ({ modifiedAt }) => fullTime(modifiedAt), keep: 1 },
  ];
  return fittedTable(files, columns, terminal);
}
