import type { Store } from '../../store/index.ts';
import type { Act } from '../shapes/act.ts';

/** Reads the action journal. Acts are written in the transactions that they describe. */
export class ActJournal {
  readonly #store: Store;

  constructor(store: Store) {
    this.#store = store;
  }

  /** Acts in order: those after a `seq`, or the newest ones. */
  async list(limit: number, after?: number): Promise<Act[]> {
    const rows = await this.#store.read((db) => {
      const all = db.selectFrom('acts').selectAll().limit(limit);
      return after === undefined
        ? all.orderBy('seq', 'desc').execute()
        : all.where('seq', '>', after).orderBy('seq').execute();
    });
    if (after === undefined) rows.reverse();
    return rows.map(({ reason, note, details, ...act }) => ({
      ...act,
      ...(reason === null ? {} : { reason }),
      ...(note === null ? {} : { note }),
      ...(details === null ? {} : { details: JSON.parse(details) as unknown }),
    }));
  }
}
