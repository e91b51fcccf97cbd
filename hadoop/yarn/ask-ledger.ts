import type { Resources } from '../rpc/records.ts';

/*
 * The ledger contains the ApplicationMaster's asks, both sent and unsent. All functions are pure.
 *
 * The ledger relies on this behaviour of the ResourceManager:
 * - An ask is absolute: it replaces the outstanding count for its key (priority and allocation request ID).
 * - The ResourceManager decrements the count when it allocates a container. The ApplicationMaster receives the container later. An ask that
 *   arrives in between overwrites the decremented count. The ledger therefore sends an ask again if the response to its request contains
 *   containers for it.
 * - A rejected request has no effect.
 * - A request with the same response ID as the previous request has no effect: the ResourceManager returns the previous response. After a
 *   lost response, the client can therefore send the same request again.
 * - After a restart, the ResourceManager has the containers of this attempt, but not its asks, releases and avoided hosts.
 */

export interface Ask {
  /** The role's priority. YARN serves asks with lower numbers first. */
  readonly priority: number;
  readonly allocationRequestId: number;
  readonly resources: Resources;
  readonly count: number;
  /** Node label. Null selects the queue's default label, and '' selects nodes without a label. */
  readonly nodeLabel: string | null;
  /** The only host on which YARN may allocate the containers. If it is undefined, YARN may use any host. */
  readonly place?: NodePlace | undefined;
}

export interface NodePlace {
  readonly host: string;
  /** The host's network location, e.g. `/default-rack`. */
  readonly rack: string;
}

export interface AskLedger {
  readonly responseId: number;
  /** Asks, keyed by `askKey`. An ask with count 0 stays in the map until it has been sent. */
  readonly asks: ReadonlyMap<string, Ask>;
  readonly unsent: ReadonlySet<string>;
  /**
   * `released` contains released containers until YARN reports that they have completed. `unsentReleases` contains those whose release has
   * not been sent yet.
   */
  readonly released: ReadonlySet<string>;
  readonly unsentReleases: ReadonlySet<string>;
  /** `avoided` contains the hosts to avoid. `sentAvoided` contains the hosts that were last sent to the ResourceManager. */
  readonly avoided: ReadonlySet<string>;
  readonly sentAvoided: ReadonlySet<string>;
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
  readonly completed: readonly string[];
}

export const EMPTY_LEDGER: AskLedger = {
  responseId: 0,
  asks: new Map(),
  unsent: new Set(),
  released: new Set(),
  unsentReleases: new Set(),
  avoided: new Set(),
  sentAvoided: new Set(),
};

export function askKey(ask: { readonly priority: number; readonly allocationRequestId: number }): string {
  return `${ask.priority}/${ask.allocationRequestId}`;
}

/** Sets an ask. A negative count becomes 0, because it would corrupt the queue's accounting until the ResourceManager restarts. */
export function ask(ledger: AskLedger, wanted: Ask): AskLedger {
  const key = askKey(wanted);
  const sound = { ...wanted, count: Math.max(0, Math.trunc(wanted.count) || 0) };
  const known = ledger.asks.get(key);
  if (known === undefined ? sound.count === 0 : sameAsk(known, sound)) {
    return ledger;
  }
  return { ...ledger, asks: new Map(ledger.asks).set(key, sound), unsent: new Set(ledger.unsent).add(key) };
}

/**
 * Cancels an ask that the ResourceManager has rejected. An earlier ask with the same key may still be valid at the ResourceManager, so the
 * next request sets its count to 0. That request omits the resources and the node label, because they may have caused the rejection. If the
 * rejected ask itself has count 0, it is removed.
 */
export function cancel(ledger: AskLedger, refused: Ask): AskLedger {
  const key = askKey(refused);
  // The ledger already contains a newer ask with this key.
  if (ledger.asks.get(key) !== refused) {
    return ledger;
  }
  const asks = new Map(ledger.asks);
  const unsent = new Set(ledger.unsent);
  if (refused.count > 0) {
    asks.set(key, { ...refused, count: 0, resources: {}, nodeLabel: null });
    unsent.add(key);
  } else {
    asks.delete(key);
    unsent.delete(key);
  }
  return { ...ledger, asks, unsent };
}

export function release(ledger: AskLedger, containerId: string): AskLedger {
  if (ledger.released.has(containerId)) {
    return ledger;
  }
  return {
    ...ledger,
    released: new Set(ledger.released).add(containerId),
    unsentReleases: new Set(ledger.unsentReleases).add(containerId),
  };
}

