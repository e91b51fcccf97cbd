/** The profile `tls`: daemons serve HTTPS only, with certificates of a private certificate authority. */
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { mkdir, rename, rm, writeFile } from 'node:fs/promises';
import { request as httpsRequest } from 'node:https';
import path from 'node:path';
import { promisify } from 'node:util';

/** @typedef {import('./profiles.mjs').Place} Place */

const COMMAND_LIMIT_MS = 60_000;
const DAYS = '30';
const EXTENSIONS = `[ca]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
[server]
basicConstraints = critical, CA:FALSE
subjectAltName = DNS:localhost
authorityKeyIdentifier = keyid
`;

/** @type {import('./profiles.mjs').Profile} */
export const TLS = {
  processes: [],
  scheme: 'https',
  prepare,
  begin: async () => {},
  properties,
  // With TLS 1.3, the web servers of Hadoop 2 (Jetty 6) log "SSL renegotiate denied" and close some connections before they respond.
  javaFlags: (_, hadoop) => (hadoop.startsWith('2.') ? ['-Djdk.tls.server.protocols=TLSv1.2'] : []),
  authorityFile: ({ state }) => authorityFile(state),
  send,
};

/** @param {string} state */
export function authorityFile(state) {
  return path.join(folderOf(state), 'ca.pem');
}

/** @param {string} state */
function folderOf(state) {
  return path.join(state, 'tls');
}

/**
 * Creates the certificate authority, the certificate for `localhost`, and the Java keystore and truststore. Existing files are kept.
 * @param {Place} place
 */
async function prepare({ state }) {
  const folder = folderOf(state);
  if (existsSync(folder)) {
    return;
  }
  // The rename marks the folder as complete.
  const unfinished = `${folder}.new`;
  await rm(unfinished, { recursive: true, force: true });
  await mkdir(unfinished, { recursive: true, mode: 0o700 });
  const password = randomBytes(16).toString('hex');
  await writeFile(path.join(unfinished, 'password'), password, { mode: 0o600 });
  await writeFile(path.join(unfinished, 'extensions.cnf'), EXTENSIONS);
  /** @param {string} command @param {string} line */
  const run = (command, line) => promisify(execFile)(command, line.split(' '), { cwd: unfinished, timeout: COMMAND_LIMIT_MS });
  const key = '-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes';
  await run('openssl', `req ${key} -keyout ca.key -out ca.csr -subj /CN=box-authority`);
  await run('openssl', `x509 -req -in ca.csr -signkey ca.key -days ${DAYS} -extfile extensions.cnf -extensions ca -out ca.pem`);
  await run('openssl', `req ${key} -keyout server.key -out server.csr -subj /CN=localhost`);
  const signed = `-CA ca.pem -CAkey ca.key -CAcreateserial -days ${DAYS} -extfile extensions.cnf -extensions server`;
  await run('openssl', `x509 -req -in server.csr ${signed} -out server.pem`);
  await run('openssl', 'pkcs12 -export -in server.pem -inkey server.key -name server -passout file:password -out keystore.p12');
  await run('keytool', '-importcert -noprompt -alias box -file ca.pem -keystore truststore.jks -storetype JKS -storepass:file password');
  await rename(unfinished, folder);
}

/** @param {Place} place */
function properties({ state, ports }) {
  const file = (/** @type {string} */ name) => path.join(folderOf(state), name);
  // The certificate does not exist yet when a cluster object is created.
  const password = existsSync(file('password')) ? readFileSync(file('password'), 'utf8') : '';
  const { namenode, datanode, resourcemanager } = ports;
  const truststore = (/** @type {string} */ mode) => ({
    [`ssl.${mode}.truststore.location`]: file('truststore.jks'),
    [`ssl.${mode}.truststore.password`]: password,
    [`ssl.${mode}.truststore.type`]: 'jks',
  });
  return {
    hdfs: {
      'dfs.http.policy': 'HTTPS_ONLY',
      'dfs.namenode.https-address': `localhost:${namenode.http}`,
      'dfs.datanode.https.address': `localhost:${datanode.http}`,
    },
    yarn: {
      'yarn.http.policy': 'HTTPS_ONLY',
      'yarn.resourcemanager.webapp.https.address': `localhost:${resourcemanager.http}`,
    },
    sslClient: truststore('client'),
    sslServer: {
      ...truststore('server'),
      'ssl.server.keystore.location': file('keystore.p12'),
      'ssl.server.keystore.password': password,
      'ssl.server.keystore.keypassword': password,
      'ssl.server.keystore.type': 'pkcs12',
    },
  };
}

/**
 * Sends a request that trusts the cluster's certificate authority, which `fetch` does not support. Follows redirects of GET, as `fetch`
 * does.
 * @param {Place} place
 * @param {string} url
 * @param {RequestInit} init
 * @returns {Promise<Response>}
 */
function send(place, url, init) {
  const { method = 'GET', headers = {}, body, signal } = init;
  const target = new URL(url);
  return new Promise((resolve, reject) => {
    const sent = httpsRequest(
      target,
      {
        method,
        headers: Object.fromEntries(new Headers(headers)),
        ca: readFileSync(authorityFile(place.state)),
        ...(signal ? { signal } : {}),
      },
      async (answer) => {
        try {
          const whole = Buffer.concat(await answer.toArray());
          const status = answer.statusCode ?? 0;
          const { location } = answer.headers;
          if (method === 'GET' && location !== undefined && status >= 300 && status < 400) {
            return resolve(send(place, new URL(location, target).href, init));
          }
          const given = Object.entries(answer.headers).flatMap(([name, value]) => [value ?? []].flat().map((each) => [name, each]));
          resolve(new Response(status === 204 || status === 304 ? null : whole, { status, headers: /** @type {any} */ (given) }));
        } catch (error) {
          reject(error);
        }
      },
    );
    sent.once('error', reject);
    sent.end(/** @type {any} */ (body) ?? undefined);
  });
}
