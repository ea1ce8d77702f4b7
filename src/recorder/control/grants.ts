import { randomBytes } from 'node:crypto';
import type { Selectable } from 'kysely';
import { generateSecret, verifySecret, hashSecret } from '../../signing/secret.ts';
import type { RackId } from '../../tracing/index.ts';
import { RecorderError, type RecorderViolation } from '../errors.ts';
import type { Grant, PeerIdentity, HistoryPosition, Verb, WriteToken } from '../types.ts';
import type { ControlDatabase, ControlDb, ControlTx } from './database.ts';
import type { Review } from './review.ts';
import type { ControlTables } from './tables.ts';

const verbsKnown: readonly Verb[] = ['read', 'write'];
/** Maximum lifetime of a grant or token: ten years. */
const maxLifetimeMs = 3650 * 86_400_000;
const maxLabelLength = 100;

/** Finds the peer that has a name now; undefined if there is none. */
export type FindPeer = (name: string) => Promise<PeerIdentity | undefined>;

/** Grants to read and write histories, and the write tokens created under them. */
export class Grants {
  readonly #control: ControlDatabase;
  readonly #review: Review;
  readonly #findPeer: FindPeer | undefined;

  /** @param findPeer without it peers are compared by name only */
  constructor(control: ControlDatabase, review: Review, findPeer: FindPeer | undefined) {
    this.#control = control;
    this.#review = review;
    this.#findPeer = findPeer;
  }

