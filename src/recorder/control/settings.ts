import { type RackId, racks } from '../../tracing/index.ts';
import type { RackSettings } from '../histories/protocol.ts';
import { mergePolicy } from '../policy.ts';
import type { RackChange } from '../services.ts';
import { defaultPolicy, type Policy } from '../types.ts';
import type { ControlDatabase, ControlDb } from './database.ts';
import type { Review } from './review.ts';

export interface StoredSettings extends RackSettings {
  readonly changedAt: string | null;
  readonly changedBy: string | null;
}

const defaultSettings: StoredSettings = {
  version: 0,
  armed: false,
  policy: defaultPolicy,
  changedAt: null,
  changedBy: null,
};

/** Current settings of a rack. */
export async function readSettings(db: ControlDb, rack: RackId): Promise<StoredSettings> {
  const row = await db.selectFrom('settings').selectAll().where('rack', '=', rack).executeTakeFirst();
  if (!row) return defaultSettings;
  return {
    version: row.version,
    armed: row.armed === 1,
    policy: JSON.parse(row.policy) as Policy,
    changedAt: row.changed_at,
    changedBy: row.changed_by,
  };
}

export async function readAllSettings(db: ControlDb): Promise<Map<RackId, StoredSettings>> {
  const known = new Map<RackId, StoredSettings>();
  for (const rack of racks) known.set(rack, await readSettings(db, rack));
  return known;
}

/** @throws RecorderError invalid */
export function changeSettings(
  control: ControlDatabase,
  review: Review,
  rack: RackId,
  change: RackChange,
  by: string,
): Promise<StoredSettings> {
  return control.transaction(async (tx) => {
    const before = await readSettings(tx, rack);
    const policy = mergePolicy(before.policy, change.policy);
    const armed = change.armed ?? before.armed;
    const hasPolicyChanged = JSON.stringify(policy) !== JSON.stringify(before.policy);
    if (!hasPolicyChanged && armed === before.armed) return before;
    const after: StoredSettings = {
      version: before.version + 1,
      armed,
      policy,
      changedAt: control.time(),
      changedBy: by,
    };
    const row = {
      version: after.version,
      armed: armed ? (1 as const) : (0 as const),
      policy: JSON.stringify(policy),
      changed_at: after.changedAt,
      changed_by: by,
    };
    await tx
      .insertInto('settings')
      .values({ rack, ...row })
      .onConflict((conflict) => conflict.column('rack').doUpdateSet(row))
      .execute();
    if (hasPolicyChanged)
      await review.insert(tx, { by, act: 'policy', rack, details: { before: before.policy, after: policy } });
    if (armed !== before.armed)
      await review.insert(tx, {
        by,
        act: armed ? 'arm' : 'disarm',
        rack,
        details: { before: { armed: before.armed }, after: { armed } },
      });
    return after;
  });
}
