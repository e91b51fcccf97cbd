import { parsePorts } from '../../../sessions/parse-ports.ts';
import { defineCommand } from '../../command/command.ts';
import { CLUSTER_OPTIONS, JOB, TASK } from '../shared-options.ts';
import { noticeWriter } from './run-session.ts';

export const forwardCommand = defineCommand({
  command: 'forward <job> <task> <port>',
  describe: 'Forward a port on this machine to a port of a running task',
  positionals: {
    job: JOB,
    task: TASK,
    port: {
      type: 'string',
      demandOption: true,
      parse: parsePorts,
      describe: 'Port on which the task listens, or LOCAL:PORT to use another port on this machine (:PORT uses any free port)',
    },
  },
  options: { ...CLUSTER_OPTIONS },
  epilogue: 'The command listens on 127.0.0.1, and runs until you press Ctrl-C or the job ends.',
  handler: async ({ job, task, port, ...cluster }) => {
    const { connectNamed } = await import('../job-named.ts');
    const { forwardPort } = await import('../../../sessions/forward-port.ts');
    const { untilSignal } = await import('../../../terminal/until-signal.ts');
    const ports = parsePorts(port);
    const connection = await connectNamed(job, cluster);
    const onNotice = await noticeWriter();
    try {
      const forwarded = await forwardPort(connection, task, ports.port, { localPort: ports.localPort, onNotice });
      process.stdout.write(`forwarding http://127.0.0.1:${forwarded.port} to port ${ports.port} of ${task}; press Ctrl-C to stop\n`);
      void untilSignal().then(() => forwarded.close());
      await forwarded.ended;
    } finally {
      connection.close();
    }
  },
});
