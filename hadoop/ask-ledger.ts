import type { Resources } from './records.ts';

/*
 * What has been asked of the ResourceManager, what it knows of that, and what it must still be told. Pure.
 *
 * The ResourceManager's side of it:
 * - An ask is absolute: it replaces the count that is outstanding under its key (priority and allocation request id).
 * - It counts down by itself when it allocates, before the container has been handed out. An ask that crosses such an allocation undoes its
 *   counting; so when an answer to a request with an ask brings containers of the same key, the count is told again.
 * - Nothing of a refused request is applied. A request with the response id of the one before is answered with the same answer again and
 *   applied once, so a request whose answer was lost is sent again as it was.
 * - After a restart it knows no asks, no releases and no avoided hosts of this attempt, but its containers.
 */

export interface Ask {
  /** One role, one priority; lower ones are served first. */
  readonly priority: number;
  readonly allocationRequestId: number;
  readonly resources: Resources;
  /** Containers still wanted. */
  readonly count: number;
  /** null for the queue's default; '' for nodes without a label. */
  readonly nodeLabel: string | null;
}

export interface AskLedger {
  /** Of the last answer. */
  readonly responseId: number;
  /** By key; an ask of 0 stays until it has been told. */
  readonly asks: ReadonlyMap<string, Ask>;
  /** Keys whose ask must still be told. */
  readonly untold: ReadonlySet<string>;
  /** Containers given back whose end was not reported yet; of them those that must still be told. */
  readonly released: ReadonlySet<string>;
  readonly untoldReleases: ReadonlySet<string>;
  /** Hosts to be avoided, as wanted and as told. */
  readonly avoided: ReadonlySet<string>;
  readonly toldAvoided: ReadonlySet<string>;
}

export interface AskRequest {
  readonly responseId: number;
  readonly asks: readonly Ask[];
  readonly releases: readonly string[];
  readonly avoid: readonly string[];
  readonly readmit: readonly string[];
}

export interface AskAnswer {
  readonly responseId: number;
  readonly allocated: readonly { readonly priority: number; readonly allocationRequestId: number }[];
  /** Ids of containers that have ended. */
  readonly completed: readonly string[];
}

export const EMPTY_LEDGER: AskLedger = {
  responseId: 0,
  asks: new Map(),
  untold: new Set(),
  released: new Set(),
  untoldReleases: new Set(),
  avoided: new Set(),
  toldAvoided: new Set(),
};

export function askKey(ask: { readonly priority: number; readonly allocationRequestId: number }): string {
  return `${ask.priority}/${ask.allocationRequestId}`;
}

/** Sets the count still wanted. A negative one would damage the queue's books for good, until the ResourceManager's restart: never sent. */
export function ask(ledger: AskLedger, wanted: Ask): AskLedger {
  const key = askKey(wanted);
  const sound = { ...wanted, count: Math.max(0, Math.trunc(wanted.count) || 0) };
  const known = ledger.asks.get(key);
  if (known === undefined ? sound.count === 0 : sameAsk(known, sound)) return ledger;
  return { ...ledger, asks: new Map(ledger.asks).set(key, sound), untold: new Set(ledger.untold).add(key) };
}

/**
 * Ends an ask that the ResourceManager refuses. Of an earlier one under the same key it may still hold a count: 0 is told in a form to which
 * nothing can be objected. If even that is refused, it is let go.
 */
export function cancel(ledger: AskLedger, refused: Ask): AskLedger {
  const key = askKey(refused);
  // Something else is wanted by now.
  if (ledger.asks.get(key) !== refused) return ledger;
  const asks = new Map(ledger.asks);
  const untold = new Set(ledger.untold);
  if (refused.count > 0) {
    asks.set(key, { ...refused, count: 0, resources: {}, nodeLabel: null });
    untold.add(key);
  } else {
    asks.delete(key);
    untold.delete(key);
  }
  return { ...ledger, asks, untold };
}

export function release(ledger: AskLedger, containerId: string): AskLedger {
  if (ledger.released.has(containerId)) return ledger;
  return {
    ...ledger,
    released: new Set(ledger.released).add(containerId),
    untoldReleases: new Set(ledger.untoldReleases).add(containerId),
  };
}