  async list(rack?: RackId): Promise<{ grants: Grant[]; tokens: WriteToken[] }> {
    return await this.#control.read(async (db) => {
      let grants = db.selectFrom('grants').selectAll().orderBy('n', 'desc');
      let tokens = db.selectFrom('tokens').selectAll().orderBy('n', 'desc');
      if (rack !== undefined) {
        grants = grants.where('rack', '=', rack);
        tokens = tokens.where('rack', '=', rack);
      }
      return {
        grants: (await grants.execute()).map(toGrant),
        tokens: (await tokens.execute()).map(toWriteToken),
      };
    });
  }

  /**
   * Creates a grant.
   * @param after the grant covers events after this position; undefined: all events
   * @throws RecorderError invalid
   */
  async create(
    {
      rack,
      verbs,
      expiresAt,
      to,
      after,
    }: {
      rack: RackId;
      verbs: readonly Verb[];
      expiresAt: Date;
      to: string;
      after: HistoryPosition | undefined;
    },
    by: string,
  ): Promise<Grant> {
    const peer = await this.#findPeerIdentity(to);
    const violations = [
      ...findVerbFaults(verbs),
      ...findExpiryFaults(expiresAt, this.#control.now()),
      ...(/^(?:bearer|operator|peer:[^\s:]{1,100})$/.test(to)
        ? []
        : [{ path: 'to', message: `is '${to.slice(0, 60)}'; expected 'bearer' or 'peer:NAME'` }]),
      ...(peer === 'unknown'
        ? [
            {
              path: 'to',
              message: `is '${to.slice(0, 60)}'; there is no peer of that name with a valid token. Create one with POST /host/v1/peers on the control socket`,
            },
          ]
        : []),
    ];
    if (violations.length > 0)
      throw new RecorderError('invalid', 'invalid_grant', 'The grant is not valid.', { violations });
    const row = {
      id: newId('g'),
      rack,
      verbs: JSON.stringify(verbsKnown.filter((verb) => verbs.includes(verb))),
      to: to === 'operator' ? 'bearer' : to,
      to_id: typeof peer === 'object' ? peer.id : null,
      after_generation: after?.generation ?? null,
      after_seq: after?.seq ?? null,
      granted_at: this.#control.time(),
      granted_by: by,
      expires_at: expiresAt.toISOString(),
      revoked_at: null,
    };
    return this.#control.transaction(async (tx) => {
      const grant = toGrant(
        await tx.insertInto('grants').values(row).returningAll().executeTakeFirstOrThrow(),
      );
      await this.#review.insert(tx, { by, act: 'grant', rack, details: { before: null, after: grant } });
      return grant;
    });
  }

  /** Revokes a grant; a revoked grant is returned unchanged. @throws RecorderError not_found */
  revoke(id: string, by: string): Promise<Grant> {
    return this.#control.transaction(async (tx) => {
      const row = await tx.selectFrom('grants').selectAll().where('id', '=', id).executeTakeFirst();
      if (!row) throw notFoundError('grant', id);
      return await this.#revoke(tx, row, by);
    });
  }

  /** Revokes all grants to a peer that was removed. */
  revokeTo(to: string, by: string): Promise<Grant[]> {
    return this.#control.transaction(async (tx) => {
      const rows = await tx
        .selectFrom('grants')
        .selectAll()
        .where('to', '=', to)
        .where('revoked_at', 'is', null)
        .orderBy('n')
        .execute();
      const revoked: Grant[] = [];
      for (const row of rows) revoked.push(await this.#revoke(tx, row, by));
      return revoked;
    });
  }

  async #revoke(tx: ControlTx, row: GrantRow, by: string): Promise<Grant> {
    const { id } = row;
    const before = toGrant(row);
    if (row.revoked_at !== null) return before;
    const revoked_at = this.#control.time();
    const after = { ...before, revoked_at };
    await tx.updateTable('grants').set({ revoked_at }).where('id', '=', id).execute();
    const revokedTokens = await tx
      .updateTable('tokens')
      .set({ revoked_at })
      .where('grant', '=', id)
      .where('revoked_at', 'is', null)
      .returning('id')
      .execute();
    const tokens = revokedTokens.map((token) => token.id);
    await this.#review.insert(tx, {
      by,
      act: 'grant_revoked',
      rack: row.rack,
      details: { before, after, tokens },
    });
    return after;
  }

  /**
   * Creates a write token under the active grant that expires last (of the grants to `to`, if given). The token expires
   * with the grant at the latest.
   * @throws RecorderError conflict, invalid
   */
  async mint(
    {
      rack,
      expiresAt,
      label,
      to,
    }: {
      rack: RackId;
      expiresAt?: Date | undefined;
      label?: string | undefined;
      to?: string | undefined;
    },
    by: string,
  ): Promise<WriteToken & { readonly token: string }> {
    const violations = [
      ...(expiresAt ? findExpiryFaults(expiresAt, this.#control.now()) : []),
      ...(label !== undefined && label.length > maxLabelLength
        ? [{ path: 'label', message: `has ${label.length} characters, expected at most ${maxLabelLength}` }]
        : []),
    ];
    if (violations.length > 0)
      throw new RecorderError('invalid', 'invalid_token', 'The token is not valid.', { violations });
    const token = generateSecret('write');
    const peers = await this.#findHolders(
      await this.#control.read((db) => findActiveGrants(db, this.#control.time(), rack)),
    );
    return this.#control.transaction(async (tx) => {
      const now = this.#control.time();
      const grant = (await findActiveGrants(tx, now, rack))
        .filter((row) => isGrantedToHolder(row, peers.get(row.to)) && (to === undefined || row.to === to))
        .map(toGrant)
        .filter(({ verbs }) => verbs.includes('write'))
        .sort((a, b) => (a.expires_at < b.expires_at ? 1 : -1))[0];
      if (!grant)
        throw new RecorderError(
          'conflict',
          'no_write_grant',
          `There is no active grant${to === undefined ? '' : ` to ${to}`} to write to the rack '${rack}'; create one first: recorder grant --rack ${rack} --verbs write --expires 30d${to === undefined ? '' : ` --to ${to}`}`,
        );
      const requestedExpiry = expiresAt?.toISOString() ?? grant.expires_at;
      const row = {
        id: newId('w'),
        rack,
        grant: grant.id,
        hash: hashSecret(token),
        label: label ?? null,
        minted_at: now,
        minted_by: by,
        expires_at: requestedExpiry < grant.expires_at ? requestedExpiry : grant.expires_at,
        revoked_at: null,
      };
      const made = toWriteToken(
        await tx.insertInto('tokens').values(row).returningAll().executeTakeFirstOrThrow(),
      );
      await this.#review.insert(tx, { by, act: 'token', rack, details: { before: null, after: made } });
      return { ...made, token };
    });
  }

  /** Revokes a token; a revoked token is returned unchanged. @throws RecorderError not_found */
  revokeToken(id: string, by: string): Promise<WriteToken> {
    return this.#control.transaction(async (tx) => {
      const row = await tx.selectFrom('tokens').selectAll().where('id', '=', id).executeTakeFirst();
      if (!row) throw notFoundError('token', id);
      const before = toWriteToken(row);
      if (row.revoked_at !== null) return before;
      const after = { ...before, revoked_at: this.#control.time() };
      await tx.updateTable('tokens').set({ revoked_at: after.revoked_at }).where('id', '=', id).execute();
      await this.#review.insert(tx, { by, act: 'token_revoked', rack: row.rack, details: { before, after } });
      return after;
    });
  }

  /** Racks that a caller can read now, each with the position after which it can be read; undefined: all of it. */
  async readable(by: string): Promise<Map<RackId, HistoryPosition | undefined>> {
    const rows = (await this.#control.read((db) => findActiveGrants(db, this.#control.time()))).filter(
      ({ verbs, to }) => (JSON.parse(verbs) as Verb[]).includes('read') && appliesTo(to, by),
    );
    const peers = await this.#findHolders(rows);
    return widestAccess(rows.filter((row) => isGrantedToHolder(row, peers.get(row.to))));
  }

  /** The peers that now have the names in grants. */
  async #findHolders(rows: readonly GrantRow[]): Promise<Map<string, PeerIdentity | 'unknown' | undefined>> {
    const names = [...new Set(rows.map(({ to }) => to))];
    return new Map(
      await Promise.all(names.map(async (to) => [to, await this.#findPeerIdentity(to)] as const)),
    );
  }

  /** Undefined: not a peer, or peers are compared by name only. */
  async #findPeerIdentity(to: string): Promise<PeerIdentity | 'unknown' | undefined> {
    if (!this.#findPeer || !to.startsWith('peer:')) return undefined;
    return (await this.#findPeer(to.slice('peer:'.length))) ?? 'unknown';
  }

  /** Authenticates a write token. @throws RecorderError unauthorized, forbidden */
  async authenticateToken(secret: string | null, by: string): Promise<{ id: string; rack: RackId }> {
    if (secret === null || secret === '')
      throw new RecorderError(
        'unauthorized',
        'write_token_missing',
        "This request needs a write token in the header 'x-svc-write-token'. Create one with `recorder token --rack RACK`.",
      );
    const row = await this.#control.read(async (db) => {
      // Anything else cannot be a write token; skip the database.
      if (!/^lathe_write_[\w-]{43}$/.test(secret)) return undefined;
      // The lookup by hash needs no constant time: an attacker cannot choose how long a prefix of the hash matches.
      const found = await db
        .selectFrom('tokens')
        .innerJoin('grants', 'grants.id', 'tokens.grant')
        .select([
          'tokens.id',
          'tokens.rack',
          'tokens.hash',
          'tokens.expires_at',
          'tokens.revoked_at',
          'grants.expires_at as grant_expires_at',
          'grants.revoked_at as grant_revoked_at',
          'grants.verbs',
          'grants.to',
          'grants.to_id',
          'grants.granted_at',
        ])
        .where('tokens.hash', '=', hashSecret(secret))
        .executeTakeFirst();
      return found && verifySecret(found.hash, secret) ? found : undefined;
    });
    const now = this.#control.time();
    const isValid =
      row &&
      row.revoked_at === null &&
      row.grant_revoked_at === null &&
      row.expires_at > now &&
      row.grant_expires_at > now &&
      (JSON.parse(row.verbs) as Verb[]).includes('write');
    if (!isValid)
      throw new RecorderError(
        'unauthorized',
        'write_token_invalid',
        "The write token in 'x-svc-write-token' is not valid: it is unknown, expired or revoked. Create a new one with `recorder token --rack RACK`.",
      );
    if (!appliesTo(row.to, by) || !isGrantedToHolder(row, await this.#findPeerIdentity(row.to)))
      throw new RecorderError(
        'forbidden',
        'write_token_of_another',
        `The write token belongs to a grant to '${row.to}', but this request comes from '${by}'.`,
      );
    return { id: row.id, rack: row.rack };
  }
}

type GrantRow = Selectable<ControlTables['grants']>;

/** Whether a grant is to the peer that has the name now, not to a former peer of the same name. */
function isGrantedToHolder(
  { to_id: id, granted_at: at }: Pick<GrantRow, 'to_id' | 'granted_at'>,
  holder: PeerIdentity | 'unknown' | undefined,
): boolean {
  if (holder === 'unknown') return false;
  // A grant without a stored identity is to a peer that existed at the time of the grant.
  return holder === undefined || (id === null ? at >= holder.minted_at : id === holder.id);
}

/** Position after which each rack can be read, by the grant that allows most. */
export function widestAccess(
  grants: readonly Pick<GrantRow, 'rack' | 'after_generation' | 'after_seq'>[],
): Map<RackId, HistoryPosition | undefined> {
  const places = new Map<RackId, HistoryPosition | undefined>();
  for (const { rack, after_generation: generation, after_seq: seq } of grants) {
    const position = generation === null || seq === null ? undefined : { generation, seq };
    const known = places.get(rack);
    const isWider = position === undefined || (known !== undefined && isEarlier(position, known));
    if (!places.has(rack) || isWider) places.set(rack, position);
  }
  return places;
}

const isEarlier = (one: HistoryPosition, other: HistoryPosition): boolean =>
  one.generation < other.generation || (one.generation === other.generation && one.seq < other.seq);

/**
 * `seq` of the last event in a history file that must not be read; 0: all events can be read. Files newer than the
 * position can be read.
 */
export const lastHiddenSeq = (generation: number, position: HistoryPosition | undefined): number =>
  position?.generation === generation ? position.seq : 0;

async function findActiveGrants(db: ControlDb, now: string, rack?: RackId): Promise<GrantRow[]> {
  const grants = db
    .selectFrom('grants')
    .selectAll()
    .where('revoked_at', 'is', null)
    .where('expires_at', '>', now);
  return await (rack === undefined ? grants : grants.where('rack', '=', rack)).execute();
}

/** Whether a grant applies to a caller. The operator also has the grants to `bearer`. */
export const appliesTo = (to: string, by: string): boolean =>
  to === 'bearer' ? by === 'bearer' || by === 'operator' : by === to;

function findVerbFaults(verbs: readonly Verb[]): RecorderViolation[] {
  if (verbs.length === 0) return [{ path: 'verbs', message: "is empty; expected 'read', 'write' or both" }];
  return verbs.flatMap((verb, index) =>
    verbsKnown.includes(verb)
      ? []
      : [
          {
            path: `verbs[${index}]`,
            message: `is '${verb.slice(0, 40)}'; expected 'read' or 'write'`,
          },
        ],
  );
}

function findExpiryFaults(expiresAt: Date, now: Date): RecorderViolation[] {
  const ms = expiresAt.getTime() - now.getTime();
  if (Number.isNaN(ms)) return [{ path: 'expires', message: 'is not a valid time' }];
  if (ms <= 0) return [{ path: 'expires', message: 'is in the past; expected a future time' }];
  return ms > maxLifetimeMs
    ? [{ path: 'expires', message: 'is more than ten years away; expected an earlier time' }]
    : [];
}

const newId = (prefix: string) => `${prefix}${randomBytes(8).toString('hex')}`;

const notFoundError = (what: 'grant' | 'token', id: string) =>
  new RecorderError(
    'not_found',
    `unknown_${what}`,
    `There is no ${what} '${id.slice(0, 80)}'; list them with \`recorder grants\`.`,
  );

const toGrant = (row: GrantRow): Grant => ({
  id: row.id,
  rack: row.rack,
  verbs: JSON.parse(row.verbs) as Verb[],
  to: row.to,
  includes_past: row.after_seq === null,
  granted_at: row.granted_at,
  granted_by: row.granted_by,
  expires_at: row.expires_at,
  revoked_at: row.revoked_at,
});

const toWriteToken = (row: Selectable<ControlTables['tokens']>): WriteToken => ({
  id: row.id,
  rack: row.rack,
  grant: row.grant,
  label: row.label,
  minted_at: row.minted_at,
  expires_at: row.expires_at,
  revoked_at: row.revoked_at,
});
