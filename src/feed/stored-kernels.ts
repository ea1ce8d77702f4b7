import { randomUUID } from 'node:crypto';
import type { KernelBench, KernelHistory, KernelVersion } from '../lab/types.ts';
import type { KernelRegistration, KernelRegistrationReport } from '../lab/types.ts';
import type { Store } from '../store/index.ts';

/** Versions of a name that are kept: a watched file is registered each time it is saved. */
const maxVersions = 200;
/** Kernels that are restored at most; the registry holds as many. */
const maxKernels = 1000;
/** Newest benches that are searched for a kernel. */
const maxBenches = 2000;

/** Registrations of lab kernels in the host's database. */
export class StoredKernels implements KernelHistory {
  readonly #store: Pick<Store, 'endpointId' | 'transaction' | 'read'>;

  constructor(store: Pick<Store, 'endpointId' | 'transaction' | 'read'>) {
    this.#store = store;
  }

  async add({ at, registration, report, environment }: KernelVersion): Promise<void> {
    await this.#insert({
      at,
      name: registration.name,
      digest: report.digest,
      environment,
      registration: JSON.stringify(registration),
      report: JSON.stringify(report),
      accepted: report.accepted ? 1 : 0,
      deleted: 0,
    });
  }

  async delete(name: string): Promise<void> {
    const at = new Date().toISOString();
    const none = { digest: '', environment: '', registration: '', report: '', accepted: 0 } as const;
    await this.#insert({ at, name, ...none, deleted: 1 });
  }

  async newest(): Promise<readonly KernelVersion[]> {
    const rows = await this.#store.read(async (db) =>
      db
        .selectFrom('lab_kernels as one')
        .selectAll()
        .where('endpoint_id', '=', this.#store.endpointId)
        .where((where) =>
          where.not(
            where.exists(
              where
                .selectFrom('lab_kernels as later')
                .select('later.id')
                .whereRef('later.endpoint_id', '=', 'one.endpoint_id')
                .whereRef('later.name', '=', 'one.name')
                .whereRef('later.at', '>', 'one.at'),
            ),
          ),
        )
        .where('deleted', '=', 0)
        .orderBy('at', 'desc')
        .limit(maxKernels)
        .execute(),
    );
    return rows.map(versionOf).toReversed();
  }

  async versions(name: string): Promise<readonly KernelVersion[]> {
    const rows = await this.#store.read(async (db) =>
      db
        .selectFrom('lab_kernels')
        .selectAll()
        .where('endpoint_id', '=', this.#store.endpointId)
        .where('name', '=', name)
        .where('deleted', '=', 0)
        .orderBy('at', 'desc')
        .limit(maxVersions)
        .execute(),
    );
    return rows.map(versionOf);
  }

  async benches(name: string): Promise<readonly KernelBench[]> {
    const rows = await this.#store.read(async (db) =>
      db
        .selectFrom('bench')
        .select(['at', 'kernels', 'verdict', 'rounds', 'ratio_low', 'ratio_high'])
        .where('endpoint_id', '=', this.#store.endpointId)
        .orderBy('at', 'desc')
        .limit(maxBenches)
        .execute(),
    );
    return rows.flatMap(({ kernels, ...row }) => {
      // Names are followed by the overrides that the tuning sweep chose.
      const names = kernels.split(',').map((one) => one.split(' ')[0] ?? '');
      return names.includes(name) ? [{ ...row, kernels: names }] : [];
    });
  }

  async #insert(row: {
    at: string;
    name: string;
    digest: string;
    environment: string;
    registration: string;
    report: string;
    accepted: 0 | 1;
    deleted: 0 | 1;
  }): Promise<void> {
    const keys = { id: randomUUID(), endpoint_id: this.#store.endpointId };
    await this.#store.transaction(async (tx) => {
      await tx
        .insertInto('lab_kernels')
        .values({ ...keys, ...row })
        .execute();
      const ofName = { endpoint_id: keys.endpoint_id, name: row.name };
      const kept = tx
        .selectFrom('lab_kernels')
        .select('id')
        .where((where) => where.and(ofName))
        .orderBy('at', 'desc')
        .limit(maxVersions);
      await tx
        .deleteFrom('lab_kernels')
        .where((where) => where.and(ofName))
        .where('id', 'not in', kept)
        .execute();
    });
  }
}

const versionOf = (row: {
  at: string;
  environment: string;
  registration: string;
  report: string;
}): KernelVersion => ({
  at: row.at,
  environment: row.environment,
  registration: JSON.parse(row.registration) as KernelRegistration,
  report: JSON.parse(row.report) as KernelRegistrationReport,
});
