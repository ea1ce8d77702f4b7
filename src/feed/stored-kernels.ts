import { randomUUID } from 'node:crypto';
import type {
  BenchRecord,
  BenchSummary,
  Fingerprint,
  KernelBench,
  KernelHistory,
  KernelRegistration,
  KernelRegistrationReport,
  KernelVersion,
} from '../lab/types.ts';
import type { Store } from '../store/index.ts';

/** Versions of a name that are kept: a watched file is registered each time it is saved. */
const maxVersions = 200;
/** Kernels that are restored at most; the registry holds as many. */
const maxKernels = 1000;
/** Finished benches whose raw times are kept. */
const maxRecords = 200;
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

  async version(name: string, at: string): Promise<KernelVersion | undefined> {
    const row = await this.#store.read(async (db) =>
      db
        .selectFrom('lab_kernels')
        .selectAll()
        .where('endpoint_id', '=', this.#store.endpointId)
        .where('name', '=', name)
        .where('at', '=', at)
        .where('deleted', '=', 0)
        .executeTakeFirst(),
    );
    return row && versionOf(row);
  }

  async nameOf(digest: string): Promise<string | undefined> {
    const row = await this.#store.read(async (db) =>
      db
        .selectFrom('lab_kernels')
        .select('name')
        .where('endpoint_id', '=', this.#store.endpointId)
        .where('digest', '=', digest)
        .orderBy('at', 'desc')
        .limit(1)
        .executeTakeFirst(),
    );
    return row?.name;
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

  async addBench(record: BenchRecord, summary: BenchSummary): Promise<void> {
    const endpointId = this.#store.endpointId;
    await this.#store.transaction(async (tx) => {
      await tx
        .insertInto('lab_benches')
        .values({
          id: record.id,
          endpoint_id: endpointId,
          at: record.at,
          summary: JSON.stringify(summary),
          record: JSON.stringify(record),
        })
        .execute();
      const kept = tx
        .selectFrom('lab_benches')
        .select('id')
        .where('endpoint_id', '=', endpointId)
        .orderBy('at', 'desc')
        .limit(maxRecords);
      await tx
        .deleteFrom('lab_benches')
        .where('endpoint_id', '=', endpointId)
        .where('id', 'not in', kept)
        .execute();
    });
  }

  async benchSummaries(): Promise<readonly BenchSummary[]> {
    const endpointId = this.#store.endpointId;
    return await this.#store.read(async (db) => {
      const rows = await db
        .selectFrom('lab_benches')
        .select(['at', 'summary'])
        .where('endpoint_id', '=', endpointId)
        .orderBy('at', 'desc')
        .execute();
      // Benches that have no record: those of earlier versions, and those whose record was replaced by newer ones.
      const others = await db
        .selectFrom('bench')
        .selectAll()
        .where('endpoint_id', '=', endpointId)
        .where('rounds', '>', 1)
        .$if(rows.length > 0, (query) => query.where('at', '<', rows.at(-1)?.at ?? ''))
        .orderBy('at', 'desc')
        .limit(maxRecords)
        .execute();
      return [
        ...rows.map(({ summary }) => JSON.parse(summary) as BenchSummary),
        ...others.map((row) => observedSummary(row)),
      ];
    });
  }

  async benchRecord(id: string): Promise<BenchRecord | undefined> {
    const row = await this.#store.read(async (db) =>
      db
        .selectFrom('lab_benches')
        .select('record')
        .where('endpoint_id', '=', this.#store.endpointId)
        .where('id', '=', id)
        .executeTakeFirst(),
    );
    return row && (JSON.parse(row.record) as BenchRecord);
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

/** The row of a bench without a record: what the surface `bench` has. */
function observedSummary(row: {
  readonly id: string;
  readonly at: string;
  readonly model: string;
  readonly fingerprint: string;
  readonly verdict: string;
  readonly rounds: number;
  readonly ratio_low: number | null;
  readonly ratio_high: number | null;
  readonly baseline_decode_tps: number | null;
  readonly bound_decode_tps: number | null;
  readonly baseline_prefill_tps: number | null;
  readonly bound_prefill_tps: number | null;
}): BenchSummary {
  const { id, at, model, verdict, rounds, ratio_low: low, ratio_high: high } = row;
  const { adapter = '', kernels = {} } = JSON.parse(row.fingerprint) as Partial<Fingerprint>;
  // Names are followed by the overrides that the tuning sweep chose.
  const digests = new Map(
    Object.entries(kernels).map(([name, digest]) => [name.split(' ')[0] ?? '', digest]),
  );
  return {
    id,
    at,
    model,
    adapter,
    kernels: [...digests].map(([name, digest]) => ({ name, digest })),
    verdict,
    rounds,
    // The ratio itself was not stored.
    decode: low === null || high === null ? null : { ratio: Math.sqrt(low * high), ci95: { low, high } },
    baseline_decode_tps: row.baseline_decode_tps,
    bound_decode_tps: row.bound_decode_tps,
    baseline_prefill_tps: row.baseline_prefill_tps,
    bound_prefill_tps: row.bound_prefill_tps,
    is_complete: false,
  };
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
