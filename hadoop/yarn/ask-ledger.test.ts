import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  type Ask,
  type AskAnswer,
  type AskLedger,
  type AskRequest,
  ask,
  askKey,
  avoid,
  cancel,
  EMPTY_LEDGER,
  forgetReleases,
  hasOpenAsks,
  release,
  requestAnswered,
  requestFailed,
  reregistered,
  takeAsk,
  takeRequest,
} from './ask-ledger.ts';

const worker = (count: number): Ask => ({
  priority: 1,
  allocationRequestId: 1,
  resources: { 'memory-mb': 1024, vcores: 1, 'yarn.io/gpu': 1 },
  count,
  nodeLabel: null,
});
const evaluator = (count: number): Ask => ({
  ...worker(count),
  priority: 2,
  allocationRequestId: 2,
  resources: { 'memory-mb': 512, vcores: 1 },
});
const nothing = { asks: [], releases: [], avoid: [], readmit: [] };

describe('requests', () => {
  test('a request contains each change once', () => {
    let ledger = release(avoid(ask(EMPTY_LEDGER, worker(2)), new Set(['bad'])), 'c1');
    const first = takeRequest(ledger);
    expect(first.request).toEqual({ responseId: 0, asks: [worker(2)], releases: ['c1'], avoid: ['bad'], readmit: [] });
    ledger = requestAnswered(first.ledger, first.request, { responseId: 1, allocated: [], completed: [] });
    expect(takeRequest(ledger).request).toEqual({ responseId: 1, ...nothing });
    expect(takeRequest(ask(ledger, worker(2))).request.asks).toEqual([]);
    expect(takeRequest(ask(ledger, worker(3))).request.asks).toEqual([worker(3)]);
    expect(takeRequest(avoid(ledger, new Set(['worse']))).request).toMatchObject({ avoid: ['worse'], readmit: ['bad'] });
  });

  test('a request repeats the changes of a failed call, unless newer changes replace them', () => {
    const { ledger, request } = takeRequest(release(avoid(ask(ask(EMPTY_LEDGER, worker(2)), evaluator(1)), new Set(['bad'])), 'c1'));
    const failed = requestFailed(ask(ledger, worker(5)), request);
    expect(takeRequest(failed).request).toEqual({
      responseId: 0,
      asks: [worker(5), evaluator(1)],
      releases: ['c1'],
      avoid: ['bad'],
      readmit: [],
    });
  });

  test('a request never contains a negative count', () => {
    for (const count of [-1, -0, Number.NaN, Number.NEGATIVE_INFINITY]) {
      expect(takeRequest(ask(EMPTY_LEDGER, worker(count))).request.asks).toEqual([]);
      expect(takeRequest(ask(ask(EMPTY_LEDGER, worker(3)), worker(count))).request.asks[0]?.count).toBe(0);
    }
  });

  test('a request can contain a single ask', () => {
    const ledger = release(ask(ask(EMPTY_LEDGER, worker(2)), evaluator(1)), 'c1');
    const alone = takeAsk(ledger, askKey(evaluator(1)));
    expect(alone?.request).toEqual({ responseId: 0, ...nothing, asks: [evaluator(1)] });
    expect(takeRequest(alone?.ledger ?? EMPTY_LEDGER).request).toMatchObject({ asks: [worker(2)], releases: ['c1'] });
    expect(takeAsk(alone?.ledger ?? EMPTY_LEDGER, askKey(evaluator(1)))).toBeNull();
  });
});

