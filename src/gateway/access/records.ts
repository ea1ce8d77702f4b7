import { randomBytes } from 'node:crypto';
import { type Belonging, EnvelopeError, type MasterKeys, seal, unseal } from './envelope.ts';
import type { CredentialRow } from './tables.ts';

/** The columns that an envelope is bound to: a credential cannot be moved to another account or base URL. */
export const belongingOf = (
  row: Pick<CredentialRow, 'account_id' | 'provider' | 'id' | 'mode' | 'base_url' | 'last4'>,
): Belonging => [row.account_id, row.provider, row.id, row.mode, row.base_url, row.last4];

/** Keys shorter than this are not shown in part: four characters would reveal too much. */
const shortestShown = 12;

/** Builds a new record. @throws EnvelopeError when there is a key but no master key */
export function newRecord(
  masters: MasterKeys,
  apiKey: string,
  about: Pick<CredentialRow, 'account_id' | 'provider' | 'mode' | 'base_url' | 'created_at'>,
): CredentialRow {
  const row = {
    ...about,
    id: `c_${randomBytes(8).toString('hex')}`,
    status: 'active' as const,
    last4: apiKey.length < shortestShown ? '' : apiKey.slice(-4),
  };
  if (apiKey === '')
    return { ...row, alg: 'none', kek_id: '', wrapped_key: '', iv: '', tag: '', ciphertext: '' };
  return { ...row, ...seal(masters, belongingOf(row), apiKey) };
}

/** Decrypts the key of a record; empty for a record without a key. @throws EnvelopeError */
export function secretOf(masters: MasterKeys, row: CredentialRow): string {
  if (row.alg !== 'none') return unseal(masters, belongingOf(row), { ...row, alg: row.alg });
  if (row.mode === 'registered' && row.ciphertext === '') return '';
  throw new EnvelopeError('it is marked as having no key, which is allowed for registered endpoints only');
}
