import { apiObject } from '../../../../conf/status/api-object.ts';
import type { FailureExit } from '../../../../platform/errors.ts';
import type { Finding } from '../../../doctor/diagnosis.ts';
import type { OutputFormat } from '../../../output/lines/value-output.ts';
import { defineCommand, parsedText, wholeNumber } from '../../command/command.ts';
import { CLUSTER_OPTIONS, durationText, OUTPUT_OPTION } from '../shared-options.ts';

/** Exit code if a check fails: jobs would be refused or would not run. */
const FAILED_CHECK: FailureExit = 4;
const PROBE_MS = 120_000;
const MARK_WIDTH = 8;
const NAME_WIDTH = 16;
const GAP = '  ';

export const doctorCommand = defineCommand({
  command: 'doctor',
  describe: 'Check everything that a job needs from the cluster, and show how to fix failed checks; the exit code is 4 if a check fails',
  options: {
    queue: { type: 'string', default: 'default', describe: 'The YARN queue to check' },
    probe: {
      type: 'boolean',
      default: false,
      describe: 'Also run one small container on each active node, and report what jobs find there',
    },
    nodes: { ...wholeNumber(1), describe: 'With --probe: number of nodes to probe [default: all]', needs: 'probe' },
    node: {
      type: 'string',
      array: true,
      default: [],
      describe: 'With --probe: host or NodeManager to probe; repeatable',
      needs: 'probe',
    },
    timeout: {
      ...parsedText(durationText),
      describe: 'With --probe: time limit for the nodes to start their containers and to report [default: 2m]',
      needs: 'probe',
    },
    ...OUTPUT_OPTION,
    ...CLUSTER_OPTIONS,
  },
  handler: async ({ output, probe, nodes, node, timeout, queue, resourceManager, staging }) => {
    const options = { queue, resourceManager, staging };
    const show = output === 'table' ? await findingPrinter() : await findingWriter(output);
    const { doctor } = await import('../../../doctor/doctor.ts');
    let isReady = true;
    for await (const finding of doctor(options)) {
      show(finding);
      isReady &&= finding.state !== 'error';
    }
    if (!probe || !isReady) {
      return;
    }
    const { runProbe } = await import('../../../doctor/probe/run-probe.ts');
    const onProgress = (line: string): void => void process.stderr.write(`${line}\n`);
    const { untilInterrupted } = await import('../../../terminal/until-interrupted.ts');
    const { nodes: probed, findings } = await untilInterrupted('Interrupted; the probe was stopped.', (signal) =>
      runProbe({ ...options, only: node, sample: nodes ?? null, timeoutMs: timeout ?? PROBE_MS, onProgress, signal }),
    );
    if (output === 'table') {
      const { probeTable } = await import('../../../doctor/probe/probe-table.ts');
      const { terminalOf } = await import('../../../terminal/terminal.ts');
      process.stdout.write(`\n${probeTable(probed, terminalOf(process.stdout)).join('\n')}\n\n`);
    } else {
      const { valueWriter } = await import('../../../output/lines/value-output.ts');
      const write = await valueWriter(output);
      for (const each of probed) {
        write(apiObject('Node', each));
      }
    }
    for (const finding of findings) {
      show(finding);
    }
  },
});

type Show = (finding: Finding) => void;

function noteFailure({ state }: Finding): void {
  if (state === 'error') {
    process.exitCode = FAILED_CHECK;
  }
}

async function findingWriter(format: Exclude<OutputFormat, 'table'>): Promise<Show> {
  const { valueWriter } = await import('../../../output/lines/value-output.ts');
  const write = await valueWriter(format);
  return (finding) => {
    noteFailure(finding);
    write(apiObject('Check', finding));
  };
}

async function findingPrinter(): Promise<Show> {
  const { harmless, terminalOf, wrap } = await import('../../../terminal/terminal.ts');
  const terminal = terminalOf(process.stdout);
  const colours = { ok: 'green', warning: 'yellow', error: 'red', skipped: 'dim' } as const;
  const indent = ' '.repeat(MARK_WIDTH + NAME_WIDTH + 2 * GAP.length);
  const width = Math.max(30, terminal.columns - 1 - indent.length);
  return (finding) => {
    noteFailure(finding);
    const { name, state, message, hint } = finding;
    const mark = terminal.paint(colours[state], state.padEnd(MARK_WIDTH));
    const [first = '', ...more] = [...wrap(harmless(message), width, 20), ...wrap(harmless(hint), width, 20)];
    process.stdout.write(
      `${[`${mark}${GAP}${name.padEnd(NAME_WIDTH)}${GAP}${first}`, ...more.map((line) => `${indent}${line}`)].join('\n')}\n`,
    );
  };
}
