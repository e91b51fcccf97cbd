import { defineCommand } from '../../command/command.ts';
import { OUTPUT_OPTION } from '../shared-options.ts';

/** An option that may be repeated, each time with one assignment. */
const ASSIGNMENTS = { type: 'string', array: true, default: [] as string[] } as const;

export const importCommand = defineCommand({
  command: 'import <configuration>',
  describe: "Convert a TonY job's configuration (tony.xml) to job.yaml, and list the settings that have no equivalent",
  positionals: { configuration: { type: 'string', demandOption: true, describe: 'TonY configuration file, e.g. tony.xml' } },
  options: {
    executes: { type: 'string', describe: "Value of TonY's -executes option" },
    'task-params': { type: 'string', describe: "Value of TonY's -task_params option" },
    'python-binary-path': { type: 'string', describe: "Value of TonY's -python_binary_path option" },
    'python-venv': { type: 'string', describe: "Value of TonY's -python_venv option" },
    'src-dir': { type: 'string', describe: "Value of TonY's -src_dir option" },
    'sidecar-tensorboard-log-dir': {
      type: 'string',
      describe: "Value of TonY's -sidecar_tensorboard_log_dir option",
    },
    'container-env': { ...ASSIGNMENTS, describe: "Value of TonY's -container_env option, e.g. EPOCHS=3" },
    'shell-env': { ...ASSIGNMENTS, describe: "Value of TonY's -shell_env option, e.g. EPOCHS=3" },
    set: { ...ASSIGNMENTS, describe: "Value of TonY's -conf option, e.g. tony.worker.instances=4" },
    to: { type: 'string', describe: 'Write job.yaml to this file, which must not exist yet' },
    ...OUTPUT_OPTION,
  },
  examples: [['$0 import tony.xml --src-dir src --executes "node train.ts" --to job.yaml', '']],
  handler: async ({ configuration, executes, taskParams, pythonBinaryPath, pythonVenv, srcDir, set, to, output, ...rest }) => {
    const { importTony } = await import('../../../tony-import/import-tony.ts');
    const imported = await importTony(configuration, {
      executes,
      taskParams,
      python: pythonBinaryPath,
      pythonVenv,
      sourceFolder: srcDir,
      tensorboardLogDir: rest.sidecarTensorboardLogDir,
      containerEnv: rest.containerEnv,
      shellEnv: rest.shellEnv,
      to,
      settings: set,
    });
    if (imported.missing.length > 0) {
      // job.yaml is written, but cannot be submitted yet.
      process.exitCode = 2;
    }
    if (to !== undefined) {
      const { writeNewFile } = await import('../../../files/write-new-file.ts');
      await writeNewFile(to, imported.yaml, 'Remove the file, or choose another one.');
    }
    if (output !== 'table') {
      const { apiObject } = await import('../../../../conf/status/api-object.ts');
      const { valueWriter } = await import('../../../output/lines/value-output.ts');
      (await valueWriter(output))(apiObject('TonyImport', imported));
      return;
    }
    const { importLines } = await import('../../../tony-import/import-lines.ts');
    const { terminalOf } = await import('../../../terminal/terminal.ts');
    // Without --to, stdout is reserved for job.yaml, so the report goes to stderr.
    const stream = to === undefined ? process.stderr : process.stdout;
    if (to === undefined) {
      process.stdout.write(imported.yaml);
    }
    stream.write(`${importLines(imported, terminalOf(stream), to).join('\n')}\n`);
  },
});
