import { randomBytes } from 'node:crypto';
import type { Selectable } from 'kysely';
import { newSecret, secretFits, secretHash } from '../../signing/secret.ts';
import type { RackId } from '../../watch/index.ts';
import { RecorderError, type RecorderViolation } from '../errors.ts';
import type { Grant, Verb, WriteToken } from '../types.ts';
import type { ControlDatabase, ControlDb } from './database.ts';
import type { Review } from './review.ts';
import type { ControlTables } from './tables.ts';

const verbsKnown: readonly Verb[] = ['read', 'write'];
/** Ten years. */
const longest = 3650 * 86_400_000;
const longestLabel = 100;

/** Who may read a history, and who may mint tokens that write to it. */
export class Grants {
  readonly #control: ControlDatabase;
  readonly #review: Review;

  constructor(control: ControlDatabase, review: Review) {
    this.#control = control;
    this.#review = review;
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
        grants: (await grants.execute()).map(grantOf),
        tokens: (await tokens.execute()).map(tokenOf),
      };
    });
  }

  /** @throws RecorderError invalid */
  make(
    { rack, verbs, expiresAt, to }: { rack: RackId; verbs: readonly Verb[]; expiresAt: Date; to: string },
    by: string,
  ): Promise<Grant> {
    const violations = [
      ...verbFaults(verbs),
      ...expiryFaults(expiresAt, this.#control.now()),
      ...(/^(?:bearer|operator|peer:[^\s:]{1,100})$/.test(to)
        ? []
        : [{ path: 'to', message: `is '${to.slice(0, 60)}'; expected 'bearer' or 'peer:NAME'` }]),
    ];
    if (violations.length > 0)
      throw new RecorderError('invalid', 'invalid_grant', 'The grant is not valid.', { violations });
    const row = {
      id: newId('g'),
      rack,
      verbs: JSON.stringify(verbsKnown.filter((verb) => verbs.includes(verb))),
      to: to === 'operator' ? 'bearer' : to,
      granted_at: this.#control.time(),
      granted_by: by,
      expires_at: expiresAt.toISOString(),
      revoked_at: null,
    };
    return this.#control.transaction(async (tx) => {
      const grant = grantOf(
        await tx.insertInto('grants').values(row).returningAll().executeTakeFirstOrThrow(),
      );
      await this.#review.add(tx, { by, act: 'grant', rack, details: { before: null, after: grant } });
      return grant;
    });
  }

  /** A second time it changes nothing. @throws RecorderError not_found */
  revoke(id: string, by: string): Promise<Grant> {
    return this.#control.transaction(async (tx) => {
      const row = await tx.selectFrom('grants').selectAll().where('id', '=', id).executeTakeFirst();
      if (!row) throw unknown('grant', id);
      const before = grantOf(row);
      if (row.revoked_at !== null) return before;
      const revoked_at = this.#control.time();
      const after = { ...before, revoked_at };
      await tx.updateTable('grants').set({ revoked_at }).where('id', '=', id).execute();
      const ended = await tx
        .updateTable('tokens')
        .set({ revoked_at })
        .where('grant', '=', id)
        .where('revoked_at', 'is', null)
        .returning('id')
        .execute();
      const tokens = ended.map((token) => token.id);
      await this.#review.add(tx, {
        by,
        act: 'grant_revoked',
        rack: row.rack,
        details: { before, after, tokens },
      });
      return after;
    });
  }

  /**
   * It stands under the grant that lasts longest, of those `to` somebody where that is said, and never longer than that.
   * @throws RecorderError conflict, invalid
   */
  mint(
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
      ...(expiresAt ? expiryFaults(expiresAt, this.#control.now()) : []),
      ...(label !== undefined && label.length > longestLabel
        ? [{ path: 'label', message: `has ${label.length} characters; at most ${longestLabel}` }]
        : []),
    ];
    if (violations.length > 0)
      throw new RecorderError('invalid', 'invalid_token', 'The token is not valid.', { violations });
    const token = newSecret('write');
    return this.#control.transaction(async (tx) => {
      const now = this.#control.time();
      const grant = (await inForce(tx, now, rack))
        .filter((one) => one.verbs.includes('write') && (to === undefined || one.to === to))
        .sort((a, b) => (a.expires_at < b.expires_at ? 1 : -1))[0];
      if (!grant)
        throw new RecorderError(
          'conflict',
          'no_write_grant',
          `No grant${to === undefined ? '' : ` of ${to}`} to write to the rack '${rack}' is in force; make one first: recorder grant --rack ${rack} --verbs write --expires 30d${to === undefined ? '' : ` --to ${to}`}`,
        );
      const wanted = expiresAt?.toISOString() ?? grant.expires_at;
      const row = {
        id: newId('w'),
        rack,
        grant: grant.id,
        hash: secretHash(token),
        label: label ?? null,
        minted_at: now,
        minted_by: by,
        expires_at: wanted < grant.expires_at ? wanted : grant.expires_at,
        revoked_at: null,
      };
      const made = tokenOf(
        await tx.insertInto('tokens').values(row).returningAll().executeTakeFirstOrThrow(),
      );
      await this.#review.add(tx, { by, act: 'token', rack, details: { before: null, after: made } });
      return { ...made, token };
    });
  }

  /** A second time it changes nothing. @throws RecorderError not_found */
  revokeToken(id: string, by: string): Promise<WriteToken> {
    return this.#control.transaction(async (tx) => {
      const row = await tx.selectFrom('tokens').selectAll().where('id', '=', id).executeTakeFirst();
      if (!row) throw unknown('token', id);
      const before = tokenOf(row);
      if (row.revoked_at !== null) return before;
      const after = { ...before, revoked_at: this.#control.time() };
      await tx.updateTable('tokens').set({ revoked_at: after.revoked_at }).where('id', '=', id).execute();
      await this.#review.add(tx, { by, act: 'token_revoked', rack: row.rack, details: { before, after } });
      return after;
    });
  }

  /** Racks that somebody may read now. */
  async readable(by: string): Promise<Set<RackId>> {
    const grants = await this.#control.read((db) => inForce(db, this.#control.time()));
    return new Set(
      grants.filter(({ verbs, to }) => verbs.includes('read') && isFor(to, by)).map(({ rack }) => rack),
    );
  }

  /** The token of a secret, if it counts now. @throws RecorderError unauthorized, forbidden */
  async tokenOf(secret: string | null, by: string): Promise<{ id: string; rack: RackId }> {
    if (secret === null || secret === '')
      throw new RecorderError(
        'unauthorized',
        'write_token_missing',
        "This needs a write token: send it in the header 'x-svc-write-token'. `recorder token --rack RACK` makes one.",
      );
    const row = await this.#control.read(async (db) => {
      // Anything else is no write token, and not worth asking the database.
      if (!/^lathe_write_[\w-]{43}$/.test(secret)) return undefined;
      // The hash tells nothing of the secret: who tries secrets cannot choose how far it is like another one.
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
        ])
        .where('tokens.hash', '=', secretHash(secret))
        .executeTakeFirst();
      return found && secretFits(found.hash, secret) ? found : undefined;
    });
    const now = this.#control.time();
    const counts =
      row &&
      row.revoked_at === null &&
      row.grant_revoked_at === null &&
      row.expires_at > now &&
      row.grant_expires_at > now &&
      (JSON.parse(row.verbs) as Verb[]).includes('write');
    if (!counts)
      throw new RecorderError(
        'unauthorized',
        'write_token_invalid',
        "The write token in 'x-svc-write-token' does not count: it is unknown, expired or revoked. `recorder token --rack RACK` makes a new one.",
      );
    if (!isFor(row.to, by))
      throw new RecorderError(
        'forbidden',
        'write_token_of_another',
        `The write token stands under a grant to '${row.to}', and this request comes from '${by}'.`,
      );
    return { id: row.id, rack: row.rack };
  }
}

