import type { HistoryEntry } from '../../conf/status/status.ts';
import type { EventPage } from '../../web/job-view.ts';

/** How many of each attempt's first entries and newest entries to keep. The first entries show how the job started. */
const FIRST_ENTRIES = 5_000;
const NEWEST_ENTRIES = 15_000;
const ENTRIES_A_PAGE = 5_000;
/** Each attempt's entry numbers begin at a multiple of this value, so that entries from earlier attempts can be loaded later. */
const NUMBERS_PER_ATTEMPT = 1_000_000_000;

export class EventLog {
  readonly #base: number;
  readonly #first: HistoryEntry[] = [];
  #newest: HistoryEntry[] = [];
  #count = 0;
  #earlier: readonly { readonly number: number; readonly entry: HistoryEntry }[] = [];

  constructor(attempt: number) {
    this.#base = (attempt - 1) * NUMBERS_PER_ATTEMPT;
  }

  record(entry: HistoryEntry): void {
    this.#count++;
    if (this.#first.length < FIRST_ENTRIES) {
      this.#first.push(entry);
      return;
    }
    this.#newest.push(entry);
    // Truncate rarely, because each truncation copies all remaining entries.
    if (this.#newest.length >= NEWEST_ENTRIES * 1.25) {
      this.#newest = this.#newest.slice(-NEWEST_ENTRIES);
    }
  }

  prepend(attempts: readonly { readonly attempt: number; readonly entries: readonly HistoryEntry[] }[]): void {
    this.#earlier = attempts.flatMap(({ attempt, entries }) =>
      entries.slice(0, FIRST_ENTRIES + NEWEST_ENTRIES).map((entry, at) => ({ number: (attempt - 1) * NUMBERS_PER_ATTEMPT + at, entry })),
    );
  }

  /** Returns the entries whose number is at least `after`, in order. */
  page(after: number): EventPage {
    const numbered = (entries: readonly HistoryEntry[], firstNumber: number) => {
      const skipped = Math.max(0, after - firstNumber);
      return entries.slice(skipped).map((entry, at) => ({ number: firstNumber + skipped + at, entry }));
    };
    const page = [
      ...this.#earlier.filter(({ number }) => number >= after),
      ...numbered(this.#first, this.#base),
      ...numbered(this.#newest, this.#base + this.#count - this.#newest.length),
    ].slice(0, ENTRIES_A_PAGE);
    return { entries: page.map(({ entry }) => entry), next: (page.at(-1)?.number ?? after - 1) + 1 };
  }

  last(holds: (entry: HistoryEntry) => boolean): HistoryEntry | undefined {
    return this.#newest.findLast(holds) ?? this.#first.findLast(holds) ?? this.#earlier.findLast(({ entry }) => holds(entry))?.entry;
  }
}
