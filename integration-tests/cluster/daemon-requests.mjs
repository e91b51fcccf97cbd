/** Requests to the web servers of a cluster's daemons, as the administrator. */
import { setTimeout as delay } from 'node:timers/promises';
import { ADMINISTRATOR } from './configuration.mjs';

/** @typedef {import('./cluster.mjs').Cluster} Cluster */

const RESPONSE_LIMIT_MS = 60_000;

/** @param {Cluster} cluster */
export async function isServing(cluster) {
  await findActive(cluster);
  const nodes = [cluster.ports.nodemanager1, cluster.ports.nodemanager2];
  const [system, info, metrics, ...served] = await Promise.all([
    getJson(cluster, `${cluster.nameNode}/jmx?qry=Hadoop:service=NameNode,name=FSNamesystemState`),
    getJson(cluster, `${cluster.nameNode}/jmx?qry=Hadoop:service=NameNode,name=NameNodeInfo`),
    getJson(cluster, `${cluster.resourceManager}/ws/v1/cluster/metrics`),
    // The ResourceManager reports a node as active for several seconds after its NodeManager exits, so each NodeManager is queried as
    // well.
    ...nodes.map(({ http }) => getJson(cluster, `${cluster.profile.scheme ?? 'http'}://localhost:${http}/ws/v1/node/info`)),
  ]);
  return (
    system?.beans?.[0]?.NumLiveDataNodes === 1 &&
    info?.beans?.[0]?.Safemode === '' &&
    metrics?.clusterMetrics?.activeNodes === nodes.length &&
    served.every((node) => node?.nodeInfo?.nodeHealthy === true)
  );
}

/**
 * Determines which daemon of each pair is active. If neither is active, the previous values remain.
 * @param {Cluster} cluster
 */
export async function findActive(cluster) {
  const resourceManagers = cluster.webAddresses('resourcemanager');
  const nameNodes = cluster.webAddresses('namenode');
  if (resourceManagers.length === 1 && nameNodes.length === 1) {
    return;
  }
  const infos = await Promise.all(resourceManagers.map((url) => getJson(cluster, `${url}/ws/v1/cluster/info`)));
  const states = await Promise.all(nameNodes.map((url) => getJson(cluster, `${url}/jmx?qry=Hadoop:service=NameNode,name=NameNodeStatus`)));
  cluster.resourceManager = resourceManagers.find((_, at) => infos[at]?.clusterInfo?.haState === 'ACTIVE') ?? cluster.resourceManager;
  cluster.nameNode = nameNodes.find((_, at) => states[at]?.beans?.[0]?.State === 'active') ?? cluster.nameNode;
}

/**
 * Creates the home folders, the folder for aggregated logs, and a folder with write access for every user.
 * @param {Cluster} cluster
 */
export async function makeFolders(cluster) {
  const users = [...new Set([ADMINISTRATOR, 'alice', 'bob'])];
  await makeFolder(cluster, '/user', '755', ADMINISTRATOR);
  for (const folder of ['/tmp', '/yarn-logs']) {
    await makeFolder(cluster, folder, '1777', ADMINISTRATOR);
  }
  await Promise.all(users.map((user) => makeFolder(cluster, `/user/${user}`, '700', user)));
}

/**
 * @param {Cluster} cluster
 * @param {string} folder
 * @param {string} permission
 * @param {string} owner
 */
async function makeFolder(cluster, folder, permission, owner) {
  for (const query of ['op=MKDIRS', `op=SETOWNER&owner=${owner}`, `op=SETPERMISSION&permission=${permission}`]) {
    const answer = await request(cluster, `${cluster.nameNode}/webhdfs/v1${folder}?${query}`, { method: 'PUT' });
    if (!answer.ok) {
      throw new Error(`${query} of ${folder} failed: ${await answer.text()}`);
    }
    await answer.arrayBuffer();
  }
}

/**
 * Sends a request to a daemon's web server as the administrator.
 * @param {Cluster} cluster
 * @param {string} url
 * @param {RequestInit} [init]
 */
export async function request(cluster, url, init = {}) {
  return respondsInTime(url, send(cluster, url, init));
}

/**
 * @param {Cluster} cluster
 * @param {string} url
 * @param {RequestInit} init
 */
async function send(cluster, url, init) {
  const limited = { signal: AbortSignal.timeout(RESPONSE_LIMIT_MS - 2_000), ...init };
  const { request, send } = cluster.profile;
  if (request !== undefined) {
    return request(cluster, url, limited);
  }
  // A redirect to a DataNode already contains the user's delegation token.
  const named = /[?&]delegation=/.test(url) ? url : `${url}${url.includes('?') ? '&' : '?'}user.name=${ADMINISTRATOR}`;
  return send === undefined ? fetch(named, limited) : send(cluster, named, limited);
}

/**
 * @param {Cluster} cluster
 * @param {string} url
 */
async function getJson(cluster, url) {
  try {
    const answer = await request(cluster, url, { signal: AbortSignal.timeout(2000) });
    return answer.ok ? /** @type {any} */ (await respondsInTime(url, answer.json())) : null;
  } catch {
    return null;
  }
}

/**
 * Limits the wait for a response, even if fetch does not respect its signal: the start of a cluster once waited for minutes although all
 * daemons were idle.
 * @template T
 * @param {string} url
 * @param {Promise<T>} response
 * @returns {Promise<T>}
 */
async function respondsInTime(url, response) {
  const timer = new AbortController();
  const expired = delay(RESPONSE_LIMIT_MS, null, { signal: timer.signal }).then(() => {
    throw new Error(`${url} did not respond within ${RESPONSE_LIMIT_MS / 1000} s`);
  });
  try {
    return await Promise.race([response, expired]);
  } finally {
    timer.abort();
  }
}