/** Forgets releases, for example after the ResourceManager has rejected them. */
export function forgetReleases(ledger: AskLedger, containerIds: readonly string[]): AskLedger {
  return { ...ledger, released: lacking(ledger.released, containerIds), unsentReleases: lacking(ledger.unsentReleases, containerIds) };
}

export function avoid(ledger: AskLedger, hosts: ReadonlySet<string>): AskLedger {
  return { ...ledger, avoided: new Set(hosts) };
}

/** Returns true if the ledger contains an ask with a count above 0. The ask may or may not have been sent. */
export function hasOpenAsks(ledger: AskLedger): boolean {
  for (const { count } of ledger.asks.values()) {
    if (count > 0) {
      return true;
    }
  }
  return false;
}

/** Returns a request with everything that has not been sent yet. Only one request may be in flight at a time. */
export function takeRequest(ledger: AskLedger): { readonly ledger: AskLedger; readonly request: AskRequest } {
  const request = {
    responseId: ledger.responseId,
    asks: [...ledger.unsent].flatMap((key) => ledger.asks.get(key) ?? []),
    releases: [...ledger.unsentReleases],
    avoid: [...ledger.avoided].filter((host) => !ledger.sentAvoided.has(host)),
    readmit: [...ledger.sentAvoided].filter((host) => !ledger.avoided.has(host)),
  };
  return { ledger: { ...ledger, unsent: new Set(), unsentReleases: new Set(), sentAvoided: ledger.avoided }, request };
}

/** Like `takeRequest`, but for one ask. Returns null if this ask has nothing to send. */
export function takeAsk(ledger: AskLedger, key: string): { readonly ledger: AskLedger; readonly request: AskRequest } | null {
  const item = ledger.asks.get(key);
  if (item === undefined || !ledger.unsent.has(key)) {
    return null;
  }
  const request = { responseId: ledger.responseId, asks: [item], releases: [], avoid: [], readmit: [] };
  return { ledger: { ...ledger, unsent: lacking(ledger.unsent, [key]) }, request };
}

/** Marks the content of a failed request as unsent, unless newer values have replaced it. */
export function requestFailed(ledger: AskLedger, request: AskRequest): AskLedger {
  const avoided = new Set([...ledger.sentAvoided, ...request.readmit]);
  return {
    ...ledger,
    unsent: new Set([...request.asks.map(askKey).filter((key) => ledger.asks.has(key)), ...ledger.unsent]),
    unsentReleases: new Set([...request.releases.filter((id) => ledger.released.has(id)), ...ledger.unsentReleases]),
    sentAvoided: lacking(avoided, request.avoid),
  };
}

export function requestAnswered(ledger: AskLedger, request: AskRequest, answer: AskAnswer): AskLedger {
  const asks = new Map(ledger.asks);
  const unsent = new Set(ledger.unsent);
  const crossed = new Set(request.asks.map(askKey));
  for (const allocated of answer.allocated) {
    const key = askKey(allocated);
    const open = asks.get(key);
    if (open === undefined) {
      continue;
    }
    asks.set(key, { ...open, count: Math.max(0, open.count - 1) });
    if (crossed.has(key)) {
      unsent.add(key);
    }
  }
  for (const [key, { count }] of asks) {
    if (count === 0 && !unsent.has(key)) {
      asks.delete(key);
    }
  }
  return {
    ...ledger,
    responseId: answer.responseId,
    asks,
    unsent,
    released: lacking(ledger.released, answer.completed),
    unsentReleases: lacking(ledger.unsentReleases, answer.completed),
  };
}

/** Marks all open asks and releases as unsent. Used after registering again with a restarted ResourceManager. */
export function reregistered(ledger: AskLedger): AskLedger {
  const asks = new Map([...ledger.asks].filter(([, { count }]) => count > 0));
  return { ...ledger, responseId: 0, asks, unsent: new Set(asks.keys()), unsentReleases: ledger.released, sentAvoided: new Set() };
}

function sameAsk(one: Ask, other: Ask): boolean {
  const names = Object.keys(one.resources);
  return (
    one.count === other.count &&
    one.nodeLabel === other.nodeLabel &&
    one.place?.host === other.place?.host &&
    one.place?.rack === other.place?.rack &&
    names.length === Object.keys(other.resources).length &&
    names.every((name) => one.resources[name] === other.resources[name])
  );
}

function lacking(set: ReadonlySet<string>, gone: readonly string[]): ReadonlySet<string> {
  if (!gone.some((item) => set.has(item))) {
    return set;
  }
  const rest = new Set(set);
  for (const item of gone) {
    rest.delete(item);
  }
  return rest;
}
