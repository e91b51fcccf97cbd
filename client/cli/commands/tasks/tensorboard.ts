import { defineCommand, wholeNumber } from '../../command/command.ts';
import { CLUSTER_OPTIONS, JOB_ID } from '../shared-options.ts';

export const tensorboardCommand = defineCommand({
  command: 'tensorboard <job>',
  describe: 'Run TensorBoard on this machine for a job that is running or has ended',
  positionals: { job: JOB_ID },
  options: {
    port: { ...wholeNumber(0, 65_535), default: 0, describe: 'Port on this machine; 0 selects a free port' },
    open: { type: 'boolean', default: true, describe: "Open TensorBoard in this machine's browser" },
    user: { type: 'string', describe: 'User who submitted the job, if known' },
    ...CLUSTER_OPTIONS,
  },
  handler: async ({ job, user, port, open, ...options }) => {
    const { serverLog } = await import('../serving.ts');
    const { checkId } = await import('../../../connections/check-id.ts');
    const { serveHistory } = await import('../../../history/serve.ts');
    const { findPlace } = await import('../../../records/find-place.ts');
    const { untilSignal } = await import('../../../terminal/until-signal.ts');
    const { openBrowser } = await import('../../../terminal/open-browser.ts');
    const ended = untilSignal();
    const server = await serveHistory({
      ...options,
      local: checkId(job) === 'local',
      auth: 'token',
      listen: '127.0.0.1',
      port,
      log: serverLog(),
      onProgress: (line) => process.stderr.write(`${line}\n`),
    });
    let forget: (() => Promise<void>) | null = null;
    try {
      const place = await findPlace(server.store, job, user);
      const url = server.jobUrl(place);
      process.stdout.write(`tensorboard: ${url}\n`);
      await server.prepare(place);
      forget = open ? await openBrowser(url) : null;
      await ended;
    } finally {
      await forget?.();
      await server.close();
    }
  },
});