async function inForce(db: ControlDb, now: string, rack?: RackId): Promise<Grant[]> {
  const grants = db
    .selectFrom('grants')
    .selectAll()
    .where('revoked_at', 'is', null)
    .where('expires_at', '>', now);
  return (await (rack === undefined ? grants : grants.where('rack', '=', rack)).execute()).map(grantOf);
}

/** `bearer`: also whoever is the operator besides. */
export const isFor = (to: string, by: string): boolean =>
  to === 'bearer' ? by === 'bearer' || by === 'operator' : by === to;

function verbFaults(verbs: readonly Verb[]): RecorderViolation[] {
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

function expiryFaults(expiresAt: Date, now: Date): RecorderViolation[] {
  const ms = expiresAt.getTime() - now.getTime();
  if (Number.isNaN(ms)) return [{ path: 'expires', message: 'is no time' }];
  if (ms <= 0) return [{ path: 'expires', message: 'is in the past; expected a time to come' }];
  return ms > longest
    ? [{ path: 'expires', message: 'is more than ten years away; expected a nearer time' }]
    : [];
}

const newId = (prefix: string) => `${prefix}${randomBytes(8).toString('hex')}`;

const unknown = (what: 'grant' | 'token', id: string) =>
  new RecorderError(
    'not_found',
    `unknown_${what}`,
    `There is no ${what} '${id.slice(0, 80)}'; \`recorder grants\` lists them.`,
  );

const grantOf = (row: Selectable<ControlTables['grants']>): Grant => ({
  id: row.id,
  rack: row.rack,
  verbs: JSON.parse(row.verbs) as Verb[],
  to: row.to,
  granted_at: row.granted_at,
  granted_by: row.granted_by,
  expires_at: row.expires_at,
  revoked_at: row.revoked_at,
});

const tokenOf = (row: Selectable<ControlTables['tokens']>): WriteToken => ({
  id: row.id,
  rack: row.rack,
  grant: row.grant,
  label: row.label,
  minted_at: row.minted_at,
  expires_at: row.expires_at,
  revoked_at: row.revoked_at,
});
