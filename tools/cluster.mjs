#!/usr/bin/env node
/** `npm run cluster -- up | down | status | env | kill NAME | start NAME`: a real local Hadoop cluster, for experiments and tests. */
import { parseArgs } from 'node:util';
import { Cluster } from '../integration-tests/cluster/cluster.mjs';
import { DAEMONS, daemonNamed } from '../integration-tests/cluster/layout.mjs';
import { existingProfile, isProfileName, PROFILES } from '../integration-tests/cluster/profiles.mjs';

const USAGE = `Usage: npm run cluster -- COMMAND [--port-offset N]

  up [--fresh] [--hadoop VERSION] [--profile PROFILE]
                start the stopped daemons and wait until the cluster is ready; --fresh starts with an empty HDFS
  down          stop all daemons and containers; the next up finds the same files on HDFS
  status        show the daemons; exit code 0 if the cluster is ready, 1 otherwise
  env           print the environment variables of clients: eval "$(npm run -s cluster -- env)"
  kill NAME     kill one daemon with SIGKILL
  start NAME    start one daemon
  NAME          ${DAEMONS.join(', ')} (or nn, dn, rm, nm1, nm2), and those of the profile, which status lists
  PROFILE       ${Object.keys(PROFILES).join(', ')}; joined by + to combine them. A cluster keeps
                its profile until up --fresh

To run a second cluster: --port-offset 1000, or TONY_CLUSTER_OFFSET=1000.`;

class UsageError extends Error {}

async function main() {
  const { values, positionals } = parseCommand();
  const [command, name] = positionals;
  const offset = Number(values['port-offset'] ?? (process.env.TONY_CLUSTER_OFFSET || 0));
  const profile = values.profile ?? existingProfile(offset) ?? 'plain';
  if (!isProfileName(profile)) {
    throw new UsageError(`there is no profile \`${profile}\``);
  }
  const cluster = new Cluster(offset, { profile });
  const started = performance.now();
  const seconds = () => `${((performance.now() - started) / 1000).toFixed(1)} s`;

  switch (command) {
    case 'up':
      await cluster.up({ fresh: values.fresh, ...(values.hadoop === undefined ? {} : { hadoop: values.hadoop }), log: console.log });
      console.log(
        `Hadoop ${await cluster.hadoopVersion()} up in ${seconds()}: ResourceManager ${cluster.resourceManager}  NameNode ${cluster.nameNode}`,
      );
      console.log(`next:  eval "$(npm run -s cluster -- env${cluster.offset === 0 ? '' : ` --port-offset ${cluster.offset}`})"`);
      return;
    case 'down':
      await cluster.down();
      console.log(`down in ${seconds()}`);
      return;
    case 'status':
      await printStatus(cluster);
      return;
    case 'env':
      for (const [variable, value] of Object.entries(cluster.environment())) {
        console.log(`export ${variable}='${value}'`);
      }
      if ((await cluster.stoppedDaemons()).length > 0) {
        console.error('the cluster is not running; start it with npm run cluster -- up');
      }
      return;
    case 'kill':
      await cluster.kill(daemon(cluster, name));
      return;
    case 'start':
      await cluster.start(daemon(cluster, name));
      return;
    default:
      throw new UsageError(command === undefined ? 'no command was given' : `there is no command \`${command}\``);
  }
}

function parseCommand() {
  try {
    return parseArgs({
      allowPositionals: true,
      options: {
        'port-offset': { type: 'string' },
        profile: { type: 'string' },
        hadoop: { type: 'string' },
        fresh: { type: 'boolean', default: false },
      },
    });
  } catch (error) {
    throw new UsageError(/** @type {Error} */ (error).message);
  }
}

/**
 * @param {Cluster} cluster
 * @param {string | undefined} name
 */
function daemon(cluster, name) {
  const found = daemonNamed(name ?? '') ?? cluster.processes.find((each) => each === name);
  if (found === undefined) {
    throw new UsageError(name === undefined ? 'no daemon was named' : `there is no daemon \`${name}\``);
  }
  return found;
}

/** @param {Cluster} cluster */
async function printStatus(cluster) {
  const { ready, daemons } = await cluster.status();
  for (const { name, pid, residentMb } of daemons) {
    console.log(`${name.padEnd(16)} ${pid === null ? 'down' : `up    pid ${String(pid).padEnd(8)} ${residentMb} MiB`}`);
  }
  console.log(ready ? `ready: ResourceManager ${cluster.resourceManager}  NameNode ${cluster.nameNode}` : 'not ready');
  if (!ready) {
    process.exitCode = 1;
  }
}

try {
  await main();
} catch (error) {
  if (!(error instanceof Error)) {
    throw error;
  }
  console.error(error instanceof UsageError ? `${error.message}\n\n${USAGE}` : error.message);
  process.exitCode = error instanceof UsageError ? 2 : 1;
}