describe('allocations', () => {
  const answered = (() => {
    const taken = takeRequest(ask(EMPTY_LEDGER, worker(3)));
    return requestAnswered(taken.ledger, taken.request, { responseId: 1, allocated: [], completed: [] });
  })();

  test('an allocation decrements the open count without another request', () => {
    const { ledger, request } = takeRequest(answered);
    const after = requestAnswered(ledger, request, { responseId: 2, allocated: [worker(0), worker(0)], completed: [] });
    expect(after.asks.get(askKey(worker(0)))?.count).toBe(1);
    expect(takeRequest(after).request.asks).toEqual([]);
    const last = requestAnswered(after, { ...request, responseId: 2 }, { responseId: 3, allocated: [worker(0), worker(0)], completed: [] });
    expect(last.asks.size).toBe(0);
    expect(hasOpenAsks(last)).toBe(false);
  });

  test('if a container is allocated while a new ask is in flight, the next request contains the corrected count', () => {
    const { ledger, request } = takeRequest(ask(answered, worker(4)));
    const after = requestAnswered(ledger, request, { responseId: 2, allocated: [worker(0)], completed: [] });
    expect(takeRequest(after).request.asks).toEqual([worker(3)]);
  });

  test('an allocation without an ask changes nothing', () => {
    const { ledger, request } = takeRequest(answered);
    const after = requestAnswered(ledger, request, { responseId: 2, allocated: [{ priority: 9, allocationRequestId: -1 }], completed: [] });
    expect(after.asks).toEqual(answered.asks);
  });
});

test('a refused ask is cancelled with a request that contains nothing to refuse, and then dropped', () => {
  const open = worker(2);
  const { ledger, request } = takeRequest(ask(EMPTY_LEDGER, open));
  const cancelled = cancel(requestFailed(ledger, request), request.asks[0] as Ask);
  const next = takeRequest(cancelled);
  expect(next.request.asks).toEqual([{ ...open, count: 0, resources: {}, nodeLabel: null }]);
  const gone = cancel(requestFailed(next.ledger, next.request), next.request.asks[0] as Ask);
  expect(takeRequest(gone).request).toEqual({ responseId: 0, ...nothing });
  const newer = ask(requestFailed(ledger, request), worker(1));
  expect(cancel(newer, request.asks[0] as Ask)).toBe(newer);
});

test('a new registration asks only for the missing containers, and repeats unconfirmed releases', () => {
  const first = takeRequest(release(avoid(ask(ask(EMPTY_LEDGER, worker(3)), evaluator(1)), new Set(['bad'])), 'c1'));
  let ledger = requestAnswered(first.ledger, first.request, { responseId: 1, allocated: [], completed: [] });
  ledger = requestAnswered(ledger, { responseId: 1, ...nothing }, { responseId: 2, allocated: [worker(0), evaluator(0)], completed: [] });
  const again = takeRequest(reregistered(ledger));
  expect(again.request).toEqual({ responseId: 0, asks: [worker(2)], releases: ['c1'], avoid: ['bad'], readmit: [] });
  const confirmed = requestAnswered(again.ledger, again.request, { responseId: 1, allocated: [], completed: ['c1'] });
  expect(takeRequest(reregistered(confirmed)).request.releases).toEqual([]);
  expect(takeRequest(forgetReleases(reregistered(ledger), ['c1'])).request.releases).toEqual([]);
});

class Books {
  outstanding = new Map<string, number>();
  avoided = new Set<string>();
  /** Containers that are allocated but not yet reported to the ApplicationMaster. */
  ready: { id: string; key: string }[] = [];
  running = new Set<string>();
  ended: string[] = [];
  last: { id: number; answer: AskAnswer } | null = null;
  #containers = 0;

  schedule(key: string): void {
    const open = this.outstanding.get(key) ?? 0;
    if (open === 0) {
      return;
    }
    this.outstanding.set(key, open - 1);
    this.ready.push({ id: `c${this.#containers++}`, key });
  }

  allocate(request: AskRequest): AskAnswer & { ids: string[] } {
    if (this.last !== null && request.responseId === this.last.id - 1) {
      return this.last.answer as AskAnswer & { ids: string[] };
    }
    expect(request.responseId).toBe(this.last?.id ?? 0);
    for (const item of request.asks) {
      expect(item.count).toBeGreaterThanOrEqual(0);
      this.outstanding.set(askKey(item), item.count);
    }
    for (const host of request.avoid) {
      this.avoided.add(host);
    }
    for (const host of request.readmit) {
      this.avoided.delete(host);
    }
    for (const id of request.releases) {
      if (this.running.delete(id)) {
        this.ended.push(id);
      }
    }
    const ready = this.ready.splice(0);
    for (const { id } of ready) {
      this.running.add(id);
    }
    const answer = {
      responseId: request.responseId + 1,
      allocated: ready.map(({ key }) => {
        const [priority = 0, allocationRequestId = 0] = key.split('/').map(Number);
        return { priority, allocationRequestId };
      }),
      completed: this.ended.splice(0),
      ids: ready.map(({ id }) => id),
    };
    this.last = { id: answer.responseId, answer };
    return answer;
  }

