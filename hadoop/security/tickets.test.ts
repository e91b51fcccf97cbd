import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { findTicket, parseTickets } from './tickets.ts';

/** Output of `LC_ALL=C TZ=UTC klist` (MIT Kerberos 1.20) after a request to a service in another realm. */
const LISTED = `Ticket cache: FILE:/tmp/krb5cc_1000
Default principal: alice@EXAMPLE.TEST

Valid starting     Expires            Service principal
11/24/26 04:05:15  11/25/26 04:05:15  krbtgt/EXAMPLE.TEST@EXAMPLE.TEST
\trenew until 12/01/26 04:05:15
11/24/26 04:06:51  11/25/26 02:00:00  HTTP/localhost@EXAMPLE.TEST
11/24/26 04:06:51  11/26/26 02:00:00  krbtgt/OTHER.TEST@EXAMPLE.TEST
`;

test("a login expires with the ticket-granting ticket of the user's realm", () => {
  expect(parseTickets(LISTED)).toEqual({
    cache: 'FILE:/tmp/krb5cc_1000',
    principal: 'alice@EXAMPLE.TEST',
    expiresAt: Date.UTC(2026, 10, 25, 4, 5, 15),
  });
});

test.each([
  [
    'a cache with other tickets only',
    LISTED.replace(/^.*krbtgt\/EXAMPLE.*$/m, ''),
    /has no ticket-granting ticket for alice@EXAMPLE\.TEST/,
  ],
  ['text of another program', 'Credentials cache: API:1', /has no ticket-granting ticket/],
])('%s is not a login', (_, text, message) => {
  expect(() => parseTickets(text)).toThrow(
    expect.objectContaining({ code: 'KERBEROS_TICKET_NOT_FOUND', message: expect.stringMatching(message) }),
  );
});

test('a keytab requires the name of a principal', async () => {
  await expect(findTicket({ TONY_KEYTAB: '/etc/a.keytab' })).rejects.toMatchObject({ code: 'KERBEROS_TICKET_NOT_FOUND' });
});

test('_HOST in the principal of a keytab is replaced with the name of this machine', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'tony-ts-tickets-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  // The fake kinit records its arguments and fails.
  await writeFile(join(folder, 'kinit'), `#!/bin/sh\necho "$*" > ${folder}/arguments\nexit 1\n`);
  await writeFile(join(folder, 'klist'), '#!/bin/sh\nexit 1\n');
  await Promise.all(['kinit', 'klist'].map((name) => chmod(join(folder, name), 0o755)));
  const environment = { PATH: `${folder}:/bin`, XDG_CACHE_HOME: folder, TONY_KEYTAB: '/a.keytab', TONY_PRINCIPAL: 'trainer/_HOST@X.TEST' };
  await expect(findTicket(environment)).rejects.toMatchObject({ message: expect.stringMatching(/trainer\/[a-z0-9.-]+@X\.TEST with/) });
  expect(await readFile(join(folder, 'arguments'), 'utf8')).toMatch(/^-k -t \/a\.keytab -c FILE:\S+ trainer\/[a-z0-9.-]+@X\.TEST\n$/);
});

test('on a machine without Kerberos, the error names the missing program', async () => {
  await expect(findTicket({ PATH: '/nowhere' })).rejects.toMatchObject({
    code: 'KERBEROS_TOOL_NOT_FOUND',
    message: 'The program klist was not found on this machine.',
  });
});