/** As if they had never been given back. */
export function forgetReleases(ledger: AskLedger, containerIds: readonly string[]): AskLedger {
  return { ...ledger, released: lacking(ledger.released, containerIds), untoldReleases: lacking(ledger.untoldReleases, containerIds) };
}

export function avoid(ledger: AskLedger, hosts: ReadonlySet<string>): AskLedger {
  return { ...ledger, avoided: new Set(hosts) };
}

/** Containers are wanted, told or not. */
export function hasOpenAsks(ledger: AskLedger): boolean {
  for (const { count } of ledger.asks.values()) if (count > 0) return true;
  return false;
}

/** Everything that must still be told, at once. Until it is answered or failed no other may be taken. */
export function takeRequest(ledger: AskLedger): { readonly ledger: AskLedger; readonly request: AskRequest } {
  const request = {
    responseId: ledger.responseId,
    asks: [...ledger.untold].flatMap((key) => ledger.asks.get(key) ?? []),
    releases: [...ledger.untoldReleases],
    avoid: [...ledger.avoided].filter((host) => !ledger.toldAvoided.has(host)),
    readmit: [...ledger.toldAvoided].filter((host) => !ledger.avoided.has(host)),
  };
  return { ledger: { ...ledger, untold: new Set(), untoldReleases: new Set(), toldAvoided: ledger.avoided }, request };
}

/** The ask of one key alone, when it must still be told. */
export function takeAsk(ledger: AskLedger, key: string): { readonly ledger: AskLedger; readonly request: AskRequest } | null {
  const item = ledger.asks.get(key);
  if (item === undefined || !ledger.untold.has(key)) return null;
  const request = { responseId: ledger.responseId, asks: [item], releases: [], avoid: [], readmit: [] };
  return { ledger: { ...ledger, untold: lacking(ledger.untold, [key]) }, request };
}

/** Puts back what a refused request carried; where something newer is wanted since, that is told instead. */
export function requestFailed(ledger: AskLedger, request: AskRequest): AskLedger {
  const told = new Set([...ledger.toldAvoided, ...request.readmit]);
  return {
    ...ledger,
    untold: new Set([...request.asks.map(askKey).filter((key) => ledger.asks.has(key)), ...ledger.untold]),
    untoldReleases: new Set([...request.releases.filter((id) => ledger.released.has(id)), ...ledger.untoldReleases]),
    toldAvoided: lacking(told, request.avoid),
  };
}

export function requestAnswered(ledger: AskLedger, request: AskRequest, answer: AskAnswer): AskLedger {
  const asks = new Map(ledger.asks);
  const untold = new Set(ledger.untold);
  const crossed = new Set(request.asks.map(askKey));
  for (const allocated of answer.allocated) {
    const key = askKey(allocated);
    const open = asks.get(key);
    if (open === undefined) continue;
    asks.set(key, { ...open, count: Math.max(0, open.count - 1) });
    if (crossed.has(key)) untold.add(key);
  }
  for (const [key, { count }] of asks) if (count === 0 && !untold.has(key)) asks.delete(key);
  return {
    ...ledger,
    responseId: answer.responseId,
    asks,
    untold,
    released: lacking(ledger.released, answer.completed),
    untoldReleases: lacking(ledger.untoldReleases, answer.completed),
  };
}

/** The ResourceManager has forgotten this attempt and registered it anew: only what is still missing is asked again. */
export function reregistered(ledger: AskLedger): AskLedger {
  const asks = new Map([...ledger.asks].filter(([, { count }]) => count > 0));
  return { ...ledger, responseId: 0, asks, untold: new Set(asks.keys()), untoldReleases: ledger.released, toldAvoided: new Set() };
}

function sameAsk(one: Ask, other: Ask): boolean {
  const names = Object.keys(one.resources);
  return (
    one.count === other.count &&
    one.nodeLabel === other.nodeLabel &&
    names.length === Object.keys(other.resources).length &&
    names.every((name) => one.resources[name] === other.resources[name])
  );
}

function lacking(set: ReadonlySet<string>, gone: readonly string[]): ReadonlySet<string> {
  if (!gone.some((item) => set.has(item))) return set;
  const rest = new Set(set);
  for (const item of gone) rest.delete(item);
  return rest;
}