  restart(): void {
    this.outstanding.clear();
    this.avoided.clear();
    this.ready = [];
    this.last = null;
  }
}

type Step =
  | { readonly do: 'ask'; readonly role: 1 | 2; readonly count: number }
  | { readonly do: 'avoid'; readonly hosts: readonly string[] }
  | { readonly do: 'release' }
  | { readonly do: 'schedule'; readonly role: 1 | 2 }
  | { readonly do: 'beat'; readonly fate: 'fine' | 'refused' | 'answer lost' | 'request lost'; readonly meanwhile: Step | null }
  | { readonly do: 'restart' };

const role = fc.constantFrom<1 | 2>(1, 2);
const plain: fc.Arbitrary<Step> = fc.oneof(
  fc.record({ do: fc.constant('ask' as const), role, count: fc.integer({ min: -1, max: 5 }) }),
  fc.record({ do: fc.constant('avoid' as const), hosts: fc.subarray(['h1', 'h2', 'h3']) }),
  fc.record({ do: fc.constant('release' as const) }),
  fc.record({ do: fc.constant('schedule' as const), role }),
);
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 4, arbitrary: plain },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant('beat' as const),
      fate: fc.constantFrom('fine' as const, 'fine' as const, 'refused' as const, 'answer lost' as const, 'request lost' as const),
      meanwhile: fc.option(plain, { nil: null }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('restart' as const) }) },
);

test('the client and the ResourceManager agree on the asks after any sequence of events', () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const books = new Books();
      const held = new Set<string>();
      const given = new Set<string>();
      let ledger: AskLedger = EMPTY_LEDGER;
      let known = true;

      const answered = (request: AskRequest, answer: AskAnswer & { ids: string[] }) => {
        for (const id of answer.ids) {
          held.add(id);
        }
        for (const id of answer.completed) {
          held.delete(id);
        }
        ledger = requestAnswered(ledger, request, answer);
      };
      const beat = (fate: (Step & { do: 'beat' })['fate'], meanwhile: Step | null) => {
        const taken = takeRequest(ledger);
        ledger = taken.ledger;
        if (meanwhile !== null) {
          run(meanwhile);
        }
        if (!known) {
          // With ApplicationMasterNotRegistered, the ResourceManager has applied nothing. The client registers again and sends all open
          // asks again.
          ledger = reregistered(requestFailed(ledger, taken.request));
          known = true;
          return;
        }
        if (fate === 'refused') {
          ledger = requestFailed(ledger, taken.request);
          return;
        }
        if (fate === 'answer lost') {
          books.allocate(taken.request);
        }
        answered(taken.request, books.allocate(taken.request));
      };
      const run = (item: Step) => {
        switch (item.do) {
          case 'ask':
            ledger = ask(ledger, item.role === 1 ? worker(item.count) : evaluator(item.count));
            break;
          case 'avoid':
            ledger = avoid(ledger, new Set(item.hosts));
            break;
          case 'release': {
            const [id] = [...held].filter((candidate) => !given.has(candidate));
            if (id !== undefined) {
              given.add(id);
              ledger = release(ledger, id);
            }
            break;
          }
          case 'schedule':
            books.schedule(`${item.role}/${item.role}`);
            break;
          case 'beat':
            beat(item.fate, item.meanwhile);
            break;
          case 'restart':
            books.restart();
            known = false;
            break;
        }
      };
      for (const item of steps) {
        run(item);
      }
      for (let quiet = 0; quiet < 4; quiet++) {
        beat('fine', null);
      }

      for (const key of ['1/1', '2/2']) {
        expect(books.outstanding.get(key) ?? 0).toBe(ledger.asks.get(key)?.count ?? 0);
      }
      expect(books.avoided).toEqual(ledger.avoided);
      expect([...books.running].filter((id) => given.has(id))).toEqual([]);
      expect(ledger.released.size).toBe(0);
      expect(ledger.unsent.size + ledger.unsentReleases.size).toBe(0);
      expect(books.running).toEqual(held);
    }),
    { numRuns: 3000 },
  );
});
