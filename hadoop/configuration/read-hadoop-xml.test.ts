import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { readHadoopXml } from './configuration.ts';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tony-ts-xml-test-'));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

const site = (body: string): string => `<configuration xmlns:xi="http://www.w3.org/2001/XInclude">${body}</configuration>`;
const property = (name: string, value: string): string => `<property><name>${name}</name><value>${value}</value></property>`;

async function write(file: string, body: string): Promise<string> {
  const path = join(folder, file);
  await writeFile(path, site(body));
  return path;
}

test('the content of an included file replaces the element', async () => {
  await write('mountTable.xml', property('b', '2') + property('c', '3'));
  const nested = await write('nested.xml', '<xi:include href="mountTable.xml"/>');
  const file = await write('core-site.xml', `${property('a', '1')}<xi:include href="file://${nested}"/>${property('b', '4')}`);
  expect((await readHadoopXml(file))?.map(({ name, value }) => `${name}=${value}`)).toEqual(['a=1', 'b=2', 'c=3', 'b=4']);
  expect(await readHadoopXml(join(folder, 'none.xml'))).toBeNull();
});

test('a missing file is an error unless the element has a fallback', async () => {
  const optional = await write('a.xml', `<xi:include href="none.xml"><xi:fallback/></xi:include>${property('a', '1')}`);
  expect(await readHadoopXml(optional)).toHaveLength(1);
  const required = await write('b.xml', '<xi:include href="none.xml"/>');
  await expect(readHadoopXml(required)).rejects.toMatchObject({
    code: 'HADOOP_CONF_INVALID',
    message: expect.stringMatching(/b\.xml:1: includes .*none\.xml, which does not exist/),
  });
});

test.each([
  ['<xi:include href="http://example.com/mountTable.xml"/>', 'only local files'],
  ['<xi:include href="file://host/mountTable.xml"/>', 'only local files'],
  ['<xi:include href="self.xml"/>', 'more than 8 levels'],
  ['<xi:include/>', 'name a file with href'],
  ['<xi:include href="x" parse="text"/>', 'name a file with href'],
  ['<property><xi:include href="x"/></property>', 'must be a child of <configuration>'],
  [`<xi:include href="none.xml"><xi:fallback>${property('a', '1')}</xi:fallback></xi:include>`, 'not supported'],
])('%s is refused', async (body, message) => {
  await expect(readHadoopXml(await write('self.xml', body))).rejects.toMatchObject({
    code: 'HADOOP_CONF_INVALID',
    message: expect.stringContaining(message),
  });
});
