import { spawn } from 'node:child_process';
import { chown, copyFile, mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { bindPort } from '../../training/testing/bind-port.ts';
import type { HistoryList } from '../../web/history-list.ts';
import { keytabOf } from '../cluster/kerberos.mjs';
import { ROOT } from '../command.ts';
import { execute } from '../execute.ts';
import { temporaryFolder, until, useOwnCluster } from '../harness.ts';

/**
 * The history server behind Apache httpd, with the configuration in docs/getting-started.md. Needs Debian's `apache2` and
 * `libapache2-mod-auth-gssapi`.
 */

const MODULES = '/usr/lib/apache2/modules';
const cluster = useOwnCluster('kerberos');

/** Returns the documented virtual host, with the paths and addresses of this test. */
async function virtualHost(folder: string, port: number, behind: number): Promise<string> {
  const text = await readFile(path.join(ROOT, 'docs', 'getting-started.md'), 'utf8');
  const block = /^<VirtualHost [\s\S]*?^<\/VirtualHost>$/m.exec(text)?.[0] ?? '';
  const changes = { '*:443': `127.0.0.1:${port}`, 'history.example.com': 'localhost', '18080': String(behind) };
  const files = { '/etc/ssl/': `${folder}/`, '/etc/apache2/': `${folder}/` };
  return Object.entries({ ...changes, ...files }).reduce((changed, [from, to]) => {
    expect(changed).toContain(from);
    return changed.replaceAll(from, to);
  }, block);
}

/** Starts Apache httpd, which a test running as root starts as Debian's user for it. Returns the certificate authority's file. */
async function startApache(port: number, behind: number): Promise<string> {
  const folder = await temporaryFolder();
  const [configuration, certificate, key] = ['httpd.conf', 'history.pem', 'history.key'].map((name) => path.join(folder, name)) as [
    string,
    string,
    string,
  ];
  const subject = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost', '-days', '2'];
  await execute('openssl', ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', ...subject, '-keyout', key, '-out', certificate]);
  await copyFile(keytabOf(cluster.state, 'HTTP'), path.join(folder, 'http.keytab'));
  const modules = ['mpm_event', 'authn_core', 'authz_core', 'authz_user', 'auth_gssapi', 'headers', 'proxy', 'proxy_http', 'ssl'];
  const lines = [
    ...modules.map((name) => `LoadModule ${name}_module ${MODULES}/mod_${name}.so`),
    `ServerRoot ${folder}`,
    'ServerName localhost',
    'PidFile httpd.pid',
    'ErrorLog error.log',
    `Listen 127.0.0.1:${port}`,
    await virtualHost(folder, port, behind),
  ];
  await writeFile(configuration, `${lines.join('\n')}\n`);
  const owner = process.getuid?.() === 0 ? await idsOf('www-data') : null;
  if (owner !== null) {
    for (const file of [folder, ...(await readdir(folder)).map((name) => path.join(folder, name))]) {
      await chown(file, owner.uid, owner.gid);
    }
  }
  const env = { ...process.env, KRB5_CONFIG: cluster.environment('alice').KRB5_CONFIG };
  const apache = spawn('/usr/sbin/apache2', ['-f', configuration, '-DFOREGROUND'], { ...owner, env, cwd: folder, stdio: 'inherit' });
  const ended = new Promise((resolve) => apache.once('close', resolve));
  onTestFinished(async () => {
    apache.kill('SIGTERM');
    await ended;
  });
  return certificate;
}

async function idsOf(user: string): Promise<{ readonly uid: number; readonly gid: number }> {
  const id = async (option: string): Promise<number> => Number((await execute('id', [option, user])).stdout);
  return { uid: await id('-u'), gid: await id('-g') };
}

async function freePort(): Promise<number> {
  const { port, close } = await bindPort(false);
  onTestFinished(close);
  return port;
}

test('Apache httpd authenticates users with Kerberos, and the history server shows each user the permitted jobs', async () => {
  const folder = await temporaryFolder();
  const [port, behind] = [await freePort(), await freePort()];
  await cluster.hdfsMakeFolder('/shared/history', '1777');
  await mkdir(path.join(folder, 'conf'));
  const site = `history: {dir: 'hdfs:///shared/history', url: 'https://localhost:${port}'}\n`;
  await writeFile(path.join(folder, 'conf', 'tony-site.yaml'), site);
  const TONY_CONF_DIR = path.join(folder, 'conf');
  const submit = async (name: string, acls: string): Promise<string> => {
    const file = path.join(folder, `${name}.yaml`);
    const roles = 'roles: {worker: {instances: 1, resources: {memory: 256m}}}';
    await writeFile(file, `name: ${name}\nframework: none\nruntime: system\ncommand: 'true'\n${acls}${roles}\n`);
    const { stdout, stderr } = await cluster.run(['submit', '--conf', file], { env: { ...cluster.environment('alice'), TONY_CONF_DIR } });
    const id = /application_\d+_\d+/.exec(stdout)?.[0];
    if (id === undefined) {
      throw new Error(stderr);
    }
    return id;
  };
  const [own, shared] = [await submit('own', ''), await submit('shared', 'acls: {view: {users: [bob]}}\n')];

  const login = { TONY_PRINCIPAL: cluster.administrator, TONY_KEYTAB: keytabOf(cluster.state, cluster.administrator) };
  const none = `FILE:${path.join(folder, 'none')}`;
  const server = cluster.startCommand(['history', 'serve', '--auth', 'proxy', '--trusted-proxy', 'localhost', '--port', String(behind)], {
    env: { TONY_CONF_DIR, KRB5CCNAME: none, XDG_CACHE_HOME: path.join(folder, 'cache'), ...login },
  });
  await server.output(/^history: /m);
  const authority = await startApache(port, behind);

  /** Requests a page as a user's `curl` does, and returns the status and the body. */
  const asked = async (user: string | null, target: string, ...options: string[]): Promise<{ status: number; body: string }> => {
    const args = ['-sS', '--cacert', authority, '--negotiate', '-u', ':', '-w', '\n%{http_code}', ...options];
    const env = { ...process.env, ...cluster.environment('alice'), ...(user === null ? { KRB5CCNAME: none } : cluster.environment(user)) };
    const { stdout } = await execute('curl', [...args, `https://localhost:${port}/${target}`], { env });
    const end = stdout.lastIndexOf('\n');
    return { status: Number(stdout.slice(end + 1)), body: stdout.slice(0, end) };
  };
  const names = async (user: string): Promise<string[]> =>
    (JSON.parse((await asked(user, 'tony/api/v1/history')).body) as HistoryList).jobs.map(({ name }) => name);

  await until(async () => (await asked(null, 'tony/')).status === 401, { describe: 'Apache httpd requires a ticket' });
  expect(await names('alice')).toEqual(['shared', 'own']);
  expect(await names('bob')).toEqual(['shared']);
  const page = (id: string): string => `jobs/alice/${id}/tony/api/v1/job`;
  expect(JSON.parse((await asked('alice', page(own))).body)).toMatchObject({ id: own, user: 'alice', state: 'succeeded' });
  expect((await asked('bob', page(shared))).status).toBe(200);
  expect(await asked('bob', page(own))).toEqual({ status: 403, body: expect.stringContaining('acls.view') });
  // The proxy replaces the header of a client.
  expect((await asked('bob', page(own), '-H', 'X-Remote-User: alice')).status).toBe(403);
  expect((await asked(null, page(own), '-H', 'X-Remote-User: alice')).status).toBe(401);
});
