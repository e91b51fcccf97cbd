import { expect, it } from 'vitest';
import { Rendezvous, type RendezvousCall } from './rendezvous.ts';

const call = (generation = 1, signal = new AbortController().signal): RendezvousCall => ({ generation, signal });
const entry = (key: string, value: string) => ({ key, value: Buffer.from(value).toString('base64') });

it('holds values until they are removed', async () => {
  const store = new Rendezvous();
  store.put(call(), entry('global/0', 'first'));
  store.put(call(), entry('global/0', 'second'));
  expect((await store.get(call(), { key: 'global/0' }))?.toString()).toBe('second');
  expect(await store.get(call(), { key: 'global/1' })).toBeNull();
  store.remove(call(), { key: 'global/0' });
  store.remove(call(), { key: 'global/0' });
  expect(await store.get(call(), { key: 'global/0' })).toBeNull();
});

it('lets several requests wait for one key', async () => {
  const store = new Rendezvous();
  const gone = new AbortController();
  const waiting = [call(), call(), call(1, gone.signal)].map((each) => store.get(each, { key: 'global/1', wait: true }));
  gone.abort();
  expect(await waiting[2]).toBeNull();
  store.put(call(), entry('global/1', 'here'));
  expect((await Promise.all(waiting.slice(0, 2))).map(String)).toEqual(['here', 'here']);
});

it('begins each generation empty, and rejects requests and waits of earlier ones', async () => {
  const store = new Rendezvous();
  store.put(call(1), entry('global/0', 'old'));
  const waiting = store.get(call(1), { key: 'global/1', wait: true });
  expect(await store.get(call(2), { key: 'global/0' })).toBeNull();
  await expect(waiting).rejects.toMatchObject({ code: 'SERVICE_LOST' });
  expect(() => store.put(call(1), entry('global/0', 'old'))).toThrow(expect.objectContaining({ code: 'SERVICE_LOST' }));
});

it('limits its size, and counts replaced and removed values', () => {
  const store = new Rendezvous(1_000);
  const put = (key: string, length: number) => store.put(call(), entry(key, 'x'.repeat(length)));
  put('a', 700);
  put('a', 500);
  expect(() => put('b', 200)).toThrow(expect.objectContaining({ code: 'RENDEZVOUS_FULL' }));
  store.remove(call(), { key: 'a' });
  put('b', 700);
});

it.each([[null], [{}], [{ key: '' }], [{ key: 1 }], [{ key: 'x'.repeat(1_000) }]])('rejects the request %j', async (body) => {
  await expect(new Rendezvous().get(call(), body)).rejects.toMatchObject({ code: 'DATA_INVALID' });
});

it('answers the requests of the relay, and no others', async () => {
  const store = new Rendezvous();
  const serve = async (service: string, body: unknown) => await store.serve({ ...call(), service, body });
  expect(await serve('rendezvous.put', entry('global/0', 'here'))).toEqual({ answer: 'stored' });
  expect(await serve('rendezvous.get', { key: 'global/0' })).toEqual({ answer: 'found', body: Buffer.from('here') });
  expect(await serve('rendezvous.remove', { key: 'global/0' })).toEqual({ answer: 'removed' });
  expect(await serve('rendezvous.get', { key: 'global/0' })).toEqual({ answer: 'missing' });
  expect(await serve('splits.next', {})).toBeNull();
});
