import { randomBytes } from 'node:crypto';
import { type Belonging, EnvelopeError, type MasterKeys, seal, unseal } from './envelope.ts';
import type { CredentialRow } from './tables.ts';

/** What of a row its envelope is bound to: an account's key does not open in another one's row, nor for another URL. */
export const belongingOf = (
  row: Pick<CredentialRow, 'account_id' | 'provider' | 'id' | 'mode' | 'base_url' | 'last4'>,
): Belonging => [row.account_id, row.provider, row.id, row.mode, row.base_url, row.last4];

/** Of shorter keys four characters would tell too much. */
const shortestShown = 12;

/** @throws EnvelopeError where there is a key and no master key */
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

/** @throws EnvelopeError */
export function secretOf(masters: MasterKeys, row: CredentialRow): string {
  if (row.alg !== 'none') return unseal(masters, belongingOf(row), { ...row, alg: row.alg });
  if (row.mode === 'registered' && row.ciphertext === '') return '';
  throw new EnvelopeError('it is marked as one without a key, which only registered endpoints are');
}
